"""Dilated patches that overlap, and the smooth partition of unity that blends what is computed on them.

A partition of D into congruent patches D_j is dilated by a part of a patch's side: D_j^+ reaches into its neighbours.
Functions are continued beyond D, evenly or periodically. What a function F_j on each D_j^+ contributes at x is
chi_j(x) F_j(x), where chi_j is smooth, vanishes outside D_j^+ and sum_j chi_j = 1. D_j^+ and chi_j belong to D: no
grid changes them. An axis with a single patch has no faces and is not dilated.

Lengths along an axis are measured in patches: D is [0, P], D_j^+ is [j - r, j + 1 + r].
"""

# DESIGN.md: Patches may overlap and are blended
# DESIGN.md: Overlap is a part of a patch's side

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from operformer.domain.basis import Basis
from operformer.domain.grid import Grid
from operformer.domain.patches import ON_FACE, Patches, ScatteredPatches, axis_patches, make_patches
from operformer.domain.products import each_product, exact_matmul
from operformer.domain.transform import (
    Transform,
    along_axes,
    axis_matrices,
    gram_matrices,
    make_synthesis,
    make_transform,
    on_each_patch,
)
from operformer.errors import UsageError
from operformer.settings import check_fields

PARTS = 5040  # of a patch's side, in which margins are counted: halves, thirds, fifths and sevenths are whole numbers

Continuation = Literal["even", "periodic"]


@dataclass(frozen=True)
class Overlap:
    """How far patches reach into their neighbours, and how functions go on beyond D.

    Args:
        margin: on each side, as a part of a patch's side; at most 1/2. Good values: 0 (the paper), 0.25.
        continuation: "even" is the mirror image, for most problems; "periodic" joins the ends of D, for a torus.
    """

    margin: float
    continuation: Continuation = "even"

    def __post_init__(self) -> None:
        check_fields(self, "overlap")
        if not 0 <= self.margin <= 0.5:
            raise UsageError(f"overlap must be a part of a patch's side, from 0 to 0.5: got {self.margin!r}; try 0.25")

    @property
    def plain(self) -> Any:
        """The number alone, as JSON holds it; a table where the continuation is not even."""
        if self.continuation == "even":
            return self.margin
        return {"margin": self.margin, "continuation": self.continuation}


def rise(s: Tensor) -> Tensor:
    """s^3 (10 - 15 s + 6 s^2) on [0, 1], constant outside: twice differentiable, and rise(s) + rise(1 - s) = 1."""
    s = s.clamp(0, 1)
    return s**3 * (10 + s * (6 * s - 15))


@dataclass(frozen=True, eq=False)
class AxisCover:
    """The points of one axis and their images under the continuation, as each of the P dilated patches sees them."""

    local: Tensor  # (P, 3 n), coordinates with D_j^+ = [0, 1]
    weights: Tensor  # (P, 3 n), quadrature on D_j^+, 1 in sum
    window: Tensor  # (P, 3 n), chi_j at the image; 0 where the image does not count
    resolution: tuple[int, ...]  # intervals in each D_j^+, or once for all
    inverse: Tensor | None  # undoes the sorting of the axis
    is_even: bool

    def fold(self, values: Tensor) -> Tensor:
        """Sum over the images of each point, in the order of the axis: (..., 3 n) -> (..., n)."""
        n = values.shape[-1] // 3  # not chunk, which ONNX cannot fold
        left, here, right = values[..., :n], values[..., n : 2 * n], values[..., 2 * n :]
        total = left.flip(-1) + here + right.flip(-1) if self.is_even else left + here + right
        return total if self.inverse is None else total[..., self.inverse]


