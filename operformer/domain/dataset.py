"""Samples as a dataset of PyTorch: an integer index, iteration, and several at once, as its DataLoader asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from operformer.domain.grid import Grid

if TYPE_CHECKING:
    from operformer.domain.samples import Samples

BLOCK = 64  # samples that are read together, so that a set on disk need not fit into memory


class Dataset:
    """What samples in memory and on disk share: ``samples[3]`` is one (u, z), and so is each item of an iteration.

    A function on a ragged grid comes without its padding. ``samples[[3, 5]]`` are `Samples`, which carry their grid.
    """

    grid: Grid

    def blocks(self, count: int) -> Iterator[Samples]:
        """All samples in their order, ``count`` at a time in memory."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for block in self.blocks(BLOCK):
            yield from _pairs(block)

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, Tensor]]:
        """Several (u, z), read together; DataLoader calls it with the indices of a batch."""
        return _pairs(self[torch.tensor(indices, dtype=torch.long)])  # type: ignore[index]


def is_number(index: object) -> bool:
    """Whether one sample is meant."""
    return isinstance(index, int | np.integer) and not isinstance(index, bool)


def as_row(index: Any) -> Any:
    """A list of whole numbers as a row of indices; all else as it is."""
    if isinstance(index, list) and index and all(is_number(one) for one in index):
        return torch.tensor(index, dtype=torch.long)
    return index


def _pairs(samples: Samples) -> list[tuple[Tensor, Tensor]]:
    there = samples.grid if samples.query is None else samples.query
    u, z = (_unpadded(values, grid) for values, grid in ((samples.u, samples.grid), (samples.z, there)))
    return list(zip(u, z, strict=True))


def _unpadded(values: Tensor, grid: Grid) -> list[Tensor]:
    if grid.counts is None:
        return list(values)
    return [one[:, :n] for one, n in zip(values, grid.counts, strict=True)]
