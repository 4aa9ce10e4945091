"""G(u) for functions of one's own: some samples at a time, at their own resolution or at another."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from operformer.checking import checked
from operformer.domain import Grid, Pairs, Samples
from operformer.domain.box import Numbers, as_numbers
from operformer.domain.interpolation import interpolate
from operformer.domain.reading import beyond
from operformer.domain.samples import pad
from operformer.errors import DataError, DivergedError, UsageError
from operformer.evaluation.cautions import unlike_training, warn
from operformer.operators import Operator
from operformer.operators.operator import check_takes_functions

RAGGED = 16  # times as much for samples on points of their own, each of which may need matrices of its own
POINTS = 2**17  # of the samples that an operator is given at once: 0.5 GiB at width 128, and faster than more on a CPU


@checked
def predict(
    operator: Operator,
    u: Numbers,
    grid: Grid | None = None,
    *,
    resolution: int | Sequence[int] | None = None,
    query: Grid | None = None,
    domain: Grid | None = None,
) -> Samples:
    """z = G(u) for functions of one's own, some at a time, at their own resolution or at another.

    Args:
        operator: the operator, on any device; inputs are brought to its precision and device.
        u: (count, in_channels, *shape), a tensor or an array. For a ragged grid a list, one (channels, N_i) per sample.
        grid: where u is known; equispaced nodes of the domain the operator was trained on if not given.
        resolution: points along each axis where z is wanted, if that is not the grid of u.
        query: the points where z is wanted, in place of ``resolution``. The operator is applied to u where it is known
            and read at these points. FNO and AFNO, which have no other points than those of their grid, are applied to
            u interpolated to them if they take them as a grid; otherwise their output is interpolated.
        domain: scattered points that stand for a domain that is no box, such as those that the operator was trained on.
            Those of u if not given, where u is known at such points.

    Returns:
        `Samples` with u, z and their grid, on the CPU. Values outside the domain, such as in the notch of an L, are
        NaN.

    Example:
        >>> operator = TNO(dim=1, in_channels=1, out_channels=1, hidden_channels=8, n_layers=1, n_heads=2)
        >>> predict(operator, torch.rand(3, 1, 16), resolution=64).z.shape
        torch.Size([3, 1, 64])
    """
    given = pad(u, grid) if grid is not None and isinstance(u, list | tuple) else as_numbers(u, "u")
    grid = _checked_grid(operator, given, grid)
    if domain is not None and (domain.kind != "scattered" or domain.dim != operator.dim):
        raise UsageError(f"domain must be scattered points in dimension {operator.dim}: got {domain}")
    if resolution is not None and query is not None:
        raise UsageError("resolution and query both say where the output is wanted; give one of them")
    there = query if resolution is None else uniform_like(grid, resolution)
    size = min(together(grid), POINTS if there is None else together(there))
    if grid.counts is not None and not operator.is_pointwise:
        size = 1
    inputs, outputs = [], []
    for first in range(0, len(given), size):
        chosen = slice(first, first + size)
        block, z = _apply(operator, given[chosen], grid.of_samples(chosen), there)
        _check_finite(z, first)
        inputs.append(block.cpu())
        outputs.append(z.cpu())
    warn(unlike_training(operator, given, grid))
    u, z = torch.cat(inputs), torch.cat(outputs)
    outside = _outside(grid, there, domain)
    if outside is not None and bool(outside.any()):
        count = f"{int(outside.sum())} of {outside.numel()}"
        warn([f"{count} points lie outside the domain that the scattered points stand for; their values are NaN"])
        u, z = (values.masked_fill(outside, torch.nan) for values in (u, z))
    return Samples(u, z, (there or grid).to("cpu"))


def _outside(grid: Grid, there: Grid | None, domain: Grid | None) -> Tensor | None:
    """Which points lie outside the domain, (*shape) or (count, 1, *shape); None where no points tell."""
    if there is None and grid.axes is None:  # where u is known is inside
        return None
    if domain is not None:
        return beyond(domain, there or grid)
    if there is None or grid.axes is not None:
        return None
    return beyond(grid, there)


def uniform_like(grid: Grid, resolution: int | Sequence[int]) -> Grid:
    """The uniform grid with ``resolution`` points an axis in the domain of a grid, of its kind if it is uniform."""
    sizes = (resolution,) * grid.dim if isinstance(resolution, int) else tuple(resolution)
    sizes = sizes * grid.dim if len(sizes) == 1 else sizes
    if len(sizes) != grid.dim:
        raise UsageError(f"resolution must be one number, or one for each of {grid.dim} axes: got {len(sizes)}")
    kind: Any = grid.kind if grid.is_uniform else "nodes"
    return Grid.uniform(sizes, grid.bounds, kind)


def together(grid: Grid) -> int:
    """How many samples on a grid an operator is given at once."""
    return max(1, POINTS // (prod(grid.shape) * (1 if grid.counts is None else RAGGED)))


@torch.no_grad()
def _apply(operator: Operator, u: Tensor, grid: Grid, there: Grid | None) -> tuple[Tensor, Tensor]:
    """u and z where z is wanted, of a few samples."""
    u = u.to(operator.input_mean)
    grid = grid.to(u.device)
    wanted = None if there is None else there.to(u.device)
    if grid.counts is not None and not operator.is_pointwise:
        one, alone = u[..., : grid.counts[0]], grid.of_sample(0)
        z = _read(operator, one, alone, wanted)
        return (u, pad([z[0]], grid)) if wanted is None else (interpolate(one, alone, wanted), z)
    return u if wanted is None else interpolate(u, grid, wanted), _read(operator, u, grid, wanted)


def _read(operator: Operator, u: Tensor, grid: Grid, wanted: Grid | None) -> Tensor:
    """G(u) at the wanted points."""
    if wanted is None or (operator.takes_query and operator.takes(grid)):
        return operator(u, grid, wanted)
    if operator.takes(wanted):
        return operator(interpolate(u, grid, wanted), wanted)
    return interpolate(operator(u, grid), grid, wanted)


def _checked_grid(operator: Operator, u: Tensor, grid: Grid | None) -> Grid:
    """The grid of u, after values and points were looked at; channels and shape are the operator's to check."""
    if grid is not None and grid.dim != operator.dim:
        raise UsageError(f"the grid must have dimension {operator.dim}, the operator's dim: got {grid}")
    n_axes = operator.dim if grid is None else grid.n_axes
    if u.ndim != n_axes + 2 or not u.numel():
        axes = ", ".join(["*"] * n_axes)
        wanted = f"(count, {operator.in_channels}, {axes}), channels first, of at least one sample"
        raise UsageError(f"u must be {wanted}: got {tuple(u.shape)}")
    if grid is None:
        grid = Grid.uniform(tuple(u.shape[2:]), operator.bounds)
    broken = ~torch.isfinite(u).flatten(1).all(1)
    if bool(broken.any()):
        raise DataError(f"sample {int(broken.nonzero()[0])} of u holds values that are not finite; leave it out")
    if grid.dim == operator.dim:
        check_domain(operator, grid)
    return grid


