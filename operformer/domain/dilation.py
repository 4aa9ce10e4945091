"""Dilated patches point by point: functions on D cut into functions on the D_j^+, and sum_j chi_j F_j of the latter.

Where the number of patches divides an axis, moving by a patch takes points to points. So all dilated patches have the
same points and weights, whatever the margin. A point at their rim may count with a part of its cell.

Counted are points: m of them to a patch, and D_j^+ reaches r m beyond it. Functions are cut and blended by slices,
whose derivatives are slices again and add up in the same order at every call. Where sizes are symbols, in a graph for
all of them, no slice may be empty; tables of indices take their place.
"""

# DESIGN.md: Dilated patches are cut by slices

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import torch
from torch import Tensor

from operformer.domain.blending import PARTS, Cover, margins_of, rise
from operformer.domain.grid import Grid
from operformer.domain.patches import axis_patches

TINY = 1e-6  # parts of a patch's side that a margin may differ from a whole number of them


@dataclass(frozen=True, eq=False)
class AxisDilation:
    """One axis of the dilated patches: how it is cut, and how what was cut is put together again."""

    kind: str  # of the grid
    is_even: bool  # the continuation; else periodic
    count: int  # patches
    points: int  # of a patch, m; a symbol while a graph is exported
    reach: int  # points before the patch that D_j^+ has, and behind it
    blended: tuple[int, int]  # points at a patch's start at which two patches count, and at its end
    share: Tensor | None  # (P, m), chi_j at the points of the patch itself; none of a single patch
    weights: Tensor  # (L,), quadrature on D_j^+, 1 in sum
    tables: tuple[Tensor, Tensor] | None  # (P L,) points of the D_j^+; (P m,) where else each point stands among these

    @property
    def size(self) -> int:
        """Points of a dilated patch, L."""
        return self.points + 2 * self.reach + (self.kind != "cells")

    def cut(self, v: Tensor, axis: int) -> Tensor:
        """(..., n, ...) -> (..., P, L, ...)."""
        if self.share is None:
            return v.unsqueeze(axis)
        end = None
        if self.kind == "nodes":
            v, end = torch.split(v, [self.count * self.points, 1], axis)
        if not self.is_even and end is not None:  # both ends are one point of the torus
            first, others = torch.split(v, [1, self.count * self.points - 1], axis)
            v = torch.cat([(first + end) / 2, others], axis)
        if self.tables is not None:
            v = v if end is None or not self.is_even else torch.cat([v, end], axis)
            return v.index_select(axis, self.tables[0]).unflatten(axis, (self.count, self.size))
        blocks = v.unflatten(axis, (self.count, self.points))
        before, after = self._before(blocks, axis), self._after(blocks, end, axis)
        return torch.cat([before, blocks, after], axis + 1)

    def _before(self, blocks: Tensor, axis: int) -> Tensor:
        """The last points of each patch's left neighbour: (..., P, reach, ...)."""
        ends = blocks.narrow(axis + 1, self.points - self.reach, self.reach)
        if not self.is_even:
            return torch.roll(ends, 1, axis)
        mirror = blocks.narrow(axis, 0, 1).narrow(axis + 1, int(self.kind != "cells"), self.reach).flip(axis + 1)
        return torch.cat([mirror, ends.narrow(axis, 0, self.count - 1)], axis)

    def _after(self, blocks: Tensor, end: Tensor | None, axis: int) -> Tensor:
        """The first points of each patch's right neighbour: (..., P, reach or one more, ...)."""
        starts = blocks.narrow(axis + 1, 0, self.reach + (self.kind != "cells"))
        if not self.is_even:
            return torch.roll(starts, -1, axis)
        mirror = blocks.narrow(axis, self.count - 1, 1).narrow(axis + 1, self.points - self.reach, self.reach)
        mirror = mirror.flip(axis + 1)
        if self.kind != "cells":
            # A periodic grid does not repeat its first point, which is the last one, too.
            last = blocks.narrow(axis, 0, 1).narrow(axis + 1, 0, 1) if end is None else end.unsqueeze(axis)
            mirror = torch.cat([last, mirror], axis + 1)
        return torch.cat([starts.narrow(axis, 1, self.count - 1), mirror], axis)

    def blend(self, f: Tensor, axis: int) -> Tensor:
        """sum_j chi_j f_j: (..., P, L, ...) -> (..., n, ...)."""
        if self.share is None:
            return f.squeeze(axis)
        share = self.share.to(f.dtype).reshape(*self.share.shape, *[1] * (f.ndim - axis - 2))
        own = f.narrow(axis + 1, self.reach, self.points)
        if self.tables is not None:
            other = f.flatten(axis, axis + 1).index_select(axis, self.tables[1])
            v = torch.lerp(other.unflatten(axis, own.shape[axis : axis + 2]), own, share).flatten(axis, axis + 1)
        else:
            v = self._blended(f, share, axis).flatten(axis, axis + 1)
        if self.kind != "nodes":
            return v
        end = f.narrow(axis, self.count - 1, 1).narrow(axis + 1, self.reach + self.points, 1).squeeze(axis)
        return torch.cat([v, end if self.is_even else v.narrow(axis, 0, 1)], axis)

    def _blended(self, f: Tensor, share: Tensor, axis: int) -> Tensor:
        """The same on the points of the patches themselves: (..., P, m, ...)."""
        first, last = self.blended
        middle, rest = self.points - first - last, self.size - self.reach - self.points - first
        parts = [self.reach - last, last, first, middle, last, first, rest]
        _, head, start, inside, stop, tail, _ = torch.split(f, parts, axis + 1)  # its derivative is one concatenation
        # Beyond D there is no patch: the share of what stands in its place is zero.
        start = torch.lerp(torch.roll(tail, 1, axis), start, share[:, :first])
        stop = torch.lerp(torch.roll(head, -1, axis), stop, share[:, self.points - last :])
        return torch.cat([start, inside, stop], axis + 1)


