"""Pairs from elsewhere kept as a set of their own: the same shards, checksums and manifest as a generated one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operformer.data.generation import check_space, claim, finish, is_made, pairs_per_shard, save_shard
from operformer.data.manifest import GridRecord, Header
from operformer.data.shard import Fields
from operformer.files import remove_abandoned
from operformer.problems.problem import Boundary, Samples


def store(samples: Samples, folder: str | Path, title: str, origin: Mapping[str, Any]) -> None:
    """Keep pairs in a folder; ``origin`` says in plain values where they come from."""
    folder = Path(folder)
    header = _header(samples, title, origin)
    remove_abandoned(folder)
    claim(folder, header)
    todo = [index for index in range(header.n_shards) if not is_made(folder, index)]
    check_space(folder, header, len(todo))
    for index in todo:
        first, last = header.shard_range(index)
        save_shard(folder, header, index, samples[first:last])
    finish(folder, header, todo)


def _header(samples: Samples, title: str, origin: Mapping[str, Any]) -> Header:
    inputs, outputs = (
        tuple(f"{name}_{k}" for k in range(channels)) if channels > 1 else (name,)
        for name, channels in zip("uz", samples.channels, strict=True)
    )
    dtype = str(samples.u.dtype).removeprefix("torch.")
    boundary: Boundary = "periodic" if samples.grid.kind == "periodic" else "open"
    record = GridRecord.of(samples.grid)
    plain = json.loads(json.dumps(dict(origin)))
    fields = Fields(inputs, outputs, None, boundary)
    return pairs_per_shard(Header(title, plain, len(samples), 1, dtype, record, fields))
