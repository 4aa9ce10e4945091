"""Grids of many kinds, all parts of one fine uniform grid: values on them compare without interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from operformer.domain import Grid, voronoi_weights
from operformer.domain.box import GivenBounds
from operformer.domain.interpolation import grade
from operformer.errors import UsageError

GRADINGS = (0.3, 0.4, 0.5, 0.6)  # spacings from 1 - a to 1 + a times the mean


class NestedGrids:
    """Uniform grids of 2^level n intervals, level <= ``doublings``, and irregular ones on points of the finest.

    Values on the finest grid are read at the points of another by `restrict`.
    """

    def __init__(
        self,
        resolution: Sequence[int],
        bounds: GivenBounds | None = None,
        kind: Literal["nodes", "periodic"] = "nodes",
        doublings: int = 2,
    ) -> None:
        if kind not in ("nodes", "periodic"):
            raise UsageError(f'kind must be "nodes" or "periodic", whose points stay when doubled: got {kind!r}')
        if doublings < 2:
            raise UsageError(f"an order of convergence needs at least 2 doublings: got {doublings}")
        if not 1 <= len(resolution) <= 3 or any(n < 4 or n % 2 for n in resolution):
            raise UsageError(f"resolution must be even and at least 4 along each axis: got {tuple(resolution)}")
        self.resolution, self.kind, self.doublings = tuple(resolution), kind, doublings
        self.bounds = bounds
        self.finest = self.uniform(doublings)

    def uniform(self, level: int) -> Grid:
        """The grid of 2^level n intervals along each axis, level >= -1."""
        intervals = [n // 2 if level < 0 else n << level for n in self.resolution]
        return Grid.uniform([n + (self.kind == "nodes") for n in intervals], self.bounds, self.kind)

    def graded(self, level: int, grading: float) -> Grid:
        """Rectilinear, points as in `uniform` but dense at the lower ends: x = s - a s (1 - s), a the grading.

        They are rounded to the grid that is four times finer. So steps vary as much on every level, and what differs
        between levels is their size alone.
        """
        axes, every = [], max(1, 2 ** (self.doublings - 2 - level))
        for count, axis in zip(self.uniform(level).shape, self.finest.axes or (), strict=True):
            s = torch.linspace(0, 1, count, dtype=torch.float64)
            coarse = axis[::every]
            axes.append(coarse[torch.unique((grade(s, grading) * (len(coarse) - 1)).round().long())])
        return Grid.rectilinear(*axes, bounds=self.finest.bounds)

    def scattered(self, level: int, generator: torch.Generator) -> Grid:
        """One point at random in each cell of a graded mesh of that size, in no order, with Voronoi weights.

        All are odd points of the finest grid, so none lies on a face of patches that divide the first one: there an
        operator may jump, and its value is a convention.
        """
        sizes = torch.tensor(self.finest.shape)
        indices = 2 * (self._jittered(level, generator) * (sizes // 2)).floor().long() + 1
        indices = torch.unique(indices, dim=0)
        indices = indices[torch.randperm(len(indices), generator=generator)]
        return self._voronoi(self.finest.points[tuple(indices.T)])

    def in_general_position(self, level: int, generator: torch.Generator) -> Grid:
        """The same off the finest grid, where many points lie on one circle and can be joined either way."""
        lower, upper = torch.tensor(self.finest.bounds, dtype=torch.float64).unbind(-1)
        return self._voronoi(lower + (upper - lower) * self._jittered(level, generator))

    def restrict(self, z: Tensor, grid: Grid) -> Tensor:
        """Values on the finest grid at the points of another: (..., *finest.shape) -> (..., *grid.shape)."""
        flat = torch.zeros(grid.shape, dtype=torch.long)
        for k, ((lower, upper), size) in enumerate(zip(self.finest.bounds, self.finest.shape, strict=True)):
            intervals = size - (self.kind == "nodes")
            flat = flat * size + ((grid.points[..., k] - lower) / (upper - lower) * intervals).round().long()
        return z.flatten(-self.finest.n_axes)[..., flat]

    def spacing(self, grid: Grid) -> float:
        """h(grid), the root of its quadrature's error: the mean step of uniform grids, up to a factor of D.

        On one period it is the step. Elsewhere it is measured, on products of cosines of a box that is larger than D,
        against the finest grid.
        """
        if self.kind == "periodic":
            return max(1 / n for n in grid.shape)
        error = (self._integrals(grid) - self._integrals(self.finest)).square().mean()
        return max(float(error), 1e-30) ** 0.25

    def _integrals(self, grid: Grid) -> Tensor:
        """The means of cosines of wave numbers up to 4, whose slopes do not vanish at the faces of D."""
        lower, upper = torch.tensor(self.finest.bounds, dtype=torch.float64).unbind(-1)
        s = ((grid.points.flatten(0, -2) - lower) / (upper - lower) + 0.1) * (torch.pi / 1.3)
        waves = torch.cartesian_prod(*[torch.arange(5.0, dtype=torch.float64)] * s.shape[-1]).reshape(-1, s.shape[-1])
        return grid.weights.flatten() @ torch.cos(s[:, None, :] * waves).prod(-1) / grid.weights.sum()

    def _jittered(self, level: int, generator: torch.Generator) -> Tensor:
        """Points (N, d) of the unit cube."""
        counts = torch.tensor(self.uniform(level).shape)
        cells = torch.cartesian_prod(*(torch.arange(int(count)) for count in counts)).reshape(-1, len(counts))
        return grade((cells + torch.rand(cells.shape, generator=generator, dtype=torch.float64)) / counts, 0.5)

    def _voronoi(self, points: Tensor) -> Grid:
        return Grid.scattered(points, voronoi_weights(points, self.finest.bounds), self.finest.bounds)