@dataclass(frozen=True, eq=False)
class Dilation:
    """Dilated patches with points in common: (batch, *shape, c) as functions on them, (batch, P, *points, c)."""

    axes: tuple[AxisDilation, ...]
    weights: Tensor  # (M,), of the points of a dilated patch, 1 in sum
    has_equal_weights: bool

    def cut(self, v: Tensor) -> Tensor:
        """The restrictions to the D_j^+, continued beyond D: (batch, *shape, c) -> (batch, P, *points, c)."""
        d = len(self.axes)
        for k, axis in reversed(list(enumerate(self.axes))):
            v = axis.cut(v, 1 + k)
        return v.permute(0, *range(1, 2 * d, 2), *range(2, 2 * d + 1, 2), -1).flatten(1, d)

    def blend(self, f: Tensor) -> Tensor:
        """sum_j chi_j f_j: (batch, P, *points, c) -> (batch, *shape, c)."""
        d, f = len(self.axes), f.unflatten(1, [axis.count for axis in self.axes])
        f = f.permute(0, *(axis for k in range(d) for axis in (1 + k, 1 + d + k)), -1)
        for k, axis in enumerate(self.axes):
            f = axis.blend(f, 1 + k)
        return f


def make_dilation(cover: Cover, like: Tensor) -> Dilation:
    """The points that the dilated patches have in common, in the dtype and on the device of ``like``.

    Each axis of the grid is uniform, and the number of patches divides its cells, its nodes but one or its points.
    """
    margins = margins_of(cover.overlap, cover.n_patches)
    is_even = cover.overlap.continuation == "even"
    axes = tuple(
        _whole_axis(cover.grid, k, like) if r == 0 else _dilated_axis(cover.grid, k, count, r, is_even, like)
        for k, (count, r) in enumerate(zip(cover.n_patches, margins, strict=True))
    )
    weights = axes[0].weights
    for axis in axes[1:]:
        weights = (weights.unsqueeze(-1) * axis.weights).flatten()
    # Sizes that are symbols have no values to look at.
    is_known = cover.grid.kind == "cells" and all(isinstance(axis.points, int) for axis in axes)
    equal = is_known and all(abs(r * axis.points % 1) < TINY for r, axis in zip(margins, axes, strict=True))
    return Dilation(axes, weights, equal)


def _whole_axis(grid: Grid, k: int, like: Tensor) -> AxisDilation:
    """An axis with a single patch, which has no neighbours."""
    weights = axis_patches(grid, k, 1).weights[0]
    return AxisDilation(grid.kind, True, 1, weights.shape[0], 0, (0, 0), None, weights.to(like), None)


def _dilated_axis(grid: Grid, k: int, count: int, r: float, is_even: bool, like: Tensor) -> AxisDilation:
    n, device = grid.shape[k], grid.points.device
    is_cells = grid.kind == "cells"
    m = (n - 1 if grid.kind == "nodes" else n) // count
    margin = ceil(PARTS * r - TINY) * m  # r m in parts of a point, as an integer: n may be a symbol
    # Each point stands for a cell; the cells that D_j^+ meets, and the points where chi_j is not zero.
    # Rounded up by quotients of positive numbers alone: exported graphs round others towards zero.
    up, up_half = (margin + PARTS - 1) // PARTS, (2 * margin + PARTS - 1) // (2 * PARTS)  # r m, and r m - 1/2
    reach, first = (up, up_half) if is_cells else (up_half, up)
    last = first if is_cells else first - 1
    # Patches are the unit of length from here on, and D_j is [0, 1].
    left = (torch.arange(m + 2 * reach + (not is_cells), dtype=torch.float64, device=device) - reach) / m
    left = left if is_cells else left - 0.5 / m
    weights = ((left + 1 / m).clamp(max=1 + r) - left.clamp(min=-r)).clamp(min=0) / (1 + 2 * r)
    place = (torch.arange(m, dtype=torch.float64, device=device) + 0.5 * is_cells) / m
    rising, falling = rise((place + r) / (2 * r)), rise((1 + r - place) / (2 * r))
    patch = torch.arange(count, device=device).unsqueeze(1)
    if is_even:
        rising, falling = rising.where(patch > 0, 1.0), falling.where(patch < count - 1, 1.0)
    share = (rising * falling).expand(count, -1)
    made = AxisDilation(grid.kind, is_even, count, m, reach, (first, last), share.to(like), weights.to(like), None)
    return made if isinstance(m, int) else replace(made, tables=index_tables(made, device))


def index_tables(axis: AxisDilation, device: torch.device) -> tuple[Tensor, Tensor]:
    """`AxisDilation.tables`: any size may be a symbol."""
    m, count, (first, last) = axis.points, axis.count, axis.blended
    patch = torch.arange(count, device=device).unsqueeze(1)
    i, end = torch.arange(axis.size, device=device) - axis.reach + m * patch, m * count
    if axis.is_even and axis.kind == "cells":
        i = torch.where(i < 0, -1 - i, torch.where(i >= end, 2 * end - 1 - i, i))
    elif axis.is_even:
        i = torch.where(i < 0, -i, torch.where(i > end, 2 * end - i, i))
    members = i if axis.is_even and axis.kind != "periodic" else i % end
    local = torch.arange(m, device=device)
    other = torch.where(local < first, patch - 1, torch.where(local >= m - last, patch + 1, patch))
    return members.flatten(), (other % count * axis.size + axis.reach + local + m * (patch - other)).flatten()
