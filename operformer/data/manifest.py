"""What a set of samples on disk is and what its files must be, byte for byte: manifest.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Literal

from operformer.domain import Grid
from operformer.domain.box import Bounds, checked_bounds
from operformer.domain.grid import Kind
from operformer.errors import DataError, OperformerError, UsageError
from operformer.files import read_bytes, write_bytes
from operformer.problems.problem import Boundary
from operformer.settings import construct
from operformer.text import shown
from operformer.values import parse_json

MANIFEST = "manifest.json"
FORMAT = 1
LARGEST = 2**28  # bytes of a manifest: a million shards


@dataclass(frozen=True)
class Fields:
    """What the channels of a set are called, at which times they hold, and what holds at the edge of the domain.

    With ``times``, u's channel and those of z are one field at these times.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    times: tuple[float, ...] | None = None
    boundary: Boundary = "open"
    constants: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)  # of the channels that have one, by name

    @property
    def series(self) -> str:
        """The name of the one field: vorticity, if its moments are vorticity_0, vorticity_1, ..."""
        return self.inputs[0].removesuffix("_0")


@dataclass(frozen=True)
class GridRecord:
    """A grid without its points, which uniform kinds do not need and the others keep in the shards."""

    kind: Kind
    shape: tuple[int, ...]
    bounds: Bounds

    @staticmethod
    def of(grid: Grid) -> GridRecord:
        """The record of a grid."""
        if grid.counts is not None:
            raise UsageError(f"a set on disk has one grid: got {grid}; keep one set for each, or train from memory")
        return GridRecord(grid.kind, grid.shape, grid.bounds)


@dataclass(frozen=True)
class Header:
    """What a set is, before its first pair is made.

    ``origin`` is the law and the draw (problem, seed, first), or the file that was imported.
    """

    title: str
    origin: Mapping[str, Any]
    count: int
    per_shard: int
    dtype: Literal["float32", "float64"]
    grid: GridRecord
    fields: Fields
    query: GridRecord | None = None  # where z is known, if not on the grid of u

    def __post_init__(self) -> None:
        u, z, times = self.fields.inputs, self.fields.outputs, self.fields.times
        if min(self.count, self.per_shard, len(u), len(z)) < 1:
            raise UsageError("a set holds at least one pair of functions")
        if times is not None and (len(u), len(z)) != (1, len(times) - 1):
            raise UsageError(f"one field at {len(times)} times is no {len(u)} to {len(z)} channels")
        for grid in (self.grid, self.z_grid):
            checked_bounds(grid.bounds, len(grid.bounds if grid.kind == "scattered" else grid.shape))
            if min(grid.shape, default=0) < 1:
                raise UsageError("a set holds functions on one point at least")
        if self.query is not None and times is not None:
            raise UsageError("one field at several times is on one grid")
        if not isinstance(self.origin, Mapping):
            raise UsageError("where a set comes from is a table")

    @property
    def n_shards(self) -> int:
        """How many files the pairs are divided into."""
        return -(-self.count // self.per_shard)

    @property
    def bytes_per_pair(self) -> int:
        """The size of u and z of one pair on disk."""
        u, z = len(self.fields.inputs) * prod(self.grid.shape), len(self.fields.outputs) * prod(self.z_grid.shape)
        return (u + z) * (4 if self.dtype == "float32" else 8)

    @property
    def z_grid(self) -> GridRecord:
        """The grid that z is known on."""
        return self.query or self.grid

    @property
    def plain(self) -> dict[str, Any]:
        """The header as JSON holds it; the query only where there is one."""
        values = asdict(self)
        return values if self.query is not None else _without(values, "query")

    def pairs_in(self, shards: range) -> int:
        """How many pairs some shards hold; the last shard of all may hold fewer than the others."""
        lacking = self.n_shards * self.per_shard - self.count
        return len(shards) * self.per_shard - (lacking if self.n_shards - 1 in shards else 0)

    def shard_range(self, index: int) -> tuple[int, int]:
        """The pairs of a shard: first and one past the last."""
        return index * self.per_shard, min(self.count, (index + 1) * self.per_shard)


@dataclass(frozen=True)
class ShardRecord:
    """One file: its name, how many pairs it holds, its size and checksum, and the worst of each check."""

    name: str
    count: int
    bytes: int
    sha256: str
    checks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """A finished set."""

    header: Header
    shards: tuple[ShardRecord, ...]

    def write(self, folder: Path) -> None:
        """Put manifest.json into the folder; from then on the set is whole."""
        values = {"header": self.header.plain, "shards": [asdict(shard) for shard in self.shards]}
        write_bytes(folder / MANIFEST, encode(values))

    @staticmethod
    def read(folder: Path) -> Manifest:
        """The manifest of a folder, refused unless it is exactly what was written."""
        path = folder / MANIFEST
        header, values = read_header(path), decode(path)
        with _refusing_others(path):
            shards = tuple(construct(ShardRecord, record, "shard") for record in values["shards"])
            if len(shards) != header.n_shards:
                raise ValueError(f"it has {len(shards)} shards for {header.count} pairs, {header.per_shard} in each")
            for index, shard in enumerate(shards):
                if shard.name != shard_name(index):
                    raise ValueError(f"shard {index} is called {shard.name!r}")
                if shard.count != header.pairs_in(range(index, index + 1)):
                    raise ValueError("its shards do not add up to its pairs")
                if shard.bytes < shard.count * header.bytes_per_pair:
                    shape = header.grid.shape
                    raise ValueError(f"{shard.count} pairs of shape {shape} do not go into {shard.bytes} bytes")
                if not isinstance(shard.checks, dict) or not all(type(v) is float for v in shard.checks.values()):
                    raise ValueError("a check is no number")
        return Manifest(header, shards)


def read_header(path: Path) -> Header:
    """What the set of a manifest is, or will be."""
    everything = decode(path)
    with _refusing_others(path):
        values = everything["header"]
        grids = {
            name: construct(GridRecord, {**values[name], "bounds": [tuple(b) for b in values[name]["bounds"]]}, name)
            for name in ("grid", "query")
            if name in values
        }
        fields = construct(Fields, values["fields"], "fields")
        return construct(Header, _without(values, "grid", "query", "fields"), "header", fields=fields, **grids)


def shard_name(index: int) -> str:
    """shard-00007.hdf5."""
    return f"shard-{index:05d}.hdf5"


@contextmanager
def _refusing_others(path: Path) -> Iterator[None]:
    """Turn whatever values of another kind raise into one line about the file."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OperformerError) as error:
        reason = shown(str(error), 160, quoted=False)
        raise DataError(f"{path} is no manifest of pairs ({reason}); make the set again") from None


def encode(values: Mapping[str, Any]) -> bytes:
    """Values as JSON with a checksum of their own."""
    body = {"format": FORMAT, **values}
    return _text(body | {"checksum": hashlib.sha256(_text(body)).hexdigest()})


def decode(path: Path) -> dict[str, Any]:
    """The values of a file that `encode` wrote; a file that differs from it in one bit is refused."""
    content = read_bytes(path, LARGEST)  # one look: another process may be about to remove it
    try:
        values = parse_json(content)
        is_whole = isinstance(values, dict) and content == encode(_without(values, "format", "checksum"))
    except (ValueError, RecursionError):
        is_whole = False
    if not is_whole:
        raise DataError(f"{path} is damaged: its checksum is wrong; remove {path.parent} and make the set again")
    return _without(values, "format", "checksum")


def _text(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in names}
