"""The coordinates that a file holds: rows along each axis, all points of a tensor product, scattered points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from operformer.data.contents import POINTS, Contents, WeightsName, whole
from operformer.domain import Grid, voronoi_weights
from operformer.domain.box import GivenBounds
from operformer.domain.grid import UNIFORM_KINDS, UniformKind
from operformer.errors import DataError, UsageError
from operformer.text import shown

# What the coordinates along an axis are called.
NAMES = ("{}-coordinate", "{}_coordinate", "{}_coord", "grid/{}", "coords/{}", "coordinates/{}", "grid_{}", "{}_grid")
ALIASES = {
    "x": ("lon", "longitude", "lons", "longitudes", "xs", "x_coords"),
    "y": ("lat", "latitude", "lats", "latitudes", "ys", "y_coords"),
    "z": ("level", "lev", "depth", "altitude", "zs", "z_coords"),
    "t": ("time", "times", "ts"),
}


@dataclass(frozen=True)
class Row:
    """Coordinates along one axis; ``axis`` is where they vary in an array of all points, if they come from one."""

    values: np.ndarray
    axis: int | None
    n_axes: int
    is_angle: bool


@dataclass(frozen=True)
class Axes:
    """The coordinates along each axis, by letter; ``is_ordered`` if the file says in which order the axes lie."""

    rows: dict[str, np.ndarray]
    is_ordered: bool

    @property
    def is_fixed(self) -> bool:
        """Whether axes in another order would be the same, or cannot be meant."""
        first, *others = self.rows.values()
        return self.is_ordered or all(np.array_equal(first, one) for one in others)


def find_axes(contents: Contents, taken: set[str], given: Sequence[str] | None = None) -> Axes:
    """The coordinates along x, y and z that a file has under one of the usual names, or under those given.

    They come in the order in which the axes lie in the arrays, where coordinates of all points show it.
    """
    if contents.axes and not given:
        return Axes(dict(contents.axes), is_ordered=True)
    if given:
        rows = {letter: read_row(contents, name) for letter, name in zip("xyz", given, strict=False)}
    else:
        found = {letter: find_row(contents, letter, taken) for letter in "xyz"}
        rows = {letter: row for letter, row in found.items() if row is not None}
    if not given and "x" not in rows:
        return Axes({}, is_ordered=False)
    along = {letter: row.axis for letter, row in rows.items() if row.axis is not None}
    if along:
        if sorted(along.values()) != list(range(len(rows))) or {row.n_axes for row in rows.values()} != {len(rows)}:
            raise DataError(
                f"{contents.path} has coordinates of {', '.join(rows)} that make no tensor product; store one row of "
                "coordinates for each axis, or name them by --axes (axes=)"
            )
        return Axes({letter: rows[letter].values for letter in sorted(along, key=along.__getitem__)}, is_ordered=True)
    if given:
        return Axes({letter: row.values for letter, row in rows.items()}, is_ordered=True)
    is_globe = {"x", "y"} == set(rows) and all(row.is_angle for row in rows.values())
    order = ["y", "x"] if is_globe else list(rows)  # latitude comes before longitude
    return Axes({letter: rows[letter].values for letter in order}, is_ordered=False)


def find_row(contents: Contents, letter: str, taken: set[str]) -> Row | None:
    """The values along one axis: a row of numbers, or all points of a tensor product, as ndgrid makes them."""
    for pattern in (*NAMES, "{}", *ALIASES[letter]):
        for name in dict.fromkeys((pattern.format(letter), pattern.format(letter.upper()), pattern.upper())):
            array = contents.arrays.get(name)
            if name in taken or array is None or not array.shape or max(array.shape) < 2 or 0 in array.shape:
                continue
            if sum(n > 1 for n in array.shape) == 1 or name != letter:  # a lone small letter may be something else
                return read_row(contents, name)
    return None


def read_row(contents: Contents, name: str) -> Row:
    """The coordinates that an array of that name holds."""
    values, is_angle = whole(contents.array(name)), name.lower().startswith(("lat", "lon"))
    if sum(n > 1 for n in values.shape) == 1:
        row = values.reshape(-1)
        return Row(_unwrapped(row) if name.lower().startswith("lon") else row, None, 1, is_angle)
    row, axis = _of_product(values, name, contents.path)
    return Row(row, axis, values.ndim, is_angle)


def _unwrapped(longitudes: np.ndarray) -> np.ndarray:
    """Longitudes that jump by 360 degrees once, such as 350, 355, 0, 5, without the jump."""
    steps = np.diff(longitudes)
    jumps = np.flatnonzero(np.abs(steps) > 180)
    if len(jumps) != 1:
        return longitudes
    moved = longitudes.copy()
    moved[: jumps[0] + 1] += 360 * np.sign(steps[jumps[0]])
    return moved


def written_kind(contents: Contents) -> UniformKind | None:
    """The kind of uniform grid that `operformer.write` noted in a file."""
    array = contents.arrays.get("grid_kind")
    if array is None or "grid_x" not in contents.arrays or array.shape not in ((), (1,)):
        return None
    code = int(np.asarray(array[(slice(None),) * len(array.shape)]).reshape(()))
    return UNIFORM_KINDS[code] if 0 <= code < len(UNIFORM_KINDS) else None


def written_bounds(contents: Contents, dim: int) -> list[tuple[float, float]] | None:
    """The bounds (d, 2) beside the axes or points of a file, as `operformer.write` leaves them."""
    array = contents.arrays.get("bounds")
    if array is None or tuple(array.shape) != (dim, 2):
        return None
    return [(float(lower), float(upper)) for lower, upper in whole(array)]


def unused_rows(contents: Contents, taken: set[str], sizes: Iterable[int]) -> list[str]:
    """Rows of rising or falling numbers, as long as an axis is, that no usual name makes coordinates."""
    found = []
    for name, array in contents.arrays.items():
        lengths = [n for n in array.shape if n != 1]
        if name in taken or name == "weights" or len(lengths) != 1 or lengths[0] not in sizes:
            continue
        steps = np.diff(whole(array).reshape(-1))
        if (steps > 0).all() or (steps < 0).all():
            found.append(name)
    return found


def find_points(contents: Contents, taken: set[str]) -> np.ndarray | None:
    """The scattered points (N, d) that a file has under one of the usual names."""
    shapes = {name: contents.arrays[name].shape for name in POINTS if name in contents.arrays and name not in taken}
    found = next((name for name, shape in shapes.items() if len(shape) == 2 and shape[1] <= 3), None)
    return None if found is None else whole(contents.arrays[found])


def find_many_points(contents: Contents, taken: set[str]) -> str | None:
    """The name of an array (b, N, d) that has points of their own for every sample."""
    several = (name for name in POINTS if name in contents.arrays and len(contents.arrays[name].shape) == 3)
    return next((name for name in several if name not in taken), None)


def find_weights(contents: Contents, taken: set[str], count: int) -> np.ndarray | None:
    """The quadrature weights of so many scattered points, if a file has them."""
    array = contents.arrays.get("weights")
    if "weights" in taken or array is None or [n for n in array.shape if n != 1] != [count]:
        return None
    return whole(array).reshape(-1)


def find_cells(contents: Contents, taken: set[str], dim: int) -> np.ndarray | None:
    """The cells (M, d + 1) between scattered points, if a file has them: a mesh."""
    array = contents.arrays.get("cells")
    if "cells" in taken or array is None or len(array.shape) != 2 or array.shape[1] != dim + 1:
        return None
    return np.asarray(array[(slice(None), slice(None))]) if array.dtype.kind in "iu" else None


def grid_of_mesh(points: np.ndarray, cells: np.ndarray, bounds: GivenBounds | None, path: Path) -> Grid:
    """The points of a mesh in the box that holds them, unless the user names one."""
    if not np.isfinite(points).all():
        raise DataError(f"{path} has points that are not finite; fix the mesh")
    with _refusing_points(bounds, path):
        return Grid.mesh(torch.tensor(points), torch.tensor(cells), bounds)


def grid_of_points(
    points: np.ndarray, weights: np.ndarray | None, rule: WeightsName, bounds: GivenBounds | None, path: Path
) -> Grid:
    """Scattered points in the box that holds them, unless the user names one; without weights those of a rule."""
    if not np.isfinite(points).all():
        raise DataError(f"{path} has points that are not finite; give a Grid without them")
    with _refusing_points(bounds, path):
        box = bounds or _box_of(points)
        grid = Grid.scattered(torch.tensor(points), _weights(points, weights, rule, box), box)
        equal = Grid.scattered(torch.tensor(points), None, box)  # equal weights count as none given
        return equal if torch.equal(equal.weights, grid.weights) else grid


def grid_of_many_points(
    contents: Contents, name: str, extent: dict[str, int], rule: WeightsName, bounds: GivenBounds | None
) -> Grid:
    """Points (b, N, d) of their own for every sample, of which the first counts (b,) are there, in one box.

    Weights are an array weights (b, N), else those of a rule.
    """
    path, shape = contents.path, tuple(contents.arrays[name].shape)
    if "t" in extent:
        raise DataError(f"{path} has other points for each sample and steps in time; give u and z by name")
    if shape[1] != extent["n"] or shape[2] > 3:
        wanted = f"(samples, {extent['n']}, d), d = 1, 2 or 3"
        raise DataError(f"{path} has {shown(name)} of shape {shape} for points of their own: {wanted}")
    points, samples = whole(contents.arrays[name]), extent.get("b", 1)
    n_sets, longest = shape[:2]
    given = _of_samples(contents, "counts", (n_sets,))
    counts = np.full(n_sets, longest) if given is None else given
    if n_sets != samples:
        raise DataError(f"{path} has points for {n_sets} samples, and values for {samples}")
    if not ((counts >= 2) & (counts <= longest) & (counts == np.floor(counts))).all() or counts.max() != longest:
        raise DataError(f"{path} has counts that do not fit its {longest} points; the longest set has all of them")
    sets = [one[: int(n)] for one, n in zip(points, counts, strict=True)]
    if not all(np.isfinite(one).all() for one in sets):
        raise DataError(f"{path} has points that are not finite; leave them out, and lower counts")
    stored = _of_samples(contents, "weights", (n_sets, longest))
    with _refusing_points(bounds, path):
        box = bounds or _box_of(np.concatenate(sets))
        rows = [None] * n_sets if stored is None else [row[: len(one)] for row, one in zip(stored, sets, strict=True)]
        weights = [_weights(one, row, rule, box) for one, row in zip(sets, rows, strict=True)]
        known = [one for one in weights if one is not None]
        return Grid.ragged([torch.tensor(one) for one in sets], known or None, box)


@contextmanager
def _refusing_points(bounds: GivenBounds | None, path: Path) -> Iterator[None]:
    """Blame the file for points that make no grid, unless it may be the bounds that a user gave."""
    try:
        yield
    except UsageError as error:
        if bounds is not None:
            raise
        raise DataError(f"{path} has points that make no grid: {error}") from None


def _box_of(points: np.ndarray) -> list[tuple[float, float]]:
    return [(float(low), float(high)) for low, high in zip(points.min(0), points.max(0), strict=True)]


def _weights(points: np.ndarray, stored: np.ndarray | None, rule: WeightsName, box: GivenBounds) -> Tensor | None:
    """The weights that a file has for these points, else those of their Voronoi cells, or none, which are equal."""
    if stored is not None or rule != "voronoi":
        return None if stored is None else torch.tensor(stored)
    return voronoi_weights(Grid.scattered(torch.tensor(points), bounds=box).points, box)


def _of_samples(contents: Contents, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """An array of numbers for each sample, if a file has one of that name and shape."""
    array = contents.arrays.get(name)
    return None if array is None or tuple(array.shape) != shape else whole(array)


def _of_product(values: np.ndarray, name: str, path: Path) -> tuple[np.ndarray, int]:
    """The one row of coordinates that all points of a tensor product repeat, and the axis along which it lies."""
    for axis in range(values.ndim if values.ndim <= 3 else 0):
        row = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])[0]
        repeated = np.broadcast_to(row.reshape([-1 if k == axis else 1 for k in range(values.ndim)]), values.shape)
        if len(row) > 1 and np.ptp(row) > 0 and np.array_equal(repeated, values):
            return row, axis
    raise DataError(
        f"{path}: the coordinates {shown(name)} of shape {values.shape} do not vary along one axis alone; store one "
        "row of coordinates for each axis, points (N, d) named points for scattered ones, or give a Grid"
    )
