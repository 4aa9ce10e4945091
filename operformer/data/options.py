"""What a user says of a file, and which of its arrays are u and z, what their axes are and where they are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import get_args

import numpy as np

from operformer.data.arrangement import layouts_of
from operformer.data.axis_names import with_letters
from operformer.data.contents import Contents, WeightsName
from operformer.data.coordinates import (
    find_axes,
    find_cells,
    find_many_points,
    find_points,
    find_row,
    find_weights,
    grid_of_many_points,
    grid_of_mesh,
    grid_of_points,
    unused_rows,
    written_bounds,
    written_kind,
)
from operformer.data.evidence import evidence_along, nested_kinds
from operformer.data.layout import (
    Field,
    Layout,
    Selection,
    looked_at,
    parse,
    sizes,
    space_of,
)
from operformer.data.placing import Placed, place_axes, place_shape
from operformer.data.scalars import at_corners, scalar_fields
from operformer.data.two_grids import has_two_grids, select_apart
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
    grid: Grid | UniformKind | Sequence[UniformKind] | None = None
    bounds: GivenBounds | None = None
    weights: WeightsName = "voronoi"
    expected: Expected | None = None
    axes: Sequence[str] | None = None
    coarser: str | Path | None = None
    query: Grid | str | Sequence[str] | None = None
    parameters: Sequence[str] = ()
    functionals: Sequence[str] = ()

    def __post_init__(self) -> None:
        kinds = self.kinds
        if not all(isinstance(kind, str) and kind in UNIFORM_KINDS for kind in kinds):
            raise UsageError(
                f'grid must be "nodes", "cells", "periodic" or "left", one for each axis, or a Grid: got {self.grid!r}'
            )
        if self.axes is not None and not (1 <= len(_names_of(self.axes, "axes")) <= 3):
            raise UsageError(f"axes must name one array of coordinates for each axis of space: got {self.axes!r}")
        if self.query is not None and not isinstance(self.query, Grid):
            _names_of(self.query, "query")
            if self.coarser is not None:
                raise UsageError("coarser compares values on one grid; leave it out, and name the axes of u and of z")
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
        _names_of(self.parameters or None, "parameters")
        _names_of(self.functionals or None, "functionals")
        _ = self.layouts  # refused now, if it makes no sense

    @property
    def kinds(self) -> tuple[UniformKind, ...]:
        """The kinds of equispaced points that the user says: none, one for all axes, or one for each."""
        if self.grid is None or isinstance(self.grid, Grid):
            return ()
        return (self.grid,) if isinstance(self.grid, str) else tuple(self.grid)

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
        if space_of(parsed[0]) != space_of(parsed[1]) and self.query is None:
            raise UsageError(
                f"u and z must have the same axes of space: got {both[0]!r} and {both[1]!r}; say where z is by query="
            )
        return parsed

    def select(self, contents: Contents, coarser: Sequence[np.ndarray] | None = None) -> Selection:
        """The arrays of a file that become u and z, and the grid that they are known on; u alone for an operator.

        ``coarser`` are values of the same samples at fewer points.
        """
        if self.expected is None and (self.query is not None or has_two_grids(contents)):
            return select_apart(self, contents)
        contents, before, after, extent = self._chosen(contents)
        times = self._times(extent)
        values = cache(lambda: looked_at((before, after), space_of(tuple(extent)), extent, times))
        taken = {field.name for field in (*before, *after)}
        placed = self._placed(contents, extent, taken, values, coarser)
        said = placed.said
        if "t" in extent:
            step = f"z {self.lead} steps after u" if self.lead else f"u at step {times[0].start}, z at {times[1].start}"
            said += f"; {step} of {extent['t']} in time"
        found = Selection(contents.path, before, after, extent, times, placed.grid, said)
        are_numbers = bool(after) and all(field.name in self.functionals for field in after)
        return replace(found, outputs=at_corners(found)) if are_numbers else found

    def values(self, contents: Contents) -> list[np.ndarray]:
        """Some values of the arrays of a file, whose points need not be known."""
        _, before, after, extent = self._chosen(contents)
        return looked_at((before, after), space_of(tuple(extent)), extent, self._times(extent))

    def _chosen(self, contents: Contents) -> tuple[Contents, list[Field], list[Field], dict[str, int]]:
        """The arrays that become u and z, with the meaning of their axes, and how long each axis is."""
        u, z = self.names(contents)
        arrays = {name: contents.array(name) for name in (*u, *z)}
        given = (
            None if self.layouts is None else {**dict.fromkeys(z, self.layouts[1]), **dict.fromkeys(u, self.layouts[0])}
        )
        contents = with_letters(contents, arrays, given)
        found = layouts_of(self, contents, arrays) if self.layouts is None else {}
        before, after = (
            [
                Field(
                    name, arrays[name], self.layouts[k] if self.layouts else found[name], contents.units.get(name, "")
                )
                for name in names
            ]
            for k, names in enumerate((u, z))
        )
        _refuse_two_grids(contents, before, after)
        if self.layouts is None and not contents.layouts and self.lead is None and self.steps is None:
            _ask_of_time(contents.path, before, after)
        extent = self._extent(contents, [*before, *after])
        before += scalar_fields(contents, self.parameters, extent.get("b", 1))
        after += scalar_fields(contents, self.functionals, extent.get("b", 1))
        return contents, before, after, extent

    def names(self, contents: Contents) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The arrays that become u and z, as the user or the format says; u alone for an operator."""
        u, z = _names_of(self.u, "u"), _names_of(self.z, "z")
        if self.expected is not None:
            return u or contents.inputs(), z
        if u and (z or self.functionals):
            return u, z
        if self.functionals:
            return contents.inputs(), z
        known = contents.pair()
        return u or known[0], z or known[1]

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
                    raise DataError(
                        f"{contents.path}: {shown(field.name)} has {n} {what}, where {extent[letter]} are expected"
                    )
        for letter in space_of(tuple(extent)):
            if extent[letter] < 2:
                raise DataError(f"{contents.path} has one point along {letter}; a function needs at least two")
        return extent

    def _placed(
        self,
        contents: Contents,
        extent: dict[str, int],
        taken: set[str],
        values: Callable[[], list[np.ndarray]],
        coarser: Sequence[np.ndarray] | None,
    ) -> Placed:
        """Where the values are known: what the user says, the coordinates in the file, what the values allow."""
        space = space_of(tuple(extent))
        shape = tuple(extent[letter] for letter in space)
        if isinstance(self.grid, Grid):
            if self.grid.shape != shape:
                raise DataError(f"{contents.path} has values of shape {shape}: the grid has {self.grid.shape}")
            return Placed(self.grid, "as given")
        if space == ("n",):
            return self._scattered(contents, extent, taken)
        nested = None if coarser is None else nested_kinds(values(), coarser, contents.path)
        evidence = cache(lambda letter: evidence_along(values(), space.index(letter), nested))
        axes, told = self._rows(contents, extent, taken), self._told(contents, space, taken)
        if axes is None:
            sizes_ = dict(zip(space, shape, strict=True))
            names = unused_rows(contents, taken, shape)
            return place_shape(sizes_, told, self._box(len(shape)), evidence, contents.path, names)
        usual = None if self.expected is None else self.expected.kind
        bounds = self.bounds or written_bounds(contents, len(space))
        return place_axes(axes, told, bounds, evidence, contents.path, usual)

    def _told(self, contents: Contents, space: Layout, taken: set[str]) -> dict[str, tuple[UniformKind, ...]]:
        """The kinds that the user, the format or what an operator was trained on leave possible."""
        if self.kinds:
            if len(self.kinds) not in (1, len(space)):
                raise UsageError(f"grid must be one kind, or one for each of {len(space)} axes: got {self.grid!r}")
            each = self.kinds * len(space) if len(self.kinds) == 1 else self.kinds
            return {letter: (kind,) for letter, kind in zip(space, each, strict=True)}
        written = written_kind(contents)
        if written is not None:
            return dict.fromkeys(space, (written,))
        if contents.axes or find_axes(contents, taken, self.axes).rows:
            return dict(contents.kinds)
        kind = (self.expected and self.expected.kind) or contents.kind
        return dict(contents.kinds) if kind is None else dict.fromkeys(space, (kind,))

    def _scattered(self, contents: Contents, extent: dict[str, int], taken: set[str]) -> Placed:
        """The points of scattered values."""
        points, many = find_points(contents, taken), find_many_points(contents, taken)
        if points is None and many is not None:
            dim = contents.arrays[many].shape[2]
            box = self.bounds or written_bounds(contents, dim) or self._box(dim)
            return Placed(grid_of_many_points(contents, many, extent, self.weights, box), _said_of_points(box))
        if points is None or len(points) != extent["n"]:
            held = "no points" if points is None else f"{len(points)} points"
            remedy = "store them as points (N, d), or give a Grid.scattered"
            raise DataError(f"{contents.path} has {held} for {extent['n']} scattered values; {remedy}")
        weights = find_weights(contents, taken, len(points))
        box = self.bounds or written_bounds(contents, points.shape[1]) or self._box(points.shape[1])
        if box is not None and self.bounds is None:  # what is expected may be rounded, and is not the user's word
            ends = zip(box, points.min(0), points.max(0), strict=True)
            box = [(min(lower, float(first)), max(upper, float(last))) for (lower, upper), first, last in ends]
        cells = find_cells(contents, taken, points.shape[1])
        if cells is not None:
            return Placed(grid_of_mesh(points, cells, box, contents.path), _said_of_points(box, "a mesh of the cells"))
        return Placed(grid_of_points(points, weights, self.weights, box, contents.path), _said_of_points(box))

    def _rows(self, contents: Contents, extent: dict[str, int], taken: set[str]) -> dict[str, np.ndarray] | None:
        """The coordinates along each axis of space, if the file has them."""
        space = space_of(tuple(extent))
        axes = find_axes(contents, taken, self.axes).rows
        times = None if axes or "t" in extent or space != ("x",) else find_row(contents, "t", taken)
        if times is not None and len(times.values) == extent["x"]:
            axes = {"x": times.values}
        points = None if axes or self.grid or space != ("x",) else find_points(contents, taken)
        if points is not None and len(points) == extent["x"] and points.shape[1] > 1:
            raise DataError(
                f"{contents.path} has points {points.shape} for values that the layout puts on a line; say n for x, "
                'as in "b n", or give grid= if they are on a line'
            )
        missing = [letter for letter in space if len(axes.get(letter, ())) != extent[letter]]
        if not axes or (missing and self.grid):  # a kind of grid needs no coordinates
            return None
        for letter in missing:
            known = len(axes[letter]) if letter in axes else "no"
            wanted = f"{known} coordinates of {letter} for {extent[letter]} values"
            other = next((name for name, count in extent.items() if count == known and name not in space), None)
            swapped = f"exchange {letter} and {other} in the layout, " if other else ""
            raise DataError(
                f"{contents.path} has {wanted}; {swapped}say what grid it is, such as nodes, or give a Grid"
            )
        return {letter: axes[letter] for letter in space}

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