@dataclass(frozen=True, eq=False)
class Cover:
    """The dilated patches of a grid's domain, a tensor product. A function on them is kept as one function on D."""

    grid: Grid
    n_patches: tuple[int, ...]
    overlap: Overlap
    is_present: ClassVar[None] = None  # which patches hold points: all of them

    @property
    def volume(self) -> float:
        """|D_j^+|, D scaled to the unit cube."""
        margins = margins_of(self.overlap, self.n_patches)
        return prod([(1 + 2 * r) / count for r, count in zip(margins, self.n_patches, strict=True)])

    def split(self, v: Tensor) -> Tensor:
        """The function itself."""
        return v

    def join(self, v: Tensor) -> Tensor:
        """The function itself."""
        return v

    def axis(self, k: int) -> AxisCover:
        """The points along an axis with faces; no size depends on values unless the axis is uneven."""
        grid, count, r = self.grid, self.n_patches[k], self.overlap.margin
        points = grid.axes[k] if grid.axes is not None else grid.points[:, k]
        n = points.shape[0]
        if count > n:
            raise UsageError(f"axis {k} has {n} points for {count} patches; use at most {n} patches or a finer grid")
        lower, upper = grid.bounds[k]
        t, inverse = count * (points - lower) / (upper - lower), None
        if not grid.is_uniform:
            t, order = torch.sort(t)
            inverse = torch.argsort(order)
        is_even = self.overlap.continuation == "even"
        images = torch.cat([-t.flip(0), t, 2 * count - t.flip(0)] if is_even else [t - count, t, t + count])
        first = torch.arange(count, dtype=t.dtype, device=t.device).unsqueeze(1) - r
        # Each image stands for what is nearest to it. The cells of the outermost ones have no end.
        middles, end = (images[1:] + images[:-1]) / 2, images.new_full((1,), 4.0 * count)
        left, right = torch.cat([-end, middles]), torch.cat([middles, end])
        length = 1 + 2 * r
        weights = (torch.minimum(right, first + length) - torch.maximum(left, first)).clamp(min=0) / length
        window = window_of(images, first + r, r, count, is_even)
        if is_even:  # an image is the same point of D: it counts once
            none = torch.zeros_like(window[:, :n])
            window = torch.cat([none, window[:, n : 2 * n], none], 1)
        local = torch.where((weights > 0) | (window > 0), (images - first) / length, 0.5)
        resolution = self._resolution(n, k) if inverse is None else _counted(images, first, length, k)
        return AxisCover(local, weights, window, resolution, inverse, is_even)

    def _resolution(self, n: int, k: int) -> tuple[int, ...]:
        """Intervals of n uniform points in D_j^+, in exact integers: compilers know every size."""
        intervals = n - 1 if self.grid.kind == "nodes" else n
        return (intervals * (PARTS + 2 * round(PARTS * self.overlap.margin)) // (PARTS * self.n_patches[k]),)


def margins_of(overlap: Overlap, n_patches: Sequence[int]) -> tuple[float, ...]:
    """The margin along each axis; none where a single patch has no neighbours."""
    return tuple(overlap.margin if count > 1 else 0.0 for count in n_patches)


def _counted(images: Tensor, first: Tensor, length: float, k: int) -> tuple[int, ...]:
    """Intervals between the points of each dilated patch."""
    inside = (images >= first - ON_FACE) & (images <= first + length + ON_FACE)
    found = [count - 1 for count in inside.sum(1).tolist()]
    if min(found) < 1:
        patch = f"patch {found.index(min(found))} of {len(found)} along axis {k}"
        raise UsageError(f"{patch} holds fewer than 2 points; use fewer patches or a finer grid")
    return tuple(found)


def window_of(t: Tensor, start: Tensor, r: float, count: int, is_even: bool) -> Tensor:
    """chi_j(t) of the patches [start, start + 1]; with an even continuation it does not fall at the ends of D."""
    rising, falling = rise((t - start + r) / (2 * r)), rise((start + 1 + r - t) / (2 * r))
    if is_even:
        rising = torch.where(start < 0.5, 1.0, rising)
        falling = torch.where(start > count - 1.5, 1.0, falling)
    return rising * falling


@dataclass(frozen=True, eq=False)
class ScatteredCover:
    """The dilated patches of scattered points: each holds points and images of points. A function stays on D.

    A point counts in all patches whose window does not vanish there, at most 2^d.
    """

    patches: ScatteredPatches
    volume: float
    places: Tensor  # (K, N), the places of each point among all those of the patches
    shares: Tensor  # (K, N), chi_j at them

    @property
    def n_patches(self) -> tuple[int, ...]:
        """Along each axis of D."""
        return self.patches.n_patches

    @property
    def is_present(self) -> Tensor:
        """Whether a patch holds any weight (P,)."""
        return self.patches.is_present

    def split(self, v: Tensor) -> Tensor:
        """The function itself."""
        return v

    def join(self, v: Tensor) -> Tensor:
        """The function itself."""
        return v


AnyCover = Patches | Cover | ScatteredCover


def make_cover(grid: Grid, n_patches: Sequence[int], overlap: Overlap) -> AnyCover:
    """The partition of a grid's domain, or its dilated patches where they overlap."""
    if overlap.margin == 0:
        return make_patches(grid, n_patches)
    if grid.axes is None:
        return _scattered_cover(grid, tuple(n_patches), overlap)
    return Cover(grid, tuple(n_patches), overlap)


def _scattered_cover(grid: Grid, counts: tuple[int, ...], overlap: Overlap) -> ScatteredCover:
    """The weight of a point in a patch is the grid's, scaled so that the weights of a patch sum to 1."""
    margins, is_even = margins_of(overlap, counts), overlap.continuation == "even"
    box = torch.tensor(grid.bounds, dtype=torch.float64, device=grid.points.device)
    per_axis = torch.tensor(counts, dtype=torch.float64, device=box.device)
    x = (grid.points - box[:, 0]) / (box[:, 1] - box[:, 0]) * per_axis
    owner, chi = torch.arange(len(x), device=box.device), torch.ones_like(x[:, 0])
    patch = torch.zeros_like(owner)
    for k, (count, r) in enumerate(zip(counts, margins, strict=True)):
        number = torch.zeros_like(x[:, k])
        if r > 0:
            # Images beyond the lower end, then beyond the upper one. An image is the same point of D: it counts once.
            low, high = ((x[:, k] < r).nonzero()[:, 0], (x[:, k] > count - r).nonzero()[:, 0])
            below, above = (low, high) if is_even else (high, low)
            moved = [-x[low, k], 2 * count - x[high, k]] if is_even else [x[high, k] - count, x[low, k] + count]
            at, chosen = torch.cat([x[:, k], *moved]), torch.cat([torch.arange(len(x), device=x.device), below, above])
            counts_once = torch.arange(len(at), device=x.device) < len(x)
            chi = chi[chosen].where(counts_once, 0.0) if is_even else chi[chosen]
            # Each lies in one patch or in two.
            upper = (at + r).floor().clamp(0, count - 1)
            lower = torch.maximum((at - 1 - r).ceil().clamp(0, count - 1), upper - 1)
            twice = (lower < upper).nonzero()[:, 0]
            again = torch.cat([torch.arange(len(at), device=x.device), twice])
            at, number, chosen = at[again], torch.cat([upper, lower[twice]]), chosen[again]
            chi = chi[again] * window_of(at, number, r, count, is_even)
            x, owner, patch = x[chosen], owner[chosen], patch[chosen]
            x[:, k] = (at - number + r) / (1 + 2 * r)
        patch = patch * count + number.long()
    members, real, rank = _grouped(patch, prod(counts))
    weights = torch.where(real, grid.weights[owner[members]], 0.0)
    total = weights.sum(1, keepdim=True)
    weights = torch.where(total > 0, weights / torch.where(total > 0, total, 1.0), 0.0)
    counted = (chi > 0).nonzero()[:, 0]
    table, is_share, _ = _grouped(owner[counted], len(grid.points))
    entries = counted[table].T
    places, shares = (patch * members.shape[1] + rank)[entries], chi[entries].where(is_share.T, 0.0)
    made = ScatteredPatches(
        counts, grid.shape, owner[members], x[members], weights, real, places[0], is_present=total[:, 0] > 0
    )
    volume = prod([(1 + 2 * r) / count for r, count in zip(margins, counts, strict=True)])
    return ScatteredCover(made, volume, places, shares)


def _grouped(group: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The members of each group, padded (count, M); which of them are real; the rank of each member in its group."""
    sizes, order = torch.bincount(group, minlength=count), torch.argsort(group, stable=True)
    start = torch.cumsum(sizes, 0) - sizes
    slots = torch.arange(int(sizes.max()), device=group.device)
    places = start[:, None] + torch.minimum(slots, (sizes[:, None] - 1).clamp(min=0))
    return order[places.clamp(max=len(order) - 1)], slots < sizes[:, None], torch.argsort(order) - start[group]


@dataclass(frozen=True, eq=False)
class BlendedTransform:
    """Analysis of v on each D_j^+ and synthesis of sum_j chi_j F_j, by one dense matrix along each axis of D."""

    n_patches: tuple[int, ...]
    analysis: tuple[Tensor, ...]  # (P_k size_k, n_k)
    synthesis: tuple[Tensor, ...]  # (n_k, P_k size_k)
    gram: tuple[Tensor, ...] | None  # (P_k, size_k, size_k)
    is_shared: ClassVar[bool] = False  # patches have no matrix in common

    def analyse(self, v: Tensor) -> Tensor:
        """(batch, *shape, c) -> (batch, P, sizes, c), the sizes of all axes flattened."""
        is_halved = self.analysis[0].dtype == torch.float16  # by fused layers, on a GPU
        d, coefficients = len(self.n_patches), along_axes(self.analysis, v, each_product if is_halved else torch.matmul)
        for k, count in enumerate(self.n_patches):
            coefficients = coefficients.unflatten(1 + 2 * k, (count, -1))
        order = (0, *range(1, 2 * d, 2), *range(2, 2 * d + 1, 2), 2 * d + 1)
        return coefficients.permute(order).flatten(1 + d, 2 * d).flatten(1, d)

    def synthesise(self, coefficients: Tensor) -> Tensor:
        """(batch, P, sizes, c) -> (batch, *shape, c)."""
        d = len(self.n_patches)
        coefficients = coefficients.unflatten(2, self._sizes).unflatten(1, self.n_patches)
        order = [axis for k in range(d) for axis in (1 + k, 1 + d + k)]
        coefficients = coefficients.permute(0, *order, 2 * d + 1)
        for k in range(d):
            coefficients = coefficients.flatten(1 + k, 2 + k)
        return along_axes(self.synthesis, coefficients, exact_matmul)

    def weigh(self, coefficients: Tensor) -> Tensor:
        """The coefficients a with <a, b> = <sum_i a_i phi_i, sum_j b_j phi_j>; themselves if phi is orthonormal."""
        if self.gram is None:
            return coefficients
        weighed = on_each_patch(self.gram, coefficients.unflatten(2, self._sizes), self.n_patches)
        return weighed.flatten(2, -2)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(S.shape[1] // count for S, count in zip(self.synthesis, self.n_patches, strict=True))


@dataclass(frozen=True, eq=False)
class ScatteredBlend:
    """The same between scattered points, by gathering."""

    cover: ScatteredCover
    inside: Transform
    shares: Tensor  # (K, N, 1)
    is_shared: ClassVar[bool] = False

    @property
    def n_patches(self) -> tuple[int, ...]:
        """All patches stand along one axis."""
        return self.inside.n_patches

    def analyse(self, v: Tensor) -> Tensor:
        """(batch, N, c) -> (batch, P, sizes, c)."""
        return self.inside.analyse(self.cover.patches.split(v))

    def synthesise(self, coefficients: Tensor) -> Tensor:
        """(batch, P, sizes, c) -> (batch, N, c)."""
        parts = self.inside.synthesise(coefficients).flatten(1, 2)
        places = self.cover.places.to(parts.device)
        total = self.shares[0] * parts.index_select(1, places[0])
        for place, share in zip(places[1:], self.shares[1:], strict=True):
            total = total + share * parts.index_select(1, place)
        return total

    def weigh(self, coefficients: Tensor) -> Tensor:
        """As in `Transform`."""
        return self.inside.weigh(coefficients)


AnyTransform = Transform | BlendedTransform | ScatteredBlend


def transform_on(
    cover: AnyCover, basis: Basis, n_modes: tuple[int, ...], like: Tensor, by_least_squares: bool = False
) -> AnyTransform:
    """Analysis and synthesis on patches, dilated ones or not, in the dtype and on the device of ``like``.

    Modes that the points of a patch do not resolve get the coefficient zero.
    """
    if isinstance(cover, Cover):
        return _blended_transform(cover, basis, n_modes, like)
    if isinstance(cover, ScatteredCover):
        inside = make_transform(cover.patches, basis, n_modes, cover.patches.weights, by_least_squares)
        analysis = _exact_for_constants(inside.analysis[0], cover.patches.weights)
        gram = None if inside.gram is None else (inside.gram[0].to(like),)
        inside = replace(inside, analysis=(analysis.to(like),), synthesis=(inside.synthesis[0].to(like),), gram=gram)
        return ScatteredBlend(cover, inside, cover.shares.unsqueeze(-1).to(like))
    return make_transform(cover, basis, n_modes, like, by_least_squares)


def read_on(
    query: Grid, n_patches: tuple[int, ...], overlap: Overlap, basis: Basis, n_modes: tuple[int, ...], like: Tensor
) -> tuple[AnyCover, AnyTransform]:
    """Where the points of a query lie in patches, some of which may hold none, and synthesis there.

    The bounds of the query are those of D; see `within`.
    """
    if overlap.margin == 0:
        patches = make_patches(query, n_patches, may_be_empty=True)
        return patches, make_synthesis(patches, basis, n_modes, like)
    if query.axes is None:
        cover = make_cover(query, n_patches, overlap)
        return cover, transform_on(cover, basis, n_modes, like)
    made = [
        _axis_synthesis(query, k, count, overlap, basis, m)
        for k, (count, m) in enumerate(zip(n_patches, n_modes, strict=True))
    ]
    synthesis = tuple(t.to(like).contiguous() for t in made)
    return Cover(query, n_patches, overlap), BlendedTransform(n_patches, (), synthesis, None)


def _axis_synthesis(query: Grid, k: int, count: int, overlap: Overlap, basis: Basis, n_modes: int) -> Tensor:
    """sum_j chi_j F_j along one axis: (n, P size)."""
    (lower, upper), axis = query.bounds[k], (query.axes or ())[k]
    t = count * (axis - lower) / (upper - lower)
    if count == 1:
        return basis.synthesis(t.clamp(0, 1), n_modes)
    r, is_even = overlap.margin, overlap.continuation == "even"
    start = torch.arange(count, dtype=t.dtype, device=t.device).unsqueeze(1)
    parts = []
    for image in [t] if is_even else [t - count, t, t + count]:
        window = window_of(image, start, r, count, is_even)
        local = torch.where(window > 0, (image - start + r) / (1 + 2 * r), 0.5)
        parts.append(basis.synthesis(local, n_modes) * window.unsqueeze(-1))
    return sum(parts[1:], parts[0]).transpose(0, 1).flatten(1)


def _blended_transform(cover: Cover, basis: Basis, n_modes: tuple[int, ...], like: Tensor) -> BlendedTransform:
    made = [_axis_matrices(cover, k, basis, m) for k, m in enumerate(n_modes)]
    analysis, synthesis, gram = (tuple(t.to(like).contiguous() for t in row) for row in zip(*made, strict=True))
    return BlendedTransform(cover.n_patches, analysis, synthesis, None if basis.is_orthonormal else gram)


def _exact_for_constants(analysis: Tensor, weights: Tensor) -> Tensor:
    """Analysis (P, size, points) that takes a constant to the first function alone, whatever the quadrature's error.

    Where patches overlap nothing else keeps a constant on an uneven grid constant.
    """
    excess = analysis.sum(-1, keepdim=True)
    return analysis - torch.cat([torch.zeros_like(excess[:, :1]), excess[:, 1:]], 1) * weights.unsqueeze(1)


def _axis_matrices(cover: Cover, k: int, basis: Basis, n_modes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Analysis (P size, n), synthesis (n, P size) and Gram matrices (P, size, size) of one axis."""
    if cover.n_patches[k] == 1:
        alone = axis_patches(cover.grid, k, 1)
        there, back = axis_matrices(alone, basis, n_modes)
        gram = gram_matrices(back, alone.weights)
        there = _exact_for_constants(there, alone.weights)
        if alone.is_even:
            return there[0], back[0], gram
        order = torch.argsort(alone.members[0])
        return there[0][:, order], back[0][order], gram
    axis = cover.axis(k)
    mode = torch.arange(basis.size(n_modes), device=axis.local.device) // (2 if basis.has_pairs else 1)
    resolved = torch.stack([mode < basis.n_resolved(n) for n in axis.resolution]).unsqueeze(-1)
    functions = basis.synthesis(axis.local, n_modes)
    analysis = (basis.analysis(axis.local, n_modes) * axis.weights.unsqueeze(-1)).mT * resolved
    analysis = _exact_for_constants(analysis, axis.weights)
    synthesis = (functions * axis.window.unsqueeze(-1)).mT
    gram = gram_matrices(functions, axis.weights)
    return axis.fold(analysis).flatten(0, 1), axis.fold(synthesis).flatten(0, 1).T, gram
