"""Samples on disk: a folder of shards and its manifest, read a few at a time; and such a set as a problem.

    FOLDER/  manifest.json  shard-00000.hdf5  shard-00001.hdf5  ...

A shard is compared with its checksum before the first value is taken from it. What HDF5 says of a damaged file is not
relied on: it reads unwritten chunks as zeros and finds flipped bits in data good.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from os import getpid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from operformer.checking import checked
from operformer.data.manifest import MANIFEST, GridRecord, Manifest, ShardRecord
from operformer.domain import Grid, Samples
from operformer.domain.box import Bounds
from operformer.domain.dataset import Dataset, as_row, is_number
from operformer.domain.grid import UNIFORM_KINDS, positions, refused_index
from operformer.domain.interpolation import nested_grids
from operformer.errors import DataError, UsageError
from operformer.problems import Symmetry
from operformer.problems.problem import Problem
from operformer.problems.symmetry import named_symmetries

if TYPE_CHECKING:
    from operformer.data.shard import Shard

OPEN_SHARDS = 8  # each takes some MiB for the places of its chunks


@checked
def open_pairs(folder: str | Path) -> StoredPairs:
    """The set that `operformer generate` or `operformer import` left in a folder.

    Args:
        folder: The folder of the set.

    Returns:
        The samples, which stay on disk until they are used.
    """
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        raise DataError(f"{folder} holds no finished set of pairs; make one with operformer generate or import")
    manifest = Manifest.read(folder)
    shelf = _Shelf(folder, manifest)
    header = manifest.header
    grid = _grid(shelf, header.grid, "dimensions")
    query = None if header.query is None else _grid(shelf, header.query, "query")
    return StoredPairs(shelf, grid, query, range(header.count))


class StoredPairs(Dataset):
    """Samples on disk (`Pairs`), in the precision they are stored in.

    A slice stays on disk. Samples chosen by a row of indices, or by one, come to memory. As a dataset of PyTorch's
    DataLoader it may have any workers: each opens the files for itself.
    """

    def __init__(self, shelf: _Shelf, grid: Grid, query: Grid | None, chosen: range) -> None:
        self._shelf, self._chosen = shelf, chosen
        self.grid, self.query = grid, query

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self._shelf.folder

    @property
    def manifest(self) -> Manifest:
        """What the whole set is."""
        return self._shelf.manifest

    @property
    def channels(self) -> tuple[int, int]:
        """How many components u and z have."""
        fields = self.manifest.header.fields
        return len(fields.inputs), len(fields.outputs)

    @property
    def first(self) -> int:
        """Which pair of the whole set is the first one."""
        return self._chosen.start

    @property
    def trajectory(self) -> tuple[int, int] | None:
        """How many pairs of a trajectory follow each other, and how many steps z comes after u; None in other sets."""
        found = self.manifest.header.origin.get("trajectory")
        pairs, lead = (found.get("pairs"), found.get("lead")) if isinstance(found, Mapping) else (None, None)
        if not (isinstance(pairs, int) and isinstance(lead, int) and min(pairs, lead) > 0 and self._chosen.step == 1):
            return None
        return pairs, lead

    def __len__(self) -> int:
        return len(self._chosen)

    def __repr__(self) -> str:
        inputs, outputs = self.channels
        header = self.manifest.header
        grids = f"{self.grid}" if self.query is None else f"{self.grid} to {self.query}"
        return f"StoredPairs({len(self)} of {header.title}, {inputs} to {outputs} channels, {header.dtype}, {grids})"

    @overload
    def __getitem__(self, index: slice) -> StoredPairs: ...

    @overload
    def __getitem__(self, index: Tensor | list[int]) -> Samples: ...

    @overload
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]: ...

    def __getitem__(self, index: slice | Tensor | list[int] | int) -> StoredPairs | Samples | tuple[Tensor, Tensor]:
        if is_number(index):
            return self.__getitems__([index])[0]  # type: ignore[list-item]
        index = as_row(index)
        if isinstance(index, slice):
            return StoredPairs(self._shelf, self.grid, self.query, self._chosen[index])
        if not isinstance(index, Tensor):
            raise refused_index(index)
        return self._take([self._chosen[position] for position in positions(index, len(self))])

    def blocks(self, count: int) -> Iterator[Samples]:
        """All pairs in their order, so many at a time in memory."""
        for first in range(0, len(self), count):
            yield self._take(list(self._chosen[first : first + count]))

    def read(self) -> Samples:
        """All pairs, in memory."""
        return self._take(list(self._chosen))

    def _take(self, pairs: list[int]) -> Samples:
        return Samples(*self._shelf.take(pairs), self.grid, self.query)

    def verify(self) -> None:
        """Compare every shard with its checksum."""
        for index in range(len(self.manifest.shards)):
            self._shelf.verify(index)


@dataclass(frozen=True)
class Imported(Problem):
    """A set of samples as a problem to learn, on the set's grid. It has no law, so nothing can be drawn from it.

    ``symmetry`` names what is known of the law nevertheless, for ``training.augment``; see `named_symmetries`.
    """

    folder: str
    symmetry: tuple[str, ...] = ()

    has_law = False

    @property
    def query(self) -> Grid | None:
        """Where the set's z is known, if not on the grid of u."""
        return self.stored.query

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """Those that the user names."""
        stored = self.stored
        return named_symmetries(self.symmetry, stored.grid.dim, stored.channels)

    @property
    def stored(self) -> StoredPairs:
        """All samples, on disk."""
        return open_pairs(self.folder)

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the set calls u's channels."""
        return self.stored.manifest.header.fields.inputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the set calls z's channels."""
        return self.stored.manifest.header.fields.outputs

    @property
    def units(self) -> Mapping[str, str]:
        """What the set's file says of them."""
        return self.stored.manifest.header.fields.units

    @property
    def bounds(self) -> Bounds:
        """The box that the set's grid lies in."""
        return self.stored.grid.bounds

    def grid(self, resolution: int) -> Grid:
        """The set's own grid, whatever the resolution."""
        return self.stored.grid

    def evaluation_grids(self, resolution: int) -> dict[str, Grid]:
        """The set's own grid, and coarser ones whose points are among its own: z is not known elsewhere."""
        nested = {f"{1 / k:.3g}x": grid for k, grid in nested_grids(self.stored.grid).items()}
        return dict(reversed(nested.items())) | {"1x": self.stored.grid}

    def _solve(self, draws: Sequence[np.random.Generator], grid: Grid) -> Samples:
        raise UsageError(f"{self.folder} holds pairs and no law: they are known on their own grid only")


