"""Fewer points to attend to: a quadrature of M of the N points (Section 2, Theorems 1 and 2).

Attention is a ratio of integrals over D: any quadrature that converges will do for them. Queries stay at all points.
"""

# DESIGN.md: Sources are fewer points with weights of their own

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.operators.attention import Measure, log_density

LEAST_PER_AXIS = 4  # what a cubic needs


def choose_sources(grid: Grid, most: int) -> Measure:
    """At most ``most`` of the points, and weights W with sum_j W_j f(y_j) near sum_i w_i f(x_i) for smooth f.

    On tensor products some points of each axis: the difference is of fourth order in their spacing. Of scattered points
    one in each of equal boxes: second order. Where they should lie belongs to D and not to the grid.
    """
    if grid.counts is not None:
        raise UsageError(f"sources chooses points of one grid: got {grid}; set operator.sources = None")
    if grid.axes is None:
        index, weights = _of_boxes(grid, most)
        return Measure(log_density(weights), index=index)
    index = torch.zeros(1, dtype=torch.long, device=grid.weights.device)
    weights = torch.ones(1, dtype=torch.float64, device=grid.weights.device)
    for axis, axis_weights, m in zip(grid.axes, grid.axis_weights, shares(most, grid.shape), strict=True):
        chosen, chosen_weights = thin_axis(axis, axis_weights, m)
        index = (index.unsqueeze(-1) * len(axis) + chosen).flatten()
        weights = (weights.unsqueeze(-1) * chosen_weights).flatten()
    return Measure(log_density(weights), index=index)


def check_sources(sources: int | None, dim: int) -> None:
    """Refuse fewer points than the rule needs."""
    least = LEAST_PER_AXIS**dim
    if sources is not None and (not isinstance(sources, int) or isinstance(sources, bool) or sources < least):
        raise UsageError(f"sources must be a whole number of at least {least}, or None for all points: got {sources!r}")


def shares(most: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """As many points of every axis, most in all; what a short axis does not need goes to the others."""
    share = _root(most, len(shape))
    for _ in shape:
        short = [int(n) for n in shape if n <= share]
        if len(short) == len(shape):
            return shape
        share = _root(most // prod(short), len(shape) - len(short))
    return tuple(n if n <= share else share for n in shape)


def thin_axis(axis: Tensor, weights: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """m of n points and W_j = sum_i w_i l_j(x_i), l_j piecewise cubic with l_j(y_k) = 1 if j = k, else 0.

    The integral of f becomes that of its interpolant: exact for cubics, for any spacing and weights. Both ends are
    among the m points, so nothing is extrapolated. Where a weight would not be positive, l_j is piecewise linear.
    """
    x, order = torch.sort(axis)
    if m >= len(axis):
        return torch.arange(len(axis), device=axis.device), weights
    places = _spread(x, m)
    y = x[places]
    cubic, linear = (_lagrange(y, x, degree).T @ weights[order] for degree in (3, 1))
    return order[places], torch.where((cubic > 0).all(), cubic, linear)


def _spread(x: Tensor, m: int) -> Tensor:
    """The places of m sorted points, all different, near to m equispaced ones from the first to the last."""
    count = torch.arange(m, device=x.device)
    # A little to the right, so that rounding does not decide where two points are as near.
    wanted = x[0] + (x[-1] - x[0]) * ((count + 1e-9) / (m - 1))
    nearest = torch.searchsorted((x[1:] + x[:-1]) / 2, wanted)
    # Where points are rarer than wanted, the next ones; and no more than leave enough for the rest.
    return torch.cummax(nearest - count, 0).values.clamp(max=len(x) - m) + count


def _lagrange(y: Tensor, x: Tensor, degree: int) -> Tensor:
    """l_j(x_i), the Lagrange polynomials of the degree + 1 points of y around each x: (n, m)."""
    first = (torch.searchsorted(y, x, right=True) - (degree + 1) // 2).clamp(0, len(y) - degree - 1)
    stencil = first.unsqueeze(-1) + torch.arange(degree + 1, device=x.device)
    near = y[stencil]
    factors = (x[:, None, None] - near[:, None, :]) / (near[:, :, None] - near[:, None, :])
    itself = torch.eye(degree + 1, dtype=torch.bool, device=x.device)
    values = torch.where(itself, 1.0, factors).prod(-1)
    return x.new_zeros(len(x), len(y)).scatter(1, stencil, values)


def _of_boxes(grid: Grid, most: int) -> tuple[Tensor, Tensor]:
    """D in equal boxes: of each the point nearest to the centre of its mass, with all its mass; 0 where it is empty."""
    per_axis = _root(most, grid.dim)
    count = per_axis**grid.dim
    bounds = torch.tensor(grid.bounds, dtype=torch.float64, device=grid.points.device)
    position = (grid.points - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
    cell = (position * per_axis).long().clamp(max=per_axis - 1)
    box = torch.zeros_like(cell[:, 0])
    for k in range(grid.dim):
        box = box * per_axis + cell[:, k]
    mass = grid.weights.new_zeros(count).index_add(0, box, grid.weights)
    moment = grid.weights.new_zeros(count, grid.dim).index_add(0, box, grid.weights.unsqueeze(-1) * position)
    centre = moment / torch.where(mass > 0, mass, 1.0).unsqueeze(-1)
    # Two points of one weight are as far from the centre: a slight slope decides, the same in any order of the points.
    slope = 1e-9 * (position @ torch.tensor([1.0, 2**0.5, 3**0.5][: grid.dim]).to(position))
    distance = torch.where(grid.weights > 0, (position - centre[box]).square().sum(-1) + slope, torch.inf)
    order = torch.argsort(distance)
    order = order[torch.argsort(box[order], stable=True)]
    nearest = torch.searchsorted(box[order], torch.arange(count, device=box.device)).clamp(max=len(box) - 1)
    return order[nearest], mass


def _root(count: int, degree: int) -> int:
    """The largest whole number whose power is at most count."""
    guess = round(count ** (1 / degree))
    return guess if guess**degree <= count else guess - 1
