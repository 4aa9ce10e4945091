"""Functions of one batch that are each known on points of their own: values side by side, zeros where none are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad as pad_zeros

from operformer.domain.grid import Grid
from operformer.errors import UsageError


def pad(values: Sequence[Tensor], grid: Grid) -> Tensor:
    """One (channels, N_i) for each sample of a ragged grid -> (batch, channels, N), zero where there is no point."""
    counts = _counts(grid)
    if len(values) != len(counts):
        raise UsageError(f"values must be one tensor for each of {len(counts)} sets of points: got {len(values)}")
    for k, (one, n) in enumerate(zip(values, counts, strict=True)):
        if one.ndim != 2 or one.shape[1] != n or one.shape[0] != values[0].shape[0]:
            raise UsageError(f"values of sample {k} must be ({values[0].shape[0]}, {n}): got {tuple(one.shape)}")
    return torch.stack([pad_zeros(one, (0, grid.shape[0] - one.shape[1])) for one in values])


def unpad(values: Tensor, grid: Grid) -> list[Tensor]:
    """(batch, channels, N) on a ragged grid -> (channels, N_i) for each sample."""
    counts = _counts(grid)
    if values.ndim != 3 or (len(values), values.shape[2]) != (len(counts), grid.shape[0]):
        raise UsageError(f"values must be ({len(counts)}, channels, {grid.shape[0]}): got {tuple(values.shape)}")
    return [one[:, :n] for one, n in zip(values, counts, strict=True)]


def is_point(grid: Grid) -> Tensor:
    """Where a ragged grid has points and not what was added: (batch, 1, N)."""
    counts = torch.tensor(_counts(grid), device=grid.weights.device)
    return (torch.arange(grid.shape[0], device=counts.device) < counts.unsqueeze(-1)).unsqueeze(1)


def _counts(grid: Grid) -> tuple[int, ...]:
    if grid.counts is None:
        raise UsageError(f"values are padded on a ragged grid: got {grid}; make one with Grid.ragged(points)")
    return grid.counts
