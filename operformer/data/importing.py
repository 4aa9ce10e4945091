"""Samples from elsewhere kept as a set of their own: the same shards, checksums and manifest as a generated one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from operformer.data.contents import WeightsName
from operformer.data.exchange import ChannelNames, channel_names, pairs_of_a_trajectory, read_blocks, where_points_are
from operformer.data.generation import begin, finish, pairs_per_shard, save_shard
from operformer.data.manifest import Fields, GridRecord, Header
from operformer.data.options import Options
from operformer.data.store import StoredPairs, open_pairs
from operformer.domain import Grid, Samples
from operformer.domain.box import GivenBounds
from operformer.domain.grid import UniformKind
from operformer.domain.samples import concatenate
from operformer.errors import UsageError
from operformer.files import held
from operformer.problems.problem import Boundary

BLOCK = 64  # samples that are read together, so that a file need not fit into memory


def import_pairs(
    path: str | Path,
    folder: str | Path,
    u: str | list[str] | None = None,
    z: str | list[str] | None = None,
    *,
    layout: str | tuple[str, str] | None = None,
    steps: tuple[int, int] | None = None,
    lead: int | None = None,
    grid: Grid | UniformKind | Sequence[UniformKind] | None = None,
    bounds: GivenBounds | None = None,
    weights: WeightsName = "voronoi",
    axes: Sequence[str] | None = None,
    coarser: str | Path | None = None,
    query: Grid | str | Sequence[str] | None = None,
    parameters: Sequence[str] = (),
    functionals: Sequence[str] = (),
    skip: Sequence[int] = (),
) -> StoredPairs:
    """Keep the samples of a file as a set, which is read a few at a time.

    Args:
        path: The file, as for `operformer.read`.
        folder: The folder of the set. It is empty, does not exist, or holds the same set.
        u, z, layout, steps, lead, grid, bounds, weights, axes, coarser, query, parameters, functionals: What
            the file does not say, as for `operformer.read`.
        skip: Samples to leave out, counted from 0, such as those that hold NaN.

    Returns:
        The set.
    """
    numbers = {"parameters": parameters, "functionals": functionals}
    given = Options(u, z, layout, steps, lead, grid, bounds, weights, None, axes, coarser, query, **numbers)
    blocks = partial(_without, partial(read_blocks, path, BLOCK, given), sorted(set(skip)))
    options: dict[str, Any] = {"u": u, "z": z, "layout": layout, "steps": steps, "lead": lead, "bounds": bounds}
    options |= {"grid": repr(grid) if isinstance(grid, Grid) else grid, "axes": axes}
    options |= {"query": repr(query) if isinstance(query, Grid) else query}
    options |= {name: list(given) or None for name, given in numbers.items()}
    options |= {"skip": sorted(set(skip)) or None, "weights": None if weights == "voronoi" else weights}
    options |= {"coarser": None if coarser is None else Path(coarser).name}
    origin: dict[str, Any] = {
        "file": Path(path).name,
        "options": {name: value for name, value in options.items() if value is not None},
    }
    origin["points"] = where_points_are(path, given)
    if lead is not None and not skip:
        origin["trajectory"] = {"pairs": pairs_of_a_trajectory(path, given), "lead": lead}
    return _store(blocks, Path(folder), Path(path).stem or "imported", origin, channel_names(path, given))


def _without(blocks: Callable[[], Iterable[Samples]], skip: Sequence[int]) -> Iterator[Samples]:
    """The blocks without some of the samples, which have to be there."""
    first = 0
    for block in blocks():
        here = {k - first for k in skip}
        kept = torch.tensor([k for k in range(len(block)) if k not in here], dtype=torch.long)
        first += len(block)
        if len(kept):
            yield block if len(kept) == len(block) else block[kept]
    if skip and not 0 <= skip[0] <= skip[-1] < first:
        raise UsageError(f"samples to skip are 0 to {first - 1}: got {', '.join(map(str, skip))}")


def store(samples: Samples, folder: str | Path, title: str, origin: Mapping[str, Any]) -> StoredPairs:
    """Keep samples that are in memory as a set.

    Args:
        samples: The functions, on a grid that they share.
        folder: The folder of the set. It is empty, does not exist, or holds the same set.
        title: What the set is called.
        origin: Where the samples come from, in plain values.

    Returns:
        The set.
    """
    return _store(partial(samples.blocks, BLOCK), Path(folder), title, origin)


def _store(
    blocks: Callable[[], Iterable[Samples]],
    folder: Path,
    title: str,
    origin: Mapping[str, Any],
    names: ChannelNames | None = None,
) -> StoredPairs:
    """Look at all blocks once for what the header says of them, and once more to keep them."""
    count, digest, block, first = 0, hashlib.sha256(), None, None
    for block in map(_storable, blocks()):
        first = block.grid if first is None else first
        if not torch.equal(first.points, block.grid.points):
            raise UsageError(
                f"a set on disk has one grid, here each sample has its own: got {first} and {block.grid}; read them "
                "with operformer.read and train in Python"
            )
        count += len(block)
        for values in (block.u, block.z):
            digest.update(values.contiguous().numpy().data)
    if block is None or not count:
        raise UsageError("there are no pairs to keep; give at least one")
    grids = (block.grid,) if block.query is None else (block.grid, block.query)
    for values in (values for grid in grids for values in (grid.points, grid.weights)):
        digest.update(values.contiguous().cpu().numpy().data)
    # The same file name need not hold the same samples.
    plain = json.loads(json.dumps({**origin, "sha256": digest.hexdigest()}))
    if names is None:
        inputs, outputs = (
            tuple(f"{name}_{k}" for k in range(channels)) if channels > 1 else (name,)
            for name, channels in zip("uz", block.channels, strict=True)
        )
        names = ChannelNames(inputs, outputs, {})
    boundary: Boundary = "periodic" if {grid.kind for grid in grids} == {"periodic"} else "open"
    fields = Fields(names.inputs, names.outputs, None, boundary, units=names.units)
    dtype: Literal["float32", "float64"] = "float64" if block.u.dtype == torch.float64 else "float32"
    records = GridRecord.of(block.grid), None if block.query is None else GridRecord.of(block.query)
    header = pairs_per_shard(Header(title, plain, count, 1, dtype, records[0], fields, records[1]))
    todo = begin(folder, header, range(header.n_shards))
    with held(folder, create=False):
        for index, samples in enumerate(_regroup(map(_storable, blocks()), header.per_shard)):
            if index in todo:
                save_shard(folder, header, index, samples)
        finish(folder, header, todo)
    return open_pairs(folder)


def _storable(samples: Samples) -> Samples:
    """On the CPU, u and z in float32, or in float64 if one of them is."""
    dtype = torch.promote_types(samples.u.dtype, samples.z.dtype)
    return samples.to("cpu", dtype if dtype == torch.float64 else torch.float32)


def _regroup(blocks: Iterable[Samples], size: int) -> Iterator[Samples]:
    """The same samples, so many at a time."""
    waiting: list[Samples] = []
    for block in blocks:
        waiting.append(block)
        while sum(map(len, waiting)) >= size:
            together = concatenate(waiting)
            yield together[:size]
            waiting = [together[size:]] if len(together) > size else []
    if waiting:
        yield concatenate(waiting)
