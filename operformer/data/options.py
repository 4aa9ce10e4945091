"""What a user says of a file, and which of its arrays are u and z, what their axes are and where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

from operformer.data.contents import Array, Contents, WeightsName
from operformer.data.coordinates import (
    find_axes,
    find_many_points,
    find_points,
    find_row,
    find_weights,
    grid_of_axes,
    grid_of_many_points,
    grid_of_points,
    written_grid,
)
from operformer.data.layout import (
    Field,
    Layout,
    Selection,
    inferred,
    parse,
    placed,
    sizes,
    space_of,
)
from operformer.domain import Grid
from operformer.domain.box import Bounds, GivenBounds, checked_bounds
from operformer.domain.grid import UNIFORM_KINDS, UniformKind
from operformer.errors import DataError, UsageError
from operformer.text import shown


@dataclass(frozen=True)
class Expected:
    """The functions that an operator takes: how many channels, and where they are known if a file does not say."""

    channels: int
    bounds: Bounds
    kind: UniformKind | None = None


@dataclass(frozen=True)
class Options:
    """What the user says of a file, and what is expected of one with inputs alone."""

    u: str | Sequence[str] | None = None
    z: str | Path | Sequence[str] | None = None
    layout: str | tuple[str, str] | None = None
    steps: tuple[int, int] | None = None
    lead: int | None = None
    grid: Grid | UniformKind | None = None
    bounds: GivenBounds | None = None
    weights: WeightsName = "voronoi"
    expected: Expected | None = None

    def __post_init__(self) -> None:
        if not (self.grid is None or isinstance(self.grid, Grid) or self.grid in UNIFORM_KINDS):
            raise UsageError(f'grid must be "nodes", "cells", "periodic", "left" or a Grid: got {self.grid!r}')
        if self.weights not in get_args(WeightsName):
            raise UsageError(f'weights must be "voronoi" or "equal": got {self.weights!r}; others are an array weights')
        if self.steps is not None and self.lead is not None:
            raise UsageError("steps and lead exclude each other; give one of them")
        if self.lead is not None and type(self.lead) is not int:
            raise UsageError(f"lead must be a whole number: got {self.lead!r}")
        steps = (0, -1) if self.steps is None else self.steps
        if not isinstance(steps, list | tuple) or len(steps) != 2 or not all(type(step) is int for step in steps):
            raise UsageError(f"steps must be two whole numbers, such as (0, -1): got {steps!r}")
        if self.bounds is not None:
            checked_bounds(self.bounds, None)
        _ = self.layouts  # refused now, if it makes no sense

    @cached_property
    def layouts(self) -> tuple[Layout, Layout] | None:
        """The axes of u and of z, if the user says them."""
        if self.layout is None:
            return None
        both = (self.layout, self.layout) if isinstance(self.layout, str) else tuple(self.layout)
        if len(both) != 2:
            raise UsageError(
                f'layout must be one text such as "b c x y", or one for u and one for z: got {self.layout!r}'
            )
        parsed = parse(both[0]), parse(both[1])
        if space_of(parsed[0]) != space_of(parsed[1]):
            raise UsageError(f"u and z must have the same axes of space: got {both[0]!r} and {both[1]!r}")
        return parsed

    def select(self, contents: Contents) -> Selection:
        """The arrays of a file that become u and z, and the grid that they are known on; u alone for an operator."""
        u, z = _names_of(self.u, "u"), _names_of(self.z, "z")
        if self.expected is not None:
            u = u or contents.inputs()
        elif not (u and z):
            known = contents.pair()
            u, z = u or known[0], z or known[1]
        arrays = {name: contents.array(name) for name in (*u, *z)}
        found = self._layouts_of(contents, arrays) if self.layouts is None else {}
        before, after = (
            [Field(name, arrays[name], self.layouts[k] if self.layouts else found[name]) for name in names]
            for k, names in enumerate((u, z))
        )
        _refuse_two_grids(contents, before, after)
        extent = self._extent(contents, [*before, *after])
        grid = self._grid(contents, extent, set(arrays))
        return Selection(contents.path, before, after, extent, self._times(extent), grid)

    def _extent(self, contents: Contents, fields: list[Field]) -> dict[str, int]:
        """How long every axis is: samples, time and space, on which all arrays must agree."""
        extent: dict[str, int] = {}
        if self.layouts is None and contents.layouts:  # a field may be constant along an axis that the grid has
            extent |= {letter: len(values) for letter, values in contents.axes.items()}
        for field in fields:
            shape, layout = field.array.shape, field.layout
            if len(shape) != len(layout) and self.layouts is not None:
                raise UsageError(
                    f"layout {' '.join(layout)!r} names {len(layout)} axes: {shown(field.name)} has shape {shape}; "
                    "give one letter for each axis"
                )
            if len(shape) != len(layout):
                raise DataError(
                    f"{contents.path}: {shown(field.name)} has shape {shape}, but its format has {len(layout)} axes; "
                    "give layout="
                )
            for letter, n in sizes(layout, shape).items():
                if extent.setdefault(letter, n) != n:
                    what = {"b": "samples", "t": "steps in time"}.get(letter, f"points along {letter}")
                    expected = f"where {extent[letter]} are expected"
                    raise DataError(f"{contents.path}: {shown(field.name)} has {n} {what}, {expected}")
        for letter in space_of(tuple(extent)):
            if extent[letter] < 2:
                raise DataError(f"{contents.path} has one point along {letter}; a function needs at least two")
        return extent

    def _layouts_of(self, contents: Contents, arrays: dict[str, Array]) -> dict[str, Layout]:
        """The axes of every array, as its format says or as its shape leaves no choice."""
        written = None if self.grid is not None or self.bounds is not None else written_grid(contents)
        if written is not None and {*arrays} <= {"u", "z"}:
            space = "n" if written.axes is None else "xyz"[: written.dim]
            return dict.fromkeys(arrays, ("b", "c", *space))
        if all(name in contents.layouts for name in arrays):
            return {name: tuple(contents.layouts[name].split()) for name in arrays}
        shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        for name, shape in shapes.items():
            if len(shape) < 2:
                raise DataError(
                    f"{contents.path}: {shown(name)} has shape {shape}; samples of functions have at least two axes"
                )
        dim = None if self.bounds is None else len(self.bounds)
        return inferred(shapes, self._space(contents, shapes) or self._expected_space(contents, shapes), dim)

    def _space(self, contents: Contents, shapes: dict[str, tuple[int, ...]]) -> dict[str, int] | None:
        """How many points there are along each axis, if a grid or coordinates tell."""
        if isinstance(self.grid, Grid):
            letters = ("n",) if self.grid.axes is None else "xyz"
            return dict(zip(letters, self.grid.shape, strict=False))
        axes = find_axes(contents, set(shapes))
        if axes:
            return {letter: len(values) for letter, values in axes.items()}
        points = find_points(contents, set(shapes))
        if points is not None:
            return {"n": len(points)}
        many = find_many_points(contents, set(shapes))
        if many is not None:
            return {"n": contents.arrays[many].shape[1]}
        times = find_row(contents, "t", set(shapes))
        line = None if times is None else {"x": len(times)}
        return line if line and all(placed(shape, line) for shape in shapes.values()) else None

    def _expected_space(self, contents: Contents, shapes: dict[str, tuple[int, ...]]) -> dict[str, int] | None:
        """The same, if one array is all there is and its channels are known."""
        if self.expected is None or len(shapes) != 1:
            return None
        ((name, shape),) = shapes.items()
        dim, channels = len(self.expected.bounds), self.expected.channels
        spaces = {shape[1:]} if len(shape) == dim + 1 and channels == 1 else set()
        if len(shape) == dim + 2:
            spaces |= {space for space, n in ((shape[2:], shape[1]), (shape[1:-1], shape[-1])) if n == channels}
        if len(spaces) != 1:
            wanted = ", ".join(["samples", str(channels), *"xyz"[:dim]])
            raise DataError(
                f"{contents.path}: {shown(name)} has shape {shape}, where the operator takes ({wanted}), or points "
                f"(N, {dim}) beside it; say what its axes are by a layout, such as {' '.join(['b', 'c', *'xyz'[:dim]])}"
            )
        return dict(zip("xyz", spaces.pop(), strict=False))

    def _grid(self, contents: Contents, extent: dict[str, int], taken: set[str]) -> Grid:
        """Where the values are known: what the user says, else the coordinates of the file, else a unit cube."""
        space = space_of(tuple(extent))
        shape = tuple(extent[letter] for letter in space)
        if isinstance(self.grid, Grid):
            if self.grid.shape != shape:
                raise DataError(f"{contents.path} has values of shape {shape}: the grid has {self.grid.shape}")
            return self.grid
        if self.grid is None and self.bounds is None and self.layout is None:
            written = written_grid(contents)
            if written is not None and written.shape == shape:
                return written
        if space == ("n",):
            points, many = find_points(contents, taken), find_many_points(contents, taken)
            if points is None and many is not None:
                box = self._box(contents.arrays[many].shape[2])
                return grid_of_many_points(contents, many, extent, self.weights, box)
            if points is None or len(points) != shape[0]:
                held = "no points" if points is None else f"{len(points)} points"
                remedy = "store them as points (N, d), or give a Grid.scattered"
                raise DataError(f"{contents.path} has {held} for {shape[0]} scattered values; {remedy}")
            weights = find_weights(contents, taken, len(points))
            box = self._box(points.shape[1])
            if box is not None and self.bounds is None:  # what is expected may be rounded, and is not the user's word
                ends = zip(box, points.min(0), points.max(0), strict=True)
                box = [(min(lower, float(first)), max(upper, float(last))) for (lower, upper), first, last in ends]
            return grid_of_points(points, weights, self.weights, box, contents.path)
        axes = find_axes(contents, taken)
        times = None if axes or "t" in extent or space != ("x",) else find_row(contents, "t", taken)
        if times is not None and len(times) == shape[0]:
            axes = {"x": times}
        points = None if axes or self.grid or space != ("x",) else find_points(contents, taken)
        if points is not None and len(points) == shape[0] and points.shape[1] > 1:
            raise DataError(
                f"{contents.path} has points {points.shape} for values that the layout puts on a line; say n for x, "
                'as in "b n", or give grid= if they are on a line'
            )
        missing = [letter for letter, n in zip(space, shape, strict=True) if len(axes.get(letter, ())) != n]
        if not axes or (missing and self.grid):  # a kind of grid needs no coordinates
            kind = self.grid or (self.expected and self.expected.kind) or contents.kind
            return Grid.uniform(shape, self._box(len(shape)), kind)
        for letter in missing:
            known = len(axes[letter]) if letter in axes else "no"
            wanted = f"{known} coordinates of {letter} for {extent[letter]} values"
            raise DataError(f"{contents.path} has {wanted}; say what grid it is, such as nodes, or give a Grid")
        ordered = {letter: axes[letter] for letter in space}
        return grid_of_axes(ordered, contents.kinds, self.grid, self.bounds, contents.path)

    def _box(self, dim: int) -> GivenBounds | None:
        """The bounds that a user gives, else those that are expected of functions of this dimension."""
        if self.bounds is None and self.expected is not None and len(self.expected.bounds) == dim:
            return self.expected.bounds
        return self.bounds

    def _times(self, extent: dict[str, int]) -> tuple[range, range]:
        """The steps at which u is taken and, one for each, those at which z is."""
        n = extent.get("t", 0)
        if not n:
            if self.steps is not None or self.lead is not None:
                raise UsageError('steps and lead need arrays with time; say where with layout=, such as "b t x"')
            return range(1), range(1)
        if self.lead is not None:
            if not 0 < self.lead < n:
                raise UsageError(f"lead must be from 1 to {n - 1}, for there are {n} steps: got {self.lead}")
            return range(n - self.lead), range(self.lead, n)
        steps = self.steps or (0, -1)
        if not all(-n <= step < n for step in steps):
            raise UsageError(f"steps must be two of the {n} steps, each from {-n} to {n - 1}: got {self.steps}")
        before, after = (step % n for step in steps)
        return range(before, before + 1), range(after, after + 1)


def _names_of(given: object, which: str) -> tuple[str, ...]:
    """The names of arrays that a user gives: none, one or several."""
    if given is None:
        return ()
    names = (given,) if isinstance(given, str | Path) else tuple(given) if isinstance(given, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise UsageError(f"{which} must be the name of an array, or several different ones: got {given!r}")
    return names


def _refuse_two_grids(contents: Contents, before: list[Field], after: list[Field]) -> None:
    """Refuse inputs and outputs that are known on different numbers of points, and name both."""
    if not (before and after):
        return
    one, other = (
        {k: n for k, n in sizes(f.layout, f.array.shape).items() if k in "xyzn"} for f in (before[0], after[0])
    )
    if one.keys() == other.keys() and one != other:
        shapes = " and ".join(" x ".join(map(str, extent.values())) for extent in (one, other))
        raise DataError(
            f"{contents.path}: u and z are known on different grids of {shapes} points; thin or interpolate one of them"
        )
