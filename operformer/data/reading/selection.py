"""The arrays of an open file that are u and z: read a part at a time, samples first, channels second."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from operformer.data.reading.contents import Array, check_memory
from operformer.data.reading.layout import (
    Layout,
    as_floats,
    channels_first,
    space_of,
)
from operformer.domain import Grid, Samples
from operformer.domain.samples import is_point


@dataclass(frozen=True)
class Field:
    """An array and what its axes are."""

    array: Array
    layout: Layout

    def read(self, space: Layout, samples: slice, times: slice) -> np.ndarray:
        """Its values as (b, t, c, *space), read from the file now."""
        index = tuple({"b": samples, "t": times}.get(letter, slice(None)) for letter in self.layout)
        return channels_first(as_floats(self.array[index]), self.layout, space)


@dataclass(frozen=True)
class Selection:
    """The pairs of an open file; reading any of them touches only what they need."""

    path: Path
    u: list[Field]
    z: list[Field]
    extent: dict[str, int]
    times: tuple[range, range]
    grid: Grid

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return self.extent.get("b", 1) * len(self.times[0])

    def read(self, begin: int, end: int) -> Samples:
        """The pairs begin, ..., end - 1; those of one trajectory follow each other."""
        u, z = self.inputs(begin, end), self._values(self.z, self.times[1], begin, end)
        dtype = torch.promote_types(u.dtype, z.dtype)
        return Samples(u.to(dtype), z.to(dtype), self.grid.of_samples(slice(begin, end)))

    def inputs(self, begin: int, end: int) -> Tensor:
        """u of the pairs begin, ..., end - 1."""
        return self._values(self.u, self.times[0], begin, end)

    def _values(self, fields: list[Field], times: range, begin: int, end: int) -> Tensor:
        """The channels of some fields, one after the other: (end - begin, channels, *shape)."""
        per_sample, space = len(times), space_of(tuple(self.extent))
        samples = slice(begin // per_sample, -(-end // per_sample))
        n_samples = samples.stop - samples.start
        self._check_memory(fields, n_samples * per_sample)
        parts = [field.read(space, samples, slice(times.start, times.stop)) for field in fields]
        shape = tuple(self.extent[letter] for letter in space)
        whole = [np.broadcast_to(part, (n_samples, per_sample, part.shape[2], *shape)) for part in parts]
        joined = np.concatenate(whole, axis=2).reshape(n_samples * per_sample, -1, *shape)
        skipped = begin - samples.start * per_sample
        values = torch.from_numpy(np.ascontiguousarray(joined[skipped : skipped + end - begin]))
        if self.grid.counts is None:
            return values
        return values.where(is_point(self.grid.of_samples(slice(begin, end))), 0.0)  # beyond the points may be anything

    def _check_memory(self, fields: list[Field], count: int) -> None:
        """Room for so many states, and for a copy while their axes are moved."""
        stored = sum(prod(field.array.shape) * max(4, field.array.dtype.itemsize) for field in fields)
        states = self.extent.get("b", 1) * self.extent.get("t", 1)
        check_memory(2 * stored * count // states, self.path)
