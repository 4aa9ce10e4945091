"""What a set of pairs on disk is and what its files must be, byte for byte: manifest.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from operformer.data.fields import Fields
from operformer.domain import Grid
from operformer.domain.box import Bounds
from operformer.domain.grid import Kind
from operformer.errors import DataError, OperformerError
from operformer.files import read_bytes, write_bytes
from operformer.settings import construct

MANIFEST = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class GridRecord:
    """A grid without its points, which uniform kinds do not need and the others keep in the shards."""

    kind: Kind
    shape: tuple[int, ...]
    bounds: Bounds

    @staticmethod
    def of(grid: Grid) -> GridRecord:
        """The record of a grid."""
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
    dtype: str
    grid: GridRecord
    fields: Fields

    @property
    def n_shards(self) -> int:
        """How many files the pairs are divided into."""
        return -(-self.count // self.per_shard)

    @property
    def bytes_per_pair(self) -> int:
        """The size of u and z of one pair on disk."""
        channels = len(self.fields.inputs) + len(self.fields.outputs)
        return channels * prod(self.grid.shape) * (4 if self.dtype == "float32" else 8)

    def pairs_in(self, index: int) -> int:
        """How many pairs a shard holds."""
        start, stop = self.shard_range(index)
        return stop - start

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
        values = {"header": asdict(self.header), "shards": [asdict(shard) for shard in self.shards]}
        write_bytes(folder / MANIFEST, encode(values))

    @staticmethod
    def read(folder: Path) -> Manifest:
        """The manifest of a folder, refused unless it is exactly what was written."""
        path = folder / MANIFEST
        values = decode(path)
        try:
            shards = tuple(construct(ShardRecord, record, "shard") for record in values["shards"])
            manifest = Manifest(header_of(values["header"]), shards)
            header = manifest.header
            if [shard.count for shard in shards] != [header.pairs_in(index) for index in range(header.n_shards)]:
                raise ValueError("its shards do not add up to its pairs")
            if any(Path(shard.name).name != shard.name for shard in shards):
                raise ValueError("a shard lies outside its folder")
        except (KeyError, TypeError, ValueError, OperformerError) as error:
            raise DataError(f"{path} is no manifest of pairs ({error}); make the set again") from None
        return manifest


def header_of(values: Mapping[str, Any]) -> Header:
    """The header that plain values describe."""
    grid = construct(GridRecord, {**values["grid"], "bounds": [tuple(b) for b in values["grid"]["bounds"]]}, "grid")
    fields = construct(Fields, values["fields"], "fields")
    rest = {key: value for key, value in values.items() if key not in ("grid", "fields")}
    return construct(Header, rest, "header", grid=grid, fields=fields)


def encode(values: Mapping[str, Any]) -> bytes:
    """Values as JSON with a checksum of their own."""
    body = {"format": FORMAT, **values}
    return _text(body | {"checksum": hashlib.sha256(_text(body)).hexdigest()})


def decode(path: Path) -> dict[str, Any]:
    """The values of a file that `encode` wrote; a file that differs from it in one bit is refused."""
    content = read_bytes(path)
    try:
        values = json.loads(content)
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
