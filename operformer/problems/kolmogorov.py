"""Kolmogorov flow: from the vorticity at time T to the vorticity a moment later (Section 6.2.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
import torch
from torch import Tensor

from operformer.domain import Grid, Samples
from operformer.errors import DivergedError, UsageError
from operformer.problems.gaussian import GaussianMeasure
from operformer.problems.problem import Problem
from operformer.problems.symmetry import Symmetry, kolmogorov_symmetries
from operformer.problems.vorticity import TORUS, VorticityEquation

# The largest share of the outermost wave numbers in a flow that counts as resolved.
TAIL = 1e-3


@dataclass(frozen=True)
class Kolmogorov(Problem):
    """omega(T) -> omega(T + dt) on [0, 2 pi]^2 under the force sin(n y) along x, omega(0) ~ N(0, C).

    C = scale (-Laplace + tau^2)^-alpha on mean-zero periodic functions; T is ``start``, dt is ``lead``, n is
    ``forcing``. With more ``moments`` than one, z holds omega(T + j dt), j = 1, ..., moments, for rollouts. Solved with
    |k_j| < n_modes in steps of at most ``step``, whatever the grid, then read on it without error. The check "tail"
    is the share of the outermost wave numbers in the spectrum; beyond 1e-3 it is an error. Good values: the paper's,
    which are the defaults; n_modes and step are ours.
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
        for name in ("viscosity", "lead", "step"):
            if not 0 < getattr(self, name) < inf:
                raise UsageError(f"{name} must be positive and finite: got {getattr(self, name)}")
        if not 0 <= self.start < inf:
            raise UsageError(f"start must not be negative: got {self.start}; the paper has 11")
        if self.moments < 1:
            raise UsageError(f"moments must be at least 1: got {self.moments}")
        if not 0 <= self.forcing < self.n_modes:
            raise UsageError(f"forcing must be a wave number below n_modes: got {self.forcing} and {self.n_modes}")
        GaussianMeasure(self.scale, self.tau, self.alpha, self.n_modes)  # refuses what is no measure

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
        """Shifts along the force, half turns, and mirrors with a shift by half a wave of the force."""
        return kolmogorov_symmetries(self.forcing) if self.forcing else ()

    def grid(self, resolution: int) -> Grid:
        """resolution x resolution cells of the torus."""
        if resolution < 4:
            raise UsageError(f"resolution must be at least 4: got {resolution}; the paper has 416")
        return Grid.uniform((resolution, resolution), bounds=TORUS, kind="cells")

    def readings(
        self,
        count: int,
        grids: Sequence[Grid],
        seed: int = 0,
        device: torch.device | str = "cpu",
        first: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> Iterator[Samples]:
        """The same draws on one grid after the other: solved once, then read on each without error."""
        if len(grids) < 2:
            yield from super().readings(count, grids, seed, device, first, dtype)
            return
        solved = self.sample(count, self.equation.grid, seed, device, first)
        yield from self._read_each(solved, grids, lambda _, block, grid: self._read(block, grid), dtype)

    def _read(self, samples: Samples, grid: Grid) -> Samples:
        """Samples on the equation's own grid, whose points tell all modes apart, on another one."""
        equation = self.equation
        u, z = (
            equation.read(equation.spectrum(values.flatten(0, 1)), grid).unflatten(0, values.shape[:2])
            for values in (samples.u, samples.z)
        )
        return Samples(u, z, grid, samples.checks)

    def _solve(self, draws: Sequence[np.random.Generator], grid: Grid) -> Samples:
        equation = self.equation
        started = self.measure.read(self.measure.coefficients(draws, grid.points.device), equation.grid)
        state = self._advance(equation, equation.spectrum(started), self.start)
        read, tails = [equation.read(state, grid)], [equation.tail(state)]
        for _ in range(self.moments):
            state = self._advance(equation, state, self.lead)
            read.append(equation.read(state, grid))
            tails.append(equation.tail(state))
        tail = torch.stack(tails).amax(0).cpu()
        if not bool((tail <= TAIL).all()):
            raise DivergedError(
                f"the flow is not resolved by {self.n_modes} modes: its outermost wave numbers reach "
                f"{float(tail.max()):.1e} of the largest, more than {TAIL:g}; set n_modes higher and step lower"
            )
        return Samples(read[0].unsqueeze(1), torch.stack(read[1:], dim=1), grid, {"tail": tail})

    def _advance(self, equation: VorticityEquation, state: Tensor, duration: float) -> Tensor:
        steps = ceil(duration / self.step - 1e-9)
        return equation.advance(state, duration, steps) if steps else state
