"""Sources of attention: averages over M cells of the domain, which see all N points (Section 2, Theorems 1 and 2).

Keys and values are linear in v, so those of an average are averages of keys and of values. The sum over the cells, each
with the weight of all its points, is a quadrature of the integrals of attention. Queries stay at all points.
"""

# DESIGN.md: Sources are averages over cells

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.domain.products import each_product
from operformer.errors import UsageError
from operformer.operators.attention import Measure, log_density


def average_over_cells(grid: Grid, most: int) -> Measure:
    """The averages over at most ``most`` equal cells of the box, the same number along each axis, and their weights.

    The cells belong to D, so they are the same on every grid. A cell without weight is absent. For smooth functions the
    error is of second order in the size of the cells; rough ones lose what varies inside a cell, but not its mean.
    """
    m = per_axis(most, grid.dim)
    if grid.axes is None:
        cells, mass = _of_points(grid, m)
        return Measure(log_density(mass), cells=cells)
    matrices, masses = zip(*(_of_axis(grid, k, m) for k in range(grid.dim)), strict=True)
    mass = masses[0]
    for factor in masses[1:]:
        mass = (mass.unsqueeze(-1) * factor).flatten()
    return Measure(log_density(mass), cells=BoxCells(matrices, grid.shape))


def check_sources(sources: int | None) -> None:
    """Refuse what is no number of averages."""
    if sources is not None and (not isinstance(sources, int) or isinstance(sources, bool) or sources < 1):
        raise UsageError(f"sources must be a whole number of at least 1, or None for all points: got {sources!r}")


def per_axis(most: int, dim: int) -> int:
    """Cells along each axis: the largest whole number whose d-th power is at most ``most``."""
    guess = round(most ** (1 / dim))
    return guess if guess**dim <= most else guess - 1


@dataclass(frozen=True, eq=False)
class BoxCells:
    """Averages along one axis of a tensor product after the other.

    ``matrices`` are (m_k, n_k), None where the axis keeps its points; their rows sum to 1.
    """

    matrices: tuple[Tensor | None, ...]
    shape: tuple[int, ...]

    def average(self, v: Tensor) -> Tensor:
        """(batch, n, c) -> (batch, m, c)."""
        batch, _, channels = v.shape
        done, left = 1, prod(self.shape)
        for matrix, n in zip(self.matrices, self.shape, strict=True):
            left //= n
            if matrix is not None:
                v = each_product(matrix.to(v), v.reshape(batch * done, n, left * channels))
            done *= n if matrix is None else len(matrix)
        return v.reshape(batch, done, channels)


@dataclass(frozen=True, eq=False)
class PointCells:
    """Averages of scattered points by their cells, ``cell`` (n,) of ``count``, or (batch, n) where points differ.

    ``share`` is the weight of each point divided by that of its cell.
    """

    cell: Tensor
    share: Tensor
    count: int

    def average(self, v: Tensor) -> Tensor:
        """(batch, n, c) -> (batch, count, c)."""
        batch, _, channels = v.shape
        first = self.count * torch.arange(batch, device=v.device).unsqueeze(-1)
        cell = (self.cell.to(v.device) + first).flatten()
        shares = (v * self.share.to(v).unsqueeze(-1)).flatten(0, 1)
        return v.new_zeros(batch * self.count, channels).index_add(0, cell, shares).unflatten(0, (batch, self.count))


def _of_axis(grid: Grid, k: int, m: int) -> tuple[Tensor | None, Tensor]:
    """The matrix of the averages along an axis and the weights of its cells; of few points each is a cell of its own.

    A point spreads its weight over what it stands for, up to the middle between it and its neighbours. So the cells are
    the same whether points lie inside them or on their faces.
    """
    if grid.axes is None or m >= grid.shape[k]:
        return None, grid.axis_weights[k]
    x, order = torch.sort(grid.axes[k])
    (lower, upper), middles = grid.bounds[k], (x[1:] + x[:-1]) / 2
    faces = torch.linspace(lower, upper, m + 1, dtype=x.dtype, device=x.device)
    if grid.kind == "periodic":  # what the first point stands for reaches into the period before
        ends = (x[-1:] + x[:1] - (upper - lower)) / 2
        left, right = torch.cat([ends, middles]), torch.cat([middles, ends + (upper - lower)])
        overlap = _overlap(faces, left, right) + _overlap(faces - (upper - lower), left, right)
    else:
        left, right = torch.cat([faces[:1], middles]), torch.cat([middles, faces[-1:]])
        overlap = _overlap(faces, left, right)
    weights = overlap / (right - left) * grid.axis_weights[k][order]
    mass = weights.sum(-1)
    rows = weights / torch.where(mass > 0, mass, 1.0).unsqueeze(-1)
    return torch.zeros_like(rows).index_copy(1, order, rows), mass


def _overlap(faces: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The lengths that intervals (n) and cells between faces (m + 1) have in common: (m, n)."""
    upper, lower = faces[1:].unsqueeze(-1), faces[:-1].unsqueeze(-1)
    return (torch.minimum(upper, right) - torch.maximum(lower, left)).clamp(min=0.0)


def _of_points(grid: Grid, m: int) -> tuple[PointCells, Tensor]:
    """The cells of scattered or ragged points, and the weights of the cells: (count,) or (batch, count)."""
    bounds = torch.tensor(grid.bounds, dtype=torch.float64, device=grid.points.device)
    along = ((grid.points - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0]) * m).long().clamp(max=m - 1)
    cell = along[..., 0]
    for k in range(1, grid.dim):
        cell = cell * m + along[..., k]
    weights = grid.weights if grid.counts is None else grid.weights.squeeze(1)
    mass = weights.new_zeros(*weights.shape[:-1], m**grid.dim).scatter_add(-1, cell, weights)
    around = mass.gather(-1, cell)
    share = weights / torch.where(around > 0, around, 1.0)
    return PointCells(cell, share, m**grid.dim), mass
