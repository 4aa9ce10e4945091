"""Darcy flow: from a random diffusion coefficient to the pressure (Section 6.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from operformer.domain import Grid, Samples
from operformer.domain.interpolation import graded_grid, interpolate
from operformer.errors import UsageError
from operformer.problems.elliptic import solve_darcy
from operformer.problems.gaussian import GaussianMeasure
from operformer.problems.problem import Problem
from operformer.problems.symmetry import SQUARE, Symmetry
from operformer.settings import check_fields

_SQUARE = ((0.0, 1.0), (0.0, 1.0))


@dataclass(frozen=True)
class Darcy(Problem):
    """-div(a grad z) = 1 on (0, 1)^2, z = 0 on the boundary, a = T(g), g ~ N(0, scale (-Laplace + tau^2)^-alpha).

    u is a. On uniform nodes and cells the equation is solved as it is, to second order where a is smooth. Other grids
    read a finer solution, piecewise linear. The defaults are the paper's law; `Darcy.of_li_et_al` is the law of FNO's.

    Args:
        coefficient: "lognormal" for T = exp, "piecewise" for 12 where g >= 0 and 3 elsewhere.
        scale, tau, alpha: of the covariance.
        n_modes: cosines along each axis of g, the same at every resolution.
        points: the kind of `grid`, "cells" or "nodes".
        fine: nodes along each axis of the solution that other grids read. Good values: 513, or twice the resolution.
        read_from: if not 0, the solution on so many nodes is read on every grid, as public data sets are thinned out.
    """

    coefficient: Literal["lognormal", "piecewise"] = "lognormal"
    scale: float = 144.0
    tau: float = 6.0
    alpha: float = 2.0
    # Paper: as many modes as points. A sample that is the same at every resolution has a fixed number of modes.
    n_modes: int = 512
    points: Literal["cells", "nodes"] = "cells"
    fine: int = 513
    read_from: int = 0

    input_names = ("coefficient",)
    output_names = ("pressure",)
    bounds = _SQUARE
    boundary = "wall"
    block = {"cpu": 4, "cuda": 128}  # noqa: RUF012

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)
        if self.fine < 4:
            raise UsageError(f"fine must be at least 4 nodes: got {self.fine}; 513 is good")
        if self.read_from and self.read_from < 4:
            raise UsageError(f"read_from must be at least 4 nodes, or 0 for none: got {self.read_from}")
        _ = self.measure  # it refuses what is no measure

    @staticmethod
    def of_li_et_al() -> Darcy:
        """Piecewise {12, 3} of N(0, (-Laplace + 9)^-2) on nodes: with 421 x 421 of them the law of FNO's Darcy flow."""
        return Darcy("piecewise", scale=1.0, tau=3.0, points="nodes")

    @property
    def measure(self) -> GaussianMeasure:
        """The law of g."""
        return GaussianMeasure(self.scale, self.tau, self.alpha, self.n_modes)

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """Those of the square, which the law of g and f = 1 have, too."""
        return SQUARE

    def grid(self, resolution: int) -> Grid:
        """resolution x resolution cells, or nodes, of the unit square."""
        if resolution < 4:
            raise UsageError(f"resolution must be at least 4: got {resolution}; the paper has 64 and 416")
        return Grid.uniform((resolution, resolution), kind=self.points)

    def evaluation_grids(self, resolution: int) -> dict[str, Grid]:
        """Uniform ones and a graded one."""
        return super().evaluation_grids(resolution) | {"graded": graded_grid(self.grid(resolution))}

    def for_tests(self, resolution: int) -> Darcy:
        """With ``fine`` from two to four times the resolution: other grids need no finer solution to be read from."""
        if self.read_from:
            return self
        return replace(self, fine=max(2 * resolution + 1, min(self.fine, 4 * resolution + 1)))

    @property
    def _solved_on(self) -> Grid | None:
        return Grid.uniform((self.read_from,) * 2) if self.read_from else None

    def _solve(self, draws: Sequence[np.random.Generator], grid: Grid) -> Samples:
        g = self.measure.coefficients(draws, grid.points.device)
        is_uniform = grid.kind in ("nodes", "cells") and grid.bounds == _SQUARE and min(grid.shape) >= 4
        is_solved = is_uniform and not self.read_from
        solved_on = grid if is_solved else Grid.uniform((self.read_from or self.fine,) * 2).to(grid.points.device)
        a = self._transform(self.measure.read(g, solved_on))
        z, residuals = solve_darcy(a, torch.ones(solved_on.shape), solved_on)
        solved = Samples(a.unsqueeze(1), z.unsqueeze(1), solved_on, checks={"residual": residuals.cpu()})
        return solved if is_solved else self._transfer(solved, grid, g)

    def _read(self, solved: Samples, grid: Grid, draws: Sequence[np.random.Generator]) -> Samples:
        return self._transfer(solved, grid, self.measure.coefficients(draws, grid.points.device))

    def _transfer(self, solved: Samples, grid: Grid, g: Tensor) -> Samples:
        """Solutions interpolated on another grid, and there the coefficients that the fields g are, exactly."""
        a = self._transform(self.measure.read(g, grid))
        z = interpolate(solved.z[:, 0], solved.grid, grid)
        return Samples(a.unsqueeze(1), z.unsqueeze(1), grid, checks=solved.checks)

    def _transform(self, g: Tensor) -> Tensor:
        return g.exp() if self.coefficient == "lognormal" else torch.where(g >= 0, 12.0, 3.0).to(g)
