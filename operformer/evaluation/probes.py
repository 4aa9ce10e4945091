"""Functions to question an operator with, and the resolution to ask at."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Literal

from torch import Tensor

from operformer.domain import Grid
from operformer.domain.box import Bounds
from operformer.operators import Operator
from operformer.operators.baselines import AFNO, FNO
from operformer.problems import Problem
from operformer.problems.gaussian import GaussianMeasure

Probes = Callable[[Grid], Tensor]  # functions that can be read on any grid: (count, channels, *shape), float64


def smooth_probes(
    operator: Operator, count: int = 3, n_modes: int = 4, seed: int = 0, periodic: bool = False
) -> Probes:
    """Random band-limited fields on the operator's domain, with the mean and the deviation of its own inputs.

    Independent for each channel, with wave numbers below ``n_modes``: periodic on D, or products of cosines on a larger
    box, which at the faces of D have slopes that make no quadrature look better than it is.
    """
    bounds = domain_of(operator)
    boundary: Literal["neumann", "periodic"] = "periodic"
    if not periodic:
        boundary = "neumann"
        bounds = tuple((a - 0.1 * (b - a), b + 0.2 * (b - a)) for a, b in bounds)
    extent = [upper - lower for lower, upper in bounds]
    measure = GaussianMeasure(1.0, 3.0 / max(extent), operator.dim / 2 + 1.5, n_modes, boundary, bounds)
    deviation = (measure.eigenvalues().sum() / prod(extent)).sqrt()
    coefficients = measure.draw(count * operator.in_channels, seed) / deviation
    mean, scale = (t.detach().double().cpu() for t in (operator.input_mean, operator.input_scale))

    def read(grid: Grid) -> Tensor:
        u = measure.read(coefficients, grid).unflatten(0, (count, -1))
        shape = (-1, *[1] * grid.n_axes)
        return u * scale.reshape(shape) + mean.reshape(shape)

    return read


def problem_probes(problem: Problem, count: int = 3, seed: int = 0, first: int = 0) -> Probes:
    """The inputs of a problem's own draws; where they are rough, so is the order of convergence."""
    return lambda grid: problem.sample(count, grid, seed, first=first).u


def kind_for(operator: Operator) -> Literal["nodes", "periodic"]:
    """The uniform grid that suits the operator: one period where it takes the FFT of all points, nodes otherwise."""
    return "periodic" if isinstance(operator, AFNO | FNO) else "nodes"


def domain_of(operator: Operator) -> Bounds:
    """The box that the operator was trained on, the unit cube if it was not."""
    return operator.bounds


def resolution_for(operator: Operator) -> tuple[int, ...]:
    """Intervals that resolve smooth probes, and whose half has two points for each mode, in a patch and in all of D.

    An operator that is bound to a number of points gets it, if half of it is a number, too.
    """
    bound = getattr(operator, "shape", (1,))
    if all(n % 2 == 0 for n in bound):
        return tuple(bound)
    least = max({1: 32, 2: 12, 3: 6}[operator.dim], 4 * operator.settings.get("final_modes", 0))
    if isinstance(operator, FNO):
        least = max(least, 2 * max(operator.modes))  # neuraloperator counts k and -k
    patches = getattr(operator, "n_patches", (1,) * operator.dim)
    spectrum = getattr(operator, "spectrum", None)
    modes = (1,) * operator.dim if spectrum is None else spectrum.n_modes
    return tuple(2 * p * max(-(-least // (2 * p)), 2 * m) for p, m in zip(patches, modes, strict=True))
