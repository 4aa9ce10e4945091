"""Pairs from elsewhere kept as a set of their own: the same shards, checksums and manifest as a generated one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from operformer.data.generation import begin, finish, pairs_per_shard, save_shard
from operformer.data.manifest import GridRecord, Header
from operformer.data.shard import Fields
from operformer.errors import UsageError
from operformer.problems.problem import Boundary, Samples


def store(samples: Samples, folder: str | Path, title: str, origin: Mapping[str, Any]) -> None:
    """Keep pairs in a folder, in float32 or float64; ``origin`` says in plain values where they come from."""
    if not len(samples):
        raise UsageError("there are no pairs to keep; give at least one")
    folder = Path(folder)
    dtype = torch.promote_types(samples.u.dtype, samples.z.dtype)
    samples = samples.to("cpu", dtype if dtype == torch.float64 else torch.float32)
    header = _header(samples, title, {**origin, "sha256": _digest(samples)})
    todo = begin(folder, header, range(header.n_shards))
    for index in todo:
        first, last = header.shard_range(index)
        save_shard(folder, header, index, samples[first:last])
    finish(folder, header, todo)


def _header(samples: Samples, title: str, origin: Mapping[str, Any]) -> Header:
    inputs, outputs = (
        tuple(f"{name}_{k}" for k in range(channels)) if channels > 1 else (name,)
        for name, channels in zip("uz", samples.channels, strict=True)
    )
    dtype: Literal["float32", "float64"] = "float64" if samples.u.dtype == torch.float64 else "float32"
    boundary: Boundary = "periodic" if samples.grid.kind == "periodic" else "open"
    record = GridRecord.of(samples.grid)
    plain = json.loads(json.dumps(dict(origin)))
    fields = Fields(inputs, outputs, None, boundary)
    return pairs_per_shard(Header(title, plain, len(samples), 1, dtype, record, fields))


def _digest(samples: Samples) -> str:
    """SHA-256 of the values and of where they are known: the same file name need not hold the same pairs."""
    digest = hashlib.sha256()
    for values in (samples.u, samples.z, samples.grid.points, samples.grid.weights):
        for part in values.split(64):
            digest.update(part.contiguous().cpu().numpy().data)
    return digest.hexdigest()
