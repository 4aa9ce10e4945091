"""Relative errors ||G(u) - z|| / ||z|| in L2(D) and H1(D), by the grid's weights (Section 6, Relative Loss)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from operformer.domain import Grid, h1_norm, l2_norm

Loss = Callable[[Tensor, Tensor, Grid], Tensor]
LossName = Literal["l2", "h1", "l2+h1"]


def relative_l2(prediction: Tensor, z: Tensor, grid: Grid) -> Tensor:
    """||prediction - z||_{L2} / ||z||_{L2}, one for each sample: (batch, c, *shape) twice -> (batch,)."""
    return _relative(l2_norm, prediction, z, grid)


def relative_h1(prediction: Tensor, z: Tensor, grid: Grid) -> Tensor:
    """||prediction - z||_{H1} / ||z||_{H1}, one for each sample: (batch, c, *shape) twice -> (batch,)."""
    return _relative(h1_norm, prediction, z, grid)


def relative_both(prediction: Tensor, z: Tensor, grid: Grid) -> Tensor:
    """The mean of the relative L2 and H1 errors, (batch,): where slopes are steep, H1 alone hardly sees the values."""
    return (relative_l2(prediction, z, grid) + relative_h1(prediction, z, grid)) / 2


LOSSES: dict[LossName, Loss] = {"l2": relative_l2, "h1": relative_h1, "l2+h1": relative_both}


def _relative(norm: Callable[[Tensor, Grid], Tensor], prediction: Tensor, z: Tensor, grid: Grid) -> Tensor:
    """The ratio of two norms, in units of the largest value of z, whose square float32 might not hold."""
    unit = z.detach().abs().amax(tuple(range(1, z.ndim)), keepdim=True).clamp(min=torch.finfo(z.dtype).tiny)
    difference = (prediction - z) / unit
    # The root of zero has no derivative; a sample that is met exactly has error zero and gradient zero.
    is_exact = (difference.detach() == 0).flatten(1).all(1)
    spared = torch.where(is_exact.reshape(-1, *[1] * (z.ndim - 1)), torch.ones_like(difference), difference)
    return torch.where(is_exact, 0.0, norm(spared, grid) / norm(z / unit, grid))
