"""Graded meshes: points that crowd smoothly at the lower ends."""

from __future__ import annotations

import torch
from torch import Tensor

from operformer.domain.grid import Grid
from operformer.errors import UsageError


def grade(s: Tensor, grading: float) -> Tensor:
    """x = s - a s (1 - s): [0, 1] onto itself with slopes from 1 - a to 1 + a, a the grading."""
    return s - grading * s * (1 - s)


def graded_grid(grid: Grid, grading: float = 0.5) -> Grid:
    """As many points along each axis, rectilinear, both ends included; spacings from 1 - a to 1 + a times the mean."""
    if grid.axes is None:
        raise UsageError(f"a graded grid has axes: got {grid}; give a uniform or rectilinear grid")
    axes = [
        lower + (upper - lower) * grade(torch.linspace(0, 1, n, dtype=torch.float64), grading)
        for n, (lower, upper) in zip(grid.shape, grid.bounds, strict=True)
    ]
    return Grid.rectilinear(*axes, bounds=grid.bounds).to(grid.points.device)
