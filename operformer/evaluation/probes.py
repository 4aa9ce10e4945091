"""Functions to question an operator with, and the resolution to ask at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Literal

from torch import Tensor

from operformer.checking import checked
from operformer.domain import Grid
from operformer.operators import Operator
from operformer.problems import Problem
from operformer.problems.gaussian import GaussianMeasure

Probes = Callable[[Grid], Tensor]  # functions that can be read on any grid: (count, channels, *shape), float64


@dataclass(frozen=True, eq=False, repr=False)
class SmoothProbes:
    """Band-limited functions, whose quadrature errors fall in order from the first grid that resolves them."""

    measure: GaussianMeasure
    coefficients: Tensor
    count: int
    mean: Tensor
    scale: Tensor

    def __call__(self, grid: Grid) -> Tensor:
        """The functions on a grid: (count, channels, *shape), float64."""
        u = self.measure.read(self.coefficients, grid).unflatten(0, (self.count, -1))
        shape = (-1, *[1] * grid.n_axes)
        return u * self.scale.reshape(shape) + self.mean.reshape(shape)


@checked
def smooth_probes(
    operator: Operator, count: int = 3, n_modes: int = 4, seed: int = 0, periodic: bool = False
) -> SmoothProbes:
    """Random band-limited fields on the operator's domain, with the mean and the deviation of its own inputs.

    Independent for each channel, with wave numbers below ``n_modes``: periodic on D, or products of cosines on a larger
    box, which at the faces of D have slopes that make no quadrature look better than it is.
    """
    bounds = operator.bounds
    boundary: Literal["neumann", "periodic"] = "periodic"
    if not periodic:
        boundary = "neumann"
        bounds = tuple((a - 0.1 * (b - a), b + 0.2 * (b - a)) for a, b in bounds)
    extent = [upper - lower for lower, upper in bounds]
    measure = GaussianMeasure(1.0, 3.0 / max(extent), operator.dim / 2 + 1.5, n_modes, boundary, bounds)
    deviation = (measure.eigenvalues().sum() / prod(extent)).sqrt()
    coefficients = measure.draw(count * operator.in_channels, seed) / deviation
    mean, scale = (t.detach().double().cpu() for t in (operator.input_mean, operator.input_scale))
    return SmoothProbes(measure, coefficients, count, mean, scale)


@checked
def problem_probes(problem: Problem, count: int = 3, seed: int = 0, first: int = 0) -> Probes:
    """The inputs of a problem's own draws; where they are rough, so is the order of convergence."""
    return lambda grid: problem.sample(count, grid, seed, first=first).u


def resolution_for(operator: Operator) -> tuple[int, ...]:
    """Intervals along each axis that resolve smooth probes and every mode of the operator, as their half does."""
    return operator.least_sizes({1: 64, 2: 12, 3: 6}[operator.dim])
