"""The points on which a function is known, and the weights that integrate over them (Appendix B.1).

Weights are tensor products of one-dimensional rules.
# Paper: Delta x_k is a product of coordinate differences of consecutive points, zero at most steps of a 2-d grid.
"""

# DESIGN.md: A function is its values and a grid
# DESIGN.md: Left ends are a kind of their own

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import index
from typing import Annotated, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from operformer.checking import as_device, checked
from operformer.domain.box import Bounds, GivenBounds, Numbers, as_numbers, checked_bounds, checked_points
from operformer.domain.mesh import Cells
from operformer.domain.quadrature import trapezoidal_weights
from operformer.errors import UsageError
from operformer.memory import require_memory
from operformer.settings import AS_GIVEN, LARGEST, named

UniformKind = Literal["nodes", "cells", "periodic", "left"]
Kind = Literal["nodes", "cells", "periodic", "left", "rectilinear", "scattered", "ragged"]
UNIFORM_KINDS: tuple[UniformKind, ...] = get_args(UniformKind)


@dataclass(frozen=True, eq=False, repr=False)
class Grid:
    """Points x_i in a box D and weights w_i >= 0: sum_i w_i u(x_i) is a quadrature of the integral of u over D.

    Make one with `Grid.uniform`, `Grid.rectilinear`, `Grid.scattered` or `Grid.mesh`, or with `Grid.ragged` for a batch
    of functions that are each known on points of their own. A grid is a frozen value. Keep the object and pass it
    again: operators make their tables once for each grid.

    Args:
        points: (*shape, d) in float64; ragged (batch, N, d).
        weights: (*shape) in float64; ragged (batch, 1, N), the same for all channels.
        bounds: the box D, (lower, upper) for each axis.
        kind: "nodes", "cells", "periodic", "left", "rectilinear", "scattered" or "ragged".
        axes: the coordinates along each axis of a tensor product, None for scattered points.
        axis_weights: the weights along each axis of a tensor product.
        has_equal_weights: whether all weights are the same; known without looking at them.
        counts: ragged: how many points each sample has.
        cells: of a mesh its cells; of a ragged grid of meshes those of each sample.

    Example:
        >>> grid = Grid.uniform((64, 64), bounds=[(0, 1), (0, 2)], kind="cells")
        >>> grid.points.shape, grid.weights.sum().item()
        (torch.Size([64, 64, 2]), 2.0)
    """

    points: Tensor  # (*shape, d), float64; ragged: (batch, N, d)
    weights: Tensor  # (*shape), float64; ragged: (batch, 1, N), the same for all channels
    bounds: Bounds
    kind: Kind
    axes: tuple[Tensor, ...] | None
    axis_weights: tuple[Tensor, ...]
    has_equal_weights: bool
    counts: tuple[int, ...] | None = None  # ragged: how many points each sample has
    cells: tuple[Cells, ...] = ()  # of a mesh one, of ragged meshes one for each sample

    @staticmethod
    @checked
    def uniform(
        shape: Annotated[int | Sequence[int], AS_GIVEN],
        bounds: GivenBounds | None = None,
        kind: UniformKind = "nodes",
    ) -> Grid:
        """Equispaced points.

        Args:
            shape: points along each axis, such as (64, 64); one number is one axis.
            bounds: (lower, upper) for each axis; None is the unit cube.
            kind: "nodes" hold both ends, with trapezoidal weights. "cells" are midpoints. "periodic" leaves out the
                upper end, which is the lower one of the next period. "left" leaves it out of a function without a
                period. Its last point then also stands for the rest of D, so the rule stays of second order.
        """
        sizes = _checked_sizes(shape)
        box = checked_bounds(bounds, len(sizes))
        axes, axis_weights = [], []
        for n, (lower, upper) in zip(sizes, box, strict=True):
            if kind == "nodes":
                axis = torch.linspace(lower, upper, n, dtype=torch.float64)
                axis_weights.append(trapezoidal_weights(axis))
            else:
                offset = 0.5 if kind == "cells" else 0.0
                axis = lower + (upper - lower) * (torch.arange(n, dtype=torch.float64) + offset) / n
                axis_weights.append(torch.full((n,), (upper - lower) / n, dtype=torch.float64))
            if kind == "left":  # trapezoidal weights, and the last point stands for what lies beyond it
                axis_weights[-1][0] *= 0.5
                axis_weights[-1][-1] *= 1.5
            axes.append(axis)
        return _tensor_product(axes, axis_weights, box, kind, has_equal_weights=kind in ("cells", "periodic"))

    @staticmethod
    @checked
    def rectilinear(*axes: Numbers, bounds: GivenBounds | None = None) -> Grid:
        """The tensor product of axes with any spacing, with trapezoidal weights.

        Args:
            axes: the coordinates along each axis, in any order, each value once.
            bounds: (lower, upper) for each axis; None reaches from end to end. In larger bounds the outermost points
                also stand for what lies beyond them.
        """
        if not axes:
            raise UsageError("a rectilinear grid needs at least one axis: got none")
        given = [as_numbers(axis, f"axis {k}").double() for k, axis in enumerate(axes)]
        for k, axis in enumerate(given):
            if axis.ndim != 1 or len(axis) < 2:
                raise UsageError(f"axis {k} needs at least two values in one row: got shape {tuple(axis.shape)}")
            if not bool(torch.isfinite(axis).all()):
                raise UsageError(f"axis {k} holds values that are not finite; remove them")
            if len(torch.unique(axis)) < len(axis):
                raise UsageError(f"axis {k} holds a value twice; keep one of each")
        ends = tuple((float(axis.min()), float(axis.max())) for axis in given)
        box = ends if bounds is None else checked_bounds(bounds, len(given))
        axis_weights = []
        for k, (axis, (first, last), (lower, upper)) in enumerate(zip(given, ends, box, strict=True)):
            if first < lower or last > upper:
                raise UsageError(f"axis {k} reaches from {first} to {last}, outside the bounds {(lower, upper)}")
            weights = trapezoidal_weights(axis)
            weights[axis.argmin()] += first - lower
            weights[axis.argmax()] += upper - last
            axis_weights.append(weights)
        return _tensor_product(given, axis_weights, box, "rectilinear", False)

    @staticmethod
    @checked
    def scattered(
        points: Numbers,
        weights: Numbers | None = None,
        bounds: GivenBounds | None = None,
    ) -> Grid:
        """Points in any order.

        Args:
            points: (N, d), d = 1, 2 or 3.
            weights: (N,), taken as they are. None is equal weights, right only for points drawn at random (Monte
                Carlo). Good value: ``voronoi_weights(points, bounds)``, the volumes of the cells around the points.
            bounds: (lower, upper) for each axis; None is the unit cube. The domain belongs to the problem, not to
                where points happen to lie.
        """
        given = as_numbers(points, "points")
        if given.ndim != 2 or given.shape[1] not in (1, 2, 3):
            raise UsageError(f"scattered points must be (N, d), d = 1, 2 or 3: got shape {tuple(given.shape)}")
        count, dim = given.shape
        if count < 2:
            raise UsageError(f"a grid needs at least two points: got {count}")
        box = checked_bounds(bounds, dim)
        given = checked_points(given, box)
        if weights is None:
            volume = prod(upper - lower for lower, upper in box)
            taken = torch.full((count,), volume / count, dtype=torch.float64, device=given.device)
        elif isinstance(weights, str):
            raise UsageError(f"weights must be numbers: got {weights!r}; try weights=voronoi_weights(points, bounds)")
        else:
            taken = as_numbers(weights, "weights").to(given.device, torch.float64)
            if taken.shape != (count,):
                raise UsageError(f"weights must be ({count},), one for each point: got shape {tuple(taken.shape)}")
            check_weights(taken)
        return Grid(given, taken, box, "scattered", None, (), has_equal_weights=weights is None)

    @staticmethod
    @checked
    def mesh(points: Numbers, cells: Numbers, bounds: GivenBounds | None = None) -> Grid:
        """The points of a mesh, weighted so that functions that are linear on each cell are integrated exactly.

        The domain is what the cells fill, which need not be a box: an L, a disk, a plate with holes. It is a grid of
        scattered points that knows its neighbours: it has H1 norms, and predictions outside the cells are NaN.

        Args:
            points: (N, d), d = 1, 2 or 3.
            cells: (M, d + 1), the numbers of the points at the corners of each interval, triangle or tetrahedron.
            bounds: a box that holds the mesh, (lower, upper) for each axis; None is the smallest one. Meshes of one
                domain that differ from sample to sample need the same box.

        Example:
            >>> grid = Grid.mesh([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0, 1, 2]])
            >>> grid.weights.sum().item()
            0.5
        """
        given = as_numbers(points, "points").detach()
        if bounds is None and given.ndim == 2 and len(given) > 1 and given.shape[1] in (1, 2, 3):
            low, high = given.double().amin(0).tolist(), given.double().amax(0).tolist()
            bounds = list(zip(low, high, strict=True))
        plain = Grid.scattered(given, None, bounds)
        found = Cells.of(plain.points, cells)
        weights = found.weights(len(plain.points))
        return replace(plain, weights=weights, has_equal_weights=False, cells=(found,))

    @staticmethod
    @checked
    def ragged(
        points: Sequence[Numbers],
        weights: Sequence[Numbers | None] | None = None,
        bounds: GivenBounds | None = None,
        cells: Sequence[Numbers] | None = None,
    ) -> Grid:
        """Points of its own for each sample of a batch, in one box.

        All sets are made as long as the longest. What is added has weight zero, so no integral sees it. `pad` brings
        values to this shape, `unpad` takes them back.

        Args:
            points: (N_i, d) for each sample, as for `Grid.scattered`.
            weights: (N_i,) for each sample, or None.
            bounds: (lower, upper) for each axis; None is the unit cube.
            cells: (M_i, d + 1) for each sample, as for `Grid.mesh`; in place of weights, which they give.
        """
        for name, rows in (("weights", weights), ("cells", cells)):
            if rows is not None and len(rows) != len(points):
                raise UsageError(f"{name} must be one row for each of {len(points)} sets of points: got {len(rows)}")
        if weights is not None and cells is not None:
            raise UsageError("weights and cells both say how to integrate; give one of them")
        if cells is not None:
            box = checked_bounds(bounds, None) if bounds else ((0.0, 1.0),) * as_numbers(points[0], "points").shape[-1]
            sets = [Grid.mesh(x, c, box) for x, c in zip(points, cells, strict=True)]
        else:
            given = [None] * len(points) if weights is None else weights
            sets = [Grid.scattered(x, w, bounds) for x, w in zip(points, given, strict=True)]
        dimensions = sorted({one.dim for one in sets})
        if len(dimensions) != 1:
            raise UsageError(f"a ragged grid needs at least one set of points, all of one dimension: got {dimensions}")
        most = max(len(one.weights) for one in sets)
        # Points that are added lie where a true one does: inside the box.
        longer = [torch.cat([one.points, one.points[:1].expand(most - len(one.points), -1)]) for one in sets]
        massless = [pad(one.weights, (0, most - len(one.weights))) for one in sets]
        counts = tuple(len(one.weights) for one in sets)
        x, w = torch.stack(longer), torch.stack(massless).unsqueeze(1)
        found = tuple(one for each in sets for one in each.cells)
        return Grid(x, w, sets[0].bounds, "ragged", None, (), has_equal_weights=False, counts=counts, cells=found)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a function's values on this grid, channels aside."""
        return tuple(self.weights.shape if self.counts is None else self.weights.shape[2:])

    @property
    def dim(self) -> int:
        """The dimension d of D."""
        return self.points.shape[-1]

    @property
    def n_axes(self) -> int:
        """How many axes the values have: d for tensor products, one for scattered points."""
        return len(self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The points along each axis; of N scattered points the d-th root of N along each."""
        return self.shape if self.axes is not None else (round(self.shape[0] ** (1 / self.dim)),) * self.dim

    @property
    def is_uniform(self) -> bool:
        """Whether the points are equispaced, as those of `Grid.uniform`."""
        return self.kind in UNIFORM_KINDS

    @property
    def has_neighbours(self) -> bool:
        """Whether functions have gradients: on tensor products and meshes, not on scattered points alone."""
        return self.axes is not None or bool(self.cells)

    @property
    def volume(self) -> float:
        """|D|, the volume of the box."""
        return prod(upper - lower for lower, upper in self.bounds)

    def to(self, device: torch.device | str) -> Grid:
        """The same grid, its tensors on another device."""
        device = as_device(device)
        if self.points.device == device:  # what was made of this object serves again
            return self
        return Grid(
            self.points.to(device),
            self.weights.to(device),
            self.bounds,
            self.kind,
            None if self.axes is None else tuple(axis.to(device) for axis in self.axes),
            tuple(weights.to(device) for weights in self.axis_weights),
            self.has_equal_weights,
            self.counts,
            tuple(one.to(device) for one in self.cells),
        )

    @checked
    def of_samples(self, index: slice | Tensor) -> Grid:
        """The grid of some of the samples: the same one, unless it is ragged."""
        if self.counts is None:
            return self
        chosen = positions(index, len(self.counts))
        rows = torch.tensor(chosen, dtype=torch.long, device=self.points.device)
        counts = tuple(self.counts[k] for k in chosen)
        cells = tuple(self.cells[k] for k in chosen) if self.cells else ()
        return replace(self, points=self.points[rows], weights=self.weights[rows], counts=counts, cells=cells)

    @checked
    def of_sample(self, k: int) -> Grid:
        """The points of one sample alone: the grid itself, unless it is ragged."""
        if self.counts is None:
            return self
        if not -len(self.counts) <= k < len(self.counts):
            raise UsageError(f"the grid has points for {len(self.counts)} samples: got the index {k}")
        n, cells = self.counts[k], (self.cells[k],) if self.cells else ()
        points, weights = self.points[k, :n], self.weights[k, 0, :n]
        return Grid(points, weights, self.bounds, "scattered", None, (), False, cells=cells)

    def __repr__(self) -> str:
        box = " x ".join(f"[{lower:g}, {upper:g}]" for lower, upper in self.bounds)
        if self.counts is not None:
            what = "meshes" if self.cells else "sets"
            return f"Grid(ragged, {len(self.counts)} {what} of at most {self.shape[0]} points in {box})"
        if self.cells:
            return f"Grid(mesh, {self.shape[0]} points and {len(self.cells[0].volumes)} cells in {box})"
        return f"Grid({self.kind}, {' x '.join(map(str, self.shape))} points in {box})"


def symbolic_grid(shape: Sequence[int], bounds: Bounds, kind: UniformKind) -> Grid:
    """`Grid.uniform` of sizes that are not known yet: x_i = a + (i + s) h, computed inside a graph that is exported.

    Sizes may be symbols, whose values nothing here looks at; so nothing is checked, and nothing is sorted.
    """
    axes, axis_weights = [], []
    for n, (lower, upper) in zip(shape, bounds, strict=True):
        i = torch.arange(n, dtype=torch.float64)
        spacing = (upper - lower) / (n - 1 if kind == "nodes" else n)
        axes.append(lower + (i + (0.5 if kind == "cells" else 0.0)) * spacing)
        share = torch.ones_like(i)
        if kind in ("nodes", "left"):
            share = torch.where(i == 0, 0.5, torch.where(i == n - 1, 0.5 if kind == "nodes" else 1.5, share))
        axis_weights.append(share * spacing)
    return _tensor_product(axes, axis_weights, bounds, kind, has_equal_weights=kind in ("cells", "periodic"))


def check_weights(weights: Tensor) -> None:
    """Refuse weights that are no measure: negative, not finite, or all zero."""
    if not bool(torch.isfinite(weights).all()):
        raise UsageError("weights must be finite: got NaN or infinity; remove those points or fix their weights")
    if bool((weights < 0).any()):
        raise UsageError(
            f"weights must not be negative: got {float(weights.min()):g}; a point to leave out has weight 0"
        )
    if not bool((weights > 0).any(-1).all()):
        raise UsageError("weights must not all be zero: nothing would be left to average over")


def positions(index: slice | Tensor, count: int) -> list[int]:
    """The numbers from 0 to count - 1 that a slice stands for, a row of indices, or a truth value for each."""
    if not isinstance(index, slice) and index.layout != torch.strided:
        raise refused_index(index)
    if isinstance(index, slice):
        try:
            return list(range(count))[index]
        except (TypeError, ValueError):
            pass
    elif index.ndim == 1 and index.dtype == torch.bool and len(index) == count:
        return [int(position) for position in index.nonzero()]
    elif index.ndim == 1 and index.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        given = index.tolist()
        if not all(-count <= position < count for position in given):
            raise UsageError(f"there are {count} samples: got the index {max(given, key=abs)}")
        return [position % count for position in given]
    raise refused_index(index)


def refused_index(index: object) -> UsageError:
    """What samples are chosen by, where something else was given."""
    return UsageError(
        f"samples are chosen by a slice or a row of indices, such as torch.tensor([0, 3]): got {named(index)}"
    )


def _checked_sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(index(n) for n in shape) if isinstance(shape, Iterable) else (index(shape),)
    except (TypeError, RuntimeError):
        sizes = ()
    if not sizes or min(sizes) < 2 or max(sizes) > LARGEST:
        raise UsageError(f"a grid needs a whole number of at least two points along each axis: got {named(shape)}")
    if len(sizes) > 3:
        raise UsageError(f"a grid has one, two or three axes: got the shape {named(sizes)}")
    if torch.get_default_device().type != "meta":
        need = 16 * (len(sizes) + 1) * prod(sizes)  # points and weights, and a copy while they are made
        require_memory(need, f"a grid of {shape} points", "take fewer")
    return sizes


def _tensor_product(
    axes: list[Tensor], axis_weights: list[Tensor], bounds: Bounds, kind: Kind, has_equal_weights: bool
) -> Grid:
    points = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    weights = axis_weights[0]
    for factor in axis_weights[1:]:
        weights = weights.unsqueeze(-1) * factor
    return Grid(points, weights, bounds, kind, tuple(axes), tuple(axis_weights), has_equal_weights)