class _Shelf:
    """The shards of a folder: checked when first touched, the last few kept open."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._ends = list(accumulate(shard.count for shard in manifest.shards))
        self._verified: set[int] = set()
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._process = getpid()
        for record in manifest.shards:
            check_size(folder, record)

    def take(self, pairs: list[int]) -> tuple[Tensor, Tensor]:
        """u and z of the pairs in the given order. Each shard is visited once, runs of neighbours together."""
        header = self.manifest.header
        names = (header.fields.inputs, header.grid), (header.fields.outputs, header.z_grid)
        dtype = getattr(torch, header.dtype)
        u, z = (torch.empty(len(pairs), len(channels), *grid.shape, dtype=dtype) for channels, grid in names)
        order = sorted(range(len(pairs)), key=pairs.__getitem__)
        for index, places in groupby(order, key=lambda place: bisect_right(self._ends, pairs[place])):
            shard, begin = self.shard(index), self._ends[index - 1] if index else 0
            for _, numbered in groupby(enumerate(places), key=lambda one: pairs[one[1]] - one[0]):
                run = [place for _, place in numbered]
                first, last = pairs[run[0]] - begin, pairs[run[-1]] - begin + 1
                u[run], z[run] = shard.read(first, last)
        return u, z

    def __getstate__(self) -> dict[str, Any]:
        # Open files stay where they are, and another process looks at the checksums for itself.
        return {**vars(self), "_open": OrderedDict(), "_verified": set(), "_process": None}

    def shard(self, index: int) -> Shard:
        """An open shard."""
        from operformer.data.shard import Shard  # brings h5py

        if self._process != getpid():  # a forked worker leaves the files of its parent alone
            self._open, self._process = OrderedDict(), getpid()
        self.verify(index)
        if index not in self._open:
            record, header = self.manifest.shards[index], self.manifest.header
            path, shapes = self.folder / record.name, (header.grid.shape, header.z_grid.shape)
            self._open[index] = Shard(path, header.fields, record.count, shapes, header.dtype)
            if len(self._open) > OPEN_SHARDS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(index)
        return self._open[index]

    def verify(self, index: int) -> None:
        """Refuse a shard that is not what was written."""
        if index not in self._verified:
            record = self.manifest.shards[index]
            check_size(self.folder, record)
            if checksum(self.folder / record.name) != record.sha256:
                raise DataError(f"{self.folder / record.name} is damaged: its checksum is wrong; {_REMEDY}")
            self._verified.add(index)


_REMEDY = "run the command that made the set again to repair it"


def check_size(folder: Path, record: ShardRecord) -> None:
    """Refuse a shard that is missing or has another size than it was written with."""
    path = folder / record.name
    if not path.is_file():
        raise DataError(f"{path} is missing; {_REMEDY}")
    if path.stat().st_size != record.bytes:
        raise DataError(f"{path} is damaged: it has {path.stat().st_size} bytes, not {record.bytes}; {_REMEDY}")


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _grid(shelf: _Shelf, record: GridRecord, group: Literal["dimensions", "query"]) -> Grid:
    """The grid of a set's u or z: uniform ones from their record, others from a group of the first shard."""
    path = shelf.folder / (MANIFEST if record.kind in UNIFORM_KINDS else shelf.manifest.shards[0].name)
    try:
        if record.kind in UNIFORM_KINDS:
            return Grid.uniform(record.shape, bounds=record.bounds, kind=record.kind)
        coordinates = shelf.shard(0).coordinates(group)
        if record.kind == "scattered":
            points, weights, cells = coordinates["points"], coordinates["weights"], coordinates.get("cells")
            grid = Grid.scattered(points, bounds=record.bounds)
            if cells is not None:
                grid = Grid.mesh(points, cells.long(), record.bounds)
            elif not torch.equal(
                grid.weights, weights
            ):  # equal ones count as none given: an operator may leave them out
                grid = Grid.scattered(points, weights, record.bounds)
        else:
            grid = Grid.rectilinear(*(coordinates[name] for name in "xyz"[: len(record.shape)]), bounds=record.bounds)
    except (KeyError, UsageError) as error:
        raise DataError(f"{path} has no coordinates of a {record.kind} grid ({error})") from None
    if grid.shape != record.shape:
        raise DataError(f"{path} has coordinates of {grid.shape} points, not {record.shape} as its manifest says")
    return grid
