"""Files whose inputs and outputs are known on different points: each side is read as if it were alone.

The coordinates of z are arrays that the user names, or those that `operformer.write` leaves: the usual names behind
``query_``, such as query_grid_x or query_points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from operformer.data.contents import Array, Contents
from operformer.data.layout import Selection
from operformer.domain import Grid
from operformer.domain.grid import UNIFORM_KINDS
from operformer.errors import DataError, UsageError
from operformer.text import shown

if TYPE_CHECKING:
    from operformer.data.options import Options

PREFIX = "query_"


def has_two_grids(contents: Contents) -> bool:
    """Whether a file says by the names of its arrays where z is known."""
    return any(f"{PREFIX}{name}" in contents.arrays for name in ("grid_x", "points"))


def select_apart(options: Options, contents: Contents) -> Selection:
    """The selection of u and that of z, joined: samples and steps in time must agree, points need not."""
    names = options.names(contents)
    given = () if options.query is None or isinstance(options.query, Grid) else _names(options.query)
    if options.functionals:
        raise UsageError("functionals are numbers and have no points; leave query= out")
    layouts = options.layouts or (None, None)
    side = replace(options, query=None, layout=None, parameters=(), functionals=())
    written = {name.removeprefix(PREFIX): one for name, one in contents.arrays.items() if name.startswith(PREFIX)}
    others = {name: one for name, one in contents.arrays.items() if not name.startswith(PREFIX)}
    inputs = replace(_only(side, names[0], layouts[0]), parameters=options.parameters)
    before = inputs.select(_without(contents, others, {*names[1], *given} - {*names[0]}))
    # The coordinates of u are not those of z, also where they have usual names.
    kept = {name: one for name, one in others.items() if name in names[1]} if written else others
    there = _without(contents, {**kept, **written}, {*names[0], *(options.axes or ())} - {*names[1], *given})
    after = _placed_by(options, _only(side, names[1], layouts[1]), given, there)
    _check(before, after)
    said = f"u: {before.said}; z: {after.said}"
    return replace(before, z=after.z, said=said, outputs=after)


def _only(options: Options, names: tuple[str, ...], layout: tuple[str, ...] | None) -> Options:
    """The options for arrays that are u and z at once, so that every rule of one grid holds."""
    return replace(options, u=list(names), z=list(names), layout=None if layout is None else " ".join(layout))


def _placed_by(options: Options, side: Options, given: tuple[str, ...], contents: Contents) -> Selection:
    """The selection of z, on a grid, of a kind, on points or by coordinates, whichever the user names."""
    if isinstance(options.query, Grid):
        return replace(side, axes=None, grid=options.query).select(contents)
    if not given:
        return replace(side, axes=None, grid=None).select(contents)
    if len(given) == 1 and given[0] in UNIFORM_KINDS and given[0] not in contents.arrays:
        return replace(side, axes=None, grid=given[0]).select(contents)
    if len(given) == 1 and sum(n != 1 for n in contents.array(given[0]).shape) > 1:
        arrays = {name: one for name, one in contents.arrays.items() if name != given[0]}
        named = replace(contents, arrays={**arrays, "points": contents.array(given[0])}, axes={})
        return replace(side, axes=None, grid=None).select(named)
    return replace(side, axes=list(given), grid=None).select(contents)


def _without(contents: Contents, arrays: Mapping[str, Array], names: set[str]) -> Contents:
    """The contents with some arrays alone, without those of the other side."""
    return replace(contents, arrays={name: one for name, one in arrays.items() if name not in names})


def _names(query: object) -> tuple[str, ...]:
    return (query,) if isinstance(query, str) else tuple(query)  # type: ignore[arg-type]  # checked by Options


def _check(before: Selection, after: Selection) -> None:
    """Refuse other numbers of samples, other dimensions, and z outside the domain of u."""
    path = before.path
    counts, dims = [[each(one) for one in (before, after)] for each in (_count, _dim)]
    if counts[0] != counts[1]:
        raise DataError(f"{path} has {counts[0]} samples of u and {counts[1]} of z; say what the axes are by --layout")
    if dims[0] != dims[1]:
        raise DataError(f"{path} has u in dimension {dims[0]} and z in {dims[1]}; both must lie in one domain")
    names = ", ".join(shown(one.name) for one in after.z)
    points = after.grid.points.reshape(-1, dims[1])
    for k, (lower, upper) in enumerate(before.grid.bounds):
        first, last = float(points[:, k].min()), float(points[:, k].max())
        slack = 1e-9 * (upper - lower)
        if first < lower - slack or last > upper + slack:
            raise DataError(
                f"{path}: {names} is known from {first:g} to {last:g} along axis {k}, outside the domain "
                f"[{lower:g}, {upper:g}] of u; give --bounds that hold both (bounds=)"
            )


def _count(selection: Selection) -> int:
    return selection.count


def _dim(selection: Selection) -> int:
    return selection.grid.dim
