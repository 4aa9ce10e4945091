"""-div(a grad z) = f on a box with z = 0 on its boundary (equation Darcy): conservative differences of second order.

Unknowns are at the points of a uniform grid: "nodes", whose outermost points are the boundary, or "cells", half a step
inside it. Fluxes cross the faces midway between neighbours. Their coefficient is the geometric mean of a, which is the
effective coefficient of a random mixture in two dimensions.

The solver is conjugate gradients, preconditioned by Poisson's problem, which sines diagonalise: about 20 iterations at
any resolution. The sine transform is scipy's fast one on a CPU, and a product with a dense matrix on a GPU, which is
quicker there.
"""

# DESIGN.md: Solvers are checked against other discretisations

from __future__ import annotations

from functools import partial
from math import pi, sqrt

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.errors import DivergedError, UsageError

RESIDUAL = 1e-10
_ITERATIONS = 500
_CONTRAST = 5.0  # beyond it a is factored out; Poisson's problem alone has a condition number of max a / min a
_WIDTH = 0.025  # of the local mean of log a that is factored out, as a share of the box
_dot = partial(torch.einsum, "bxy,bxy->b")
_norm = partial(torch.linalg.vector_norm, dim=(1, 2))


def solve_darcy(a: Tensor, f: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """z with -div(a grad z) = f and z = 0 on the boundary, for a batch of coefficients.

    Args:
        a: (batch, n_1, n_2), float64, positive.
        f: (n_1, n_2) or (batch, n_1, n_2).
        grid: uniform nodes or cells.

    Returns:
        z and the relative residuals ||f - A z|| / ||f|| (batch,), at most 1e-10; a larger one is an error.
    """
    _check(a, f, grid)
    inside = (slice(None),) + (slice(1, -1) if grid.kind == "nodes" else slice(None),) * 2
    f = f.to(a).expand_as(a)[inside]
    size = _or_one(f.abs().amax((1, 2), keepdim=True))  # the preconditioner's float32 ends at 1e38
    scaled, residuals = _conjugate_gradients(
        _Stencil(a, grid), f / size, _Preconditioner(grid, _scaling(a, grid)[inside])
    )
    z = torch.zeros_like(a)
    z[inside] = scaled * size
    return z, residuals


class _Stencil:
    """A z = -div(a grad z) by the fluxes through the faces of both axes, those on the boundary included."""

    def __init__(self, a: Tensor, grid: Grid) -> None:
        is_node = grid.kind == "nodes"
        self.faces = [_conductivities(a, k, is_node) / step**2 for k, step in enumerate(_steps(grid), start=1)]

    def __call__(self, z: Tensor) -> Tensor:
        total = torch.zeros_like(z)
        for k, faces in enumerate(self.faces, start=1):
            edge = torch.zeros_like(z.narrow(k, 0, 1))
            flux = faces * torch.diff(z, dim=k, prepend=edge, append=edge)
            total -= torch.diff(flux, dim=k)
        return total


def _conductivities(a: Tensor, k: int, is_node: bool) -> Tensor:
    """a on the faces across axis k, one more than unknowns; a face on the boundary of a cell is half a step away."""
    n = a.shape[k]
    if is_node:
        a = a.narrow(3 - k, 1, a.shape[3 - k] - 2)  # rows that are boundary carry no unknowns
    left, right = a.narrow(k, 0, n - 1), a.narrow(k, 1, n - 1)
    faces = torch.sqrt(left * right)
    if is_node:
        return faces
    return torch.cat([2 * a.narrow(k, 0, 1), faces, 2 * a.narrow(k, n - 1, 1)], dim=k)


def _conjugate_gradients(apply: _Stencil, f: Tensor, precondition: _Preconditioner) -> tuple[Tensor, Tensor]:
    """A z = f for each of a batch; a finished one does not change any more."""
    z, r = torch.zeros_like(f), f.clone()
    size = _or_one(_norm(f))
    p = y = precondition(r)
    slope = _dot(r, y)
    for _ in range(_ITERATIONS):
        running = _norm(r) > 0.5 * RESIDUAL * size  # r is updated, not computed: leave room for its rounding
        if not bool(running.any()):
            break
        q = apply(p)
        step = torch.where(running, slope / _dot(p, q), 0.0)[:, None, None]
        z = torch.addcmul(z, step, p)
        r = torch.addcmul(r, -step, q)
        y = precondition(r)
        slope, before = _dot(r, y), slope
        p = torch.addcmul(y, torch.where(running, slope / before, 0.0)[:, None, None], p)
    residuals = _norm(f - apply(z)) / size
    if not bool((residuals <= RESIDUAL).all()):
        worst = int(torch.nan_to_num(residuals, nan=torch.inf).argmax())
        raise DivergedError(
            f"the Darcy problem of coefficient {worst} is solved to a residual of {float(residuals[worst]):.1e} only, "
            f"not to {RESIDUAL:g}; its coefficient reaches from too small to too large, or the grid is too fine"
        )
    return z, residuals


class _Preconditioner:
    """r -> s (-Laplace_h)^-1 (s r) with s = a^(-1/2), since sqrt(a) (-Laplace) sqrt(a) is -div(a grad) for smooth a.

    Poisson's problem is solved by sines in float32: a preconditioner need not be exact.
    """

    def __init__(self, grid: Grid, scaling: Tensor) -> None:
        is_node, steps, self.scaling = grid.kind == "nodes", _steps(grid), scaling
        rows, columns = (_eigenvalues(n, is_node) / step**2 for n, step in zip(grid.shape, steps, strict=True))
        self.inverse = (1 / (rows[:, None] + columns)).to(scaling.device, torch.float32)
        self.kind = 1 if is_node else 2  # of the sine transform: zero at the points beyond the ends, or half a step off
        self.sines: tuple[Tensor, ...] | None = None
        if scaling.device.type != "cpu":
            self.sines = tuple(_sines(n, is_node).to(scaling.device, torch.float32) for n in grid.shape)

    def __call__(self, r: Tensor) -> Tensor:
        return self.scaling * self._poisson((self.scaling * r).float()).to(r)

    def _poisson(self, r: Tensor) -> Tensor:
        if self.sines is None:
            from scipy.fft import dstn, idstn  # here, so that the front is imported without scipy

            spectrum = dstn(r.numpy(), self.kind, axes=(1, 2), overwrite_x=True) * self.inverse.numpy()
            return torch.from_numpy(idstn(spectrum, self.kind, axes=(1, 2), overwrite_x=True))
        rows, columns = self.sines
        return rows.T @ (rows @ r @ columns.T * self.inverse) @ columns


def _scaling(a: Tensor, grid: Grid) -> Tensor:
    """exp(-1/2 of a local mean of log a) where a varies much, 1 where Poisson's problem is close enough.

    A mean instead of log a itself: across a jump sqrt(a) (-Laplace) sqrt(a) is far from -div(a grad).
    """
    means = []
    for axis in grid.to(a.device).axes or ():
        distance = (axis[:, None] - axis) / (axis[-1] - axis[0])
        weights = torch.exp(-0.5 * (distance / _WIDTH).square())
        means.append(weights / weights.sum(1, keepdim=True))
    varies = a.amax((1, 2)) > _CONTRAST * a.amin((1, 2))
    return torch.exp(-0.5 * torch.where(varies[:, None, None], means[0] @ a.log() @ means[1].T, 0.0))


def _eigenvalues(n: int, is_node: bool) -> Tensor:
    """Those of the second difference with zero boundary values and step 1; nodes have n - 2 unknowns."""
    intervals = n - 1 if is_node else n
    k = torch.arange(1, intervals + (not is_node), dtype=torch.float64)
    return 4 * torch.sin(pi * k / (2 * intervals)).square()


def _sines(n: int, is_node: bool) -> Tensor:
    """Its orthonormal eigenvectors, as rows."""
    intervals = n - 1 if is_node else n
    k = torch.arange(1, intervals + (not is_node), dtype=torch.float64)
    position = torch.arange(1, intervals, dtype=torch.float64) if is_node else torch.arange(n) + 0.5
    vectors = torch.sin(pi * k[:, None] * position / intervals) * sqrt(2 / intervals)
    if not is_node:
        vectors[-1] /= sqrt(2)
    return vectors


def _steps(grid: Grid) -> list[float]:
    return [float(axis[1] - axis[0]) for axis in grid.axes or ()]


def _or_one(size: Tensor) -> Tensor:
    """The size to divide by: 1 where there is no source, whose solution is zero."""
    return torch.where(size > 0, size, 1.0)


def _check(a: Tensor, f: Tensor, grid: Grid) -> None:
    if grid.kind not in ("nodes", "cells") or grid.dim != 2 or min(grid.shape) < 4:
        raise UsageError(f"Darcy's problem is solved on uniform nodes or cells, at least 4 by 4: got {grid}")
    if a.ndim != 3 or tuple(a.shape[1:]) != grid.shape or a.dtype != torch.float64:
        expected = f"float64 of shape (batch, {grid.shape[0]}, {grid.shape[1]})"
        raise UsageError(f"the coefficient must be {expected}: got {a.dtype} of shape {tuple(a.shape)}")
    if not bool(((a > 0) & torch.isfinite(a)).all()):
        raise UsageError(
            "the coefficient must be positive and finite everywhere; otherwise the problem is not elliptic"
        )
    if tuple(f.shape) not in (tuple(a.shape), grid.shape) or not bool(torch.isfinite(f).all()):
        expected = f"finite numbers of shape {grid.shape} or {tuple(a.shape)}"
        raise UsageError(f"the source must be {expected}: got shape {tuple(f.shape)}, or NaN or infinity among them")
