"""What samples look like, as far as it decides how to learn them: periodic, zero at the boundary, smooth, a flow."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from operformer.domain import Grid, Samples, h1_norm, l2_norm
from operformer.domain.samples import z_grid
from operformer.evaluation.spectra import choose_transform, coefficients

LEFT_OUT = 1e-3  # what lies beyond the waves that are counted, as a part of the function's norm
SAME = 0.02  # of the root mean square: values that are the same, or zero
NEAR = 0.7  # ||z - u|| / ||z - mean|| below which u and z are states of one flow
STEEP = 300.0  # H1 over L2 norm, from which on the H1 norm sees slopes alone


@dataclass(frozen=True)
class Features:
    """What was measured on some samples, whose inputs are known on ``grid``.

    ``half_waves`` are those along an axis that hold z but for a thousandth of its norm, the most of all axes; None
    where points are not equispaced.
    """

    grid: Grid
    channels: tuple[int, int]
    is_periodic: bool
    is_zero_at_boundary: bool
    is_flow: bool
    is_number: bool  # whether all z are constant in space
    half_waves: int | None
    has_slopes: bool  # whether the H1 norm makes sense: neighbours, and units in which slopes are not everything


def measure(samples: Samples) -> Features:
    """The features of some samples; a few dozen are enough."""
    grid, u, z = z_grid(samples), samples.u.double(), samples.z.double()
    is_number = bool((z == z.flatten(2)[..., :1].reshape(*z.shape[:2], *[1] * grid.n_axes)).all())
    if is_number:  # what is integrated to it lives on the points of u
        z, grid = u, samples.grid
    is_zero = not is_number and _is_zero_at_boundary(z, grid)
    goes_on = not is_zero and _is_periodic(u, samples.grid) and _is_periodic(z, grid)
    is_periodic = {grid.kind, samples.grid.kind} == {"periodic"} or goes_on
    return Features(
        grid=samples.grid,
        channels=samples.channels,
        is_periodic=is_periodic,
        is_zero_at_boundary=is_zero,
        is_flow=samples.query is None and not is_number and _is_flow(u, z),
        half_waves=_half_waves(z, grid, is_periodic),
        is_number=is_number,
        has_slopes=not is_number and grid.has_neighbours and bool((h1_norm(z, grid) < STEEP * l2_norm(z, grid)).all()),
    )


def _is_zero_at_boundary(z: Tensor, grid: Grid) -> bool:
    """Whether z vanishes on every face; from cells it is continued to the face in a straight line."""
    if grid.axes is None or grid.kind == "periodic" or min(grid.shape) < 3:
        return False
    size = z.square().mean().sqrt()
    for k, (axis, (lower, upper)) in enumerate(zip(grid.axes, grid.bounds, strict=True)):
        order = axis.argsort().tolist()
        for face, (first, second) in ((lower, order[:2]), (upper, order[:-3:-1])):
            beyond = float((face - axis[first]) / (axis[second] - axis[first]))
            one, two = (z.select(k - grid.dim, place) for place in (first, second))
            if (one + beyond * (two - one)).square().mean().sqrt() > SAME * size:
                return False
    return True


def _is_periodic(values: Tensor, grid: Grid) -> bool:
    """Whether every channel goes on across the faces as it does inside: no larger steps, or the same value on nodes."""
    if grid.kind not in ("nodes", "cells", "left"):
        return False
    for k in range(-grid.dim, 0):
        across = _mean_square(values.select(k, 0) - values.select(k, -1))
        inside = _mean_square(torch.diff(values, dim=k))
        most = SAME**2 * _mean_square(values) if grid.kind == "nodes" else 4 * inside
        if bool((across > most).any()):
            return False
    return True


def _mean_square(values: Tensor) -> Tensor:
    """One for each channel."""
    return values.square().transpose(0, 1).flatten(1).mean(1)


def _is_flow(u: Tensor, z: Tensor) -> bool:
    """Whether z is u after a short time: the same channels, and nearer to u than to its own mean."""
    if u.shape != z.shape:
        return False
    return bool((_mean_square(z - u) < NEAR**2 * _mean_square(z - z.mean(0))).all())


def _half_waves(z: Tensor, grid: Grid, is_periodic: bool) -> int | None:
    """Half waves along an axis without which a thousandth of the norm is missing; the most of all axes."""
    transform = choose_transform(grid, is_periodic)
    if transform is None:
        return None
    energy, most = coefficients(z, grid, transform).abs().square().sum((0, 1)), 1
    for k, n in enumerate(grid.shape):
        along = energy.movedim(k, 0).reshape(n, -1).sum(1)
        if transform == "fourier":  # k and -k are one wave, which is two half waves
            along = torch.stack([along[0], *(along[j] + along[-j] for j in range(1, (n + 1) // 2))])
        beyond = along.flip(0).cumsum(0).flip(0) > LEFT_OUT**2 * along.sum()
        most = max(most, int(beyond.sum()) * (2 if transform == "fourier" else 1))
    return most