def _ask_of_time(path: Path, before: Sequence[Field], after: Sequence[Field]) -> None:
    """Refuse different arrays that both vary in time: one step of each, or functions of space and time."""
    both = [field for field in (*before, *after) if "t" in field.layout]
    if {one.name for one in before} == {one.name for one in after} or len(both) < len(before) + len(after) or not after:
        return
    timed, plane = " ".join(both[0].layout), " ".join("y" if one == "t" else one for one in both[0].layout)
    raise DataError(
        f"{path}: u and z are different arrays that vary in time; say --steps 0 -1 (or --lead) for u at one step and z "
        f'at another, or --layout "{plane}" --axes x t for functions of space and time (now "{timed}"; layout=, axes=)'
    )


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
    if not (before and after) or any(len(f.layout) != len(f.array.shape) for f in (before[0], after[0])):
        return  # a layout that does not fit is refused later
    one, other = (
        {k: n for k, n in sizes(f.layout, f.array.shape).items() if k in "xyzn"} for f in (before[0], after[0])
    )
    if one.keys() == other.keys() and one != other:
        shapes = " and ".join(" x ".join(map(str, extent.values())) for extent in (one, other))
        raise DataError(
            f"{contents.path}: u and z are known on different grids of {shapes} points; say where z is by --query, "
            "the names of its coordinates (query=), or interpolate one of them"
        )


def _said_of_points(box: GivenBounds | None, what: str = "scattered") -> str:
    """How scattered points and their domain were found, in words."""
    said = f"{what}, as the file has them"
    return said if box else f"{said}; the domain is the box of the points, as nothing says otherwise (--bounds)"
