"""Kolmogorov flow: from the vorticity at time T to the vorticity a moment later (Section 6.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

import numpy as np
import torch

from operformer.domain import Grid, Samples
from operformer.domain.interpolation import graded_grid
from operformer.errors import DivergedError, UsageError
from operformer.problems.gaussian import GaussianMeasure
from operformer.problems.problem import Problem
from operformer.problems.symmetry import Symmetry
from operformer.problems.vorticity import TORUS, VorticityEquation
from operformer.settings import check_fields

# The largest share of the outermost wave numbers in a flow that counts as resolved.
TAIL = 1e-3


@dataclass(frozen=True)
class Kolmogorov(Problem):
    """omega(T) -> omega(T + dt) on [0, 2 pi]^2 under the force sin(n y) along x, omega(0) ~ N(0, C).

    C = scale (-Laplace + tau^2)^-alpha on mean-zero periodic functions. The flow is solved independently of the grid
    and read on it exactly. The check "tail" is the share of the outermost wave numbers in the spectrum; above 1e-3 the
    flow is not resolved, which is an error. The defaults are the paper's, except for n_modes and step.

    Args:
        viscosity: nu. Good values: 1 / 70, as in the paper.
        forcing: n; 0 is no force.
        start: T.
        lead: dt.
        scale, tau, alpha: of C.
        n_modes: wave numbers |k_j| < n_modes are kept. Good values: 54 for the default viscosity.
        step: the longest time step. Good values: 0.01.
        moments: how many outputs omega(T + j dt), j = 1, 2, ... are channels of z; more than 1 for rollouts.
    """

    viscosity: float = 1 / 70
    forcing: int = 4
    start: float = 11.0
    lead: float = 0.1
    scale: float = 343.0
    tau: float = 7.0
    alpha: float = 5.0
    n_modes: int = 54
    step: float = 0.01
    moments: int = 1

    input_names = ("vorticity_0",)
    bounds = TORUS
    boundary = "periodic"
    block = {"cpu": 4, "cuda": 512}  # noqa: RUF012

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)
        for name in ("viscosity", "lead", "step"):
            if not 0 < getattr(self, name) < inf:
                raise UsageError(f"{name} must be positive and finite: got {getattr(self, name)}")
        if not 0 <= self.start < inf:
            raise UsageError(f"start must not be negative: got {self.start}; the paper has 11")
        if self.moments < 1:
            raise UsageError(f"moments must be at least 1: got {self.moments}")
        _ = self.equation, self.measure  # they refuse what is no flow and no measure

    @property
    def output_names(self) -> tuple[str, ...]:
        """The vorticity at each later moment."""
        return tuple(f"vorticity_{moment}" for moment in range(1, self.moments + 1))

    @property
    def times(self) -> tuple[float, ...]:
        """T, T + dt, ..., T + moments dt."""
        return tuple(self.start + moment * self.lead for moment in range(self.moments + 1))

    @property
    def measure(self) -> GaussianMeasure:
        """The law of omega(0)."""
        return GaussianMeasure(self.scale, self.tau, self.alpha, self.n_modes, "periodic", TORUS)

    @property
    def equation(self) -> VorticityEquation:
        """The flow."""
        return VorticityEquation(self.n_modes, self.viscosity, self.forcing)

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """Shifts in x, the half turn w(-x, -y), and the glide -w(-x, y - pi / n) of order 2 n; none without force.

        A mirror changes the sign of w, half a wave that of the force. Together they generate every symmetry of the
        equation: 4 n times the circle.
        """
        if not self.forcing:
            return ()
        return (
            Symmetry(order=None, shifted=(0, 1)),
            Symmetry(flipped=(0, 1)),
            Symmetry(2 * self.forcing, flipped=(0,), shifted=(1, 2 * self.forcing), u_signs=(-1,), z_signs=(-1,)),
        )

    def grid(self, resolution: int) -> Grid:
        """resolution x resolution cells of the torus."""
        if resolution < 4:
            raise UsageError(f"resolution must be at least 4: got {resolution}; the paper has 416")
        return Grid.uniform((resolution, resolution), bounds=TORUS, kind="cells")

    def evaluation_grids(self, resolution: int) -> dict[str, Grid]:
        """Uniform ones and a graded one."""
        return super().evaluation_grids(resolution) | {"graded": graded_grid(self.grid(resolution))}

    def followed(self, steps: int) -> tuple[list[Kolmogorov], list[float]] | None:
        """This flow for ``steps`` leads, and the same flow with the default resolution in space and time.

        Eddies get smaller as time goes on: what resolves the samples may not resolve what follows.
        """
        if self.moments != 1:
            return None
        law = replace(self, moments=steps)
        finer = replace(law, n_modes=Kolmogorov.n_modes, step=Kolmogorov.step)
        return [law, finer], [step * self.lead for step in range(1, steps + 1)]

    @property
    def _solved_on(self) -> Grid:
        return self.equation.grid  # its points resolve all modes, so other grids are read exactly

    def _read(self, solved: Samples, grid: Grid, draws: Sequence[np.random.Generator]) -> Samples:
        equation = self.equation
        u, z = (
            equation.read(equation.spectrum(values.flatten(0, 1)), grid).unflatten(0, values.shape[:2])
            for values in (solved.u, solved.z)
        )
        return Samples(u, z, grid, checks=solved.checks)

    def _solve(self, draws: Sequence[np.random.Generator], grid: Grid) -> Samples:
        equation = self.equation
        started = self.measure.read(self.measure.coefficients(draws, grid.points.device), equation.grid)
        state, read, tails = equation.spectrum(started), [], []
        for duration in (self.start, *[self.lead] * self.moments):
            if steps := ceil(duration / self.step - 1e-9):
                state = equation.advance(state, duration, steps)
            read.append(equation.read(state, grid))
            tails.append(equation.tail(state))
        tail = torch.stack(tails).amax(0).cpu()
        if not bool((tail <= TAIL).all()):
            raise DivergedError(
                f"the flow is not resolved by {self.n_modes} modes: its outermost wave numbers reach "
                f"{float(tail.max()):.1e} of the largest, more than {TAIL:g}; set n_modes higher and step lower"
            )
        return Samples(read[0].unsqueeze(1), torch.stack(read[1:], dim=1), grid, checks={"tail": tail})