def check_fits(operator: Operator, pairs: Pairs) -> None:
    """Refuse samples whose channels or domain are not the operator's."""
    wanted = operator.in_channels, operator.out_channels
    check_takes_functions(operator, pairs.query)
    if pairs.channels != wanted or pairs.grid.dim != operator.dim:
        found = f"{pairs.channels[0]} to {pairs.channels[1]} channels in dimension {pairs.grid.dim}"
        own = f"{wanted[0]} to {wanted[1]} channels in dimension {operator.dim}"
        raise UsageError(f"the operator maps {own}: got samples with {found}")
    check_domain(operator, pairs.grid)


def check_domain(operator: Operator, grid: Grid) -> None:
    """Refuse points outside the box that the operator was trained on."""
    for k, (lower, upper) in enumerate(operator.bounds):
        first, last = float(grid.points[..., k].min()), float(grid.points[..., k].max())
        slack = 1e-5 * (upper - lower)  # the domain is kept in the operator's precision
        if first < lower - slack or last > upper + slack:
            raise UsageError(
                f"axis {k} of the points reaches from {first:g} to {last:g}, and the operator was trained on "
                f"[{lower:g}, {upper:g}]; scale the coordinates to it, or train on the larger domain"
            )


def _check_finite(z: Tensor, first: int) -> None:
    broken = ~torch.isfinite(z).flatten(1).all(1)
    if bool(broken.any()):
        raise DivergedError(f"the operator's output on sample {first + int(broken.nonzero()[0])} is not finite")
