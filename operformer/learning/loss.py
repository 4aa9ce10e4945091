"""Relative errors ||G(u) - z|| / ||z|| in L2(D) and H1(D), by the grid's weights (Section 6, Relative Loss)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from operformer.domain import Grid, h1_norm, l2_norm

Loss = Callable[[Tensor, Tensor, Grid], Tensor]
LossName = Literal["l2", "h1"]


def relative_l2(prediction: Tensor, z: Tensor, grid: Grid) -> Tensor:
    """||prediction - z||_{L2} / ||z||_{L2}, one for each sample: (batch, c, *shape) twice -> (batch,)."""
    return l2_norm(prediction - z, grid) / l2_norm(z, grid)


def relative_h1(prediction: Tensor, z: Tensor, grid: Grid) -> Tensor:
    """||prediction - z||_{H1} / ||z||_{H1}, one for each sample: (batch, c, *shape) twice -> (batch,)."""
    return h1_norm(prediction - z, grid) / h1_norm(z, grid)


LOSSES: dict[LossName, Loss] = {"l2": relative_l2, "h1": relative_h1}
