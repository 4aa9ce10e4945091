"""Pairs from elsewhere kept as a set of their own: the same shards, checksums and manifest as a generated one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from operformer.data.fields import Fields
from operformer.data.generation import check_space, claim, finish, is_made, pairs_per_shard, save_shard
from operformer.data.manifest import GridRecord, Header
from operformer.data.reading import read_blocks
from operformer.data.reading.contents import UniformKind
from operformer.data.store import StoredPairs, open_pairs
from operformer.domain import Grid
from operformer.domain.box import GivenBounds
from operformer.files import remove_abandoned
from operformer.problems.problem import Boundary, Samples, concatenate

BLOCK = 64  # pairs that are read together, so that a file need not fit into memory


def import_pairs(
    path: str | Path,
    folder: str | Path,
    u: str | list[str] | None = None,
    z: str | list[str] | None = None,
    *,
    layout: str | None = None,
    steps: tuple[int, int] | None = None,
    lead: int | None = None,
    grid: Grid | UniformKind | None = None,
    bounds: GivenBounds | None = None,
) -> StoredPairs:
    """Read a file as `operformer.read` does, some pairs at a time, and keep them in a folder."""
    blocks = partial(read_blocks, path, u=u, z=z, layout=layout, steps=steps, lead=lead, grid=grid, bounds=bounds)
    options = {"u": u, "z": z, "layout": layout, "steps": steps, "lead": lead, "bounds": bounds}
    options |= {"grid": repr(grid) if isinstance(grid, Grid) else grid}
    origin = {"file": Path(path).name, "options": {name: value for name, value in options.items() if value is not None}}
    return _store(lambda: blocks(BLOCK), Path(folder), Path(path).stem, origin)


def store(samples: Samples, folder: str | Path, title: str, origin: Mapping[str, Any]) -> StoredPairs:
    """Keep pairs that are in memory in a folder; ``origin`` says in plain values where they come from."""
    return _store(lambda: samples.blocks(BLOCK), Path(folder), title, origin)


def _store(blocks: Callable[[], Iterable[Samples]], folder: Path, title: str, origin: Mapping[str, Any]) -> StoredPairs:
    count = 0
    for block in blocks():
        count += len(block)
    header = _header(block, count, title, origin)
    remove_abandoned(folder)
    claim(folder, header)
    todo = [index for index in range(header.n_shards) if not is_made(folder, index)]
    check_space(folder, header, len(todo))
    for index, samples in enumerate(_regroup(blocks(), header.per_shard)):
        if index in todo:
            save_shard(folder, header, index, samples)
    finish(folder, header, todo)
    return open_pairs(folder)


def _regroup(blocks: Iterable[Samples], size: int) -> Iterator[Samples]:
    """The same pairs, so many at a time."""
    waiting: list[Samples] = []
    for block in blocks:
        waiting.append(block)
        while sum(map(len, waiting)) >= size:
            together = concatenate(waiting)
            yield together[:size]
            waiting = [together[size:]] if len(together) > size else []
    if waiting:
        yield concatenate(waiting)


def _header(samples: Samples, count: int, title: str, origin: Mapping[str, Any]) -> Header:
    inputs, outputs = (
        tuple(f"{name}_{k}" for k in range(channels)) if channels > 1 else (name,)
        for name, channels in zip("uz", samples.channels, strict=True)
    )
    boundary: Boundary = "periodic" if samples.grid.kind == "periodic" else "open"
    dtype = str(samples.u.dtype).removeprefix("torch.")
    plain = json.loads(json.dumps(dict(origin)))
    fields = Fields(inputs, outputs, None, boundary)
    return pairs_per_shard(Header(title, plain, count, 1, dtype, GridRecord.of(samples.grid), fields))
