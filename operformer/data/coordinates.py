"""Coordinates from a file to a grid: equispaced ones are recognised as nodes, cells or periodic, others are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import pi
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from operformer.data.contents import POINTS, Contents, WeightsName, whole
from operformer.domain import Grid, voronoi_weights
from operformer.domain.box import GivenBounds, checked_bounds
from operformer.domain.grid import Kind, UniformKind
from operformer.errors import DataError, UsageError
from operformer.text import shown

# The kinds that coordinates alone can tell apart, likeliest first.
RECOGNISED: tuple[UniformKind, ...] = ("nodes", "cells", "periodic")
# What the coordinates along an axis are called.
NAMES = ("{}-coordinate", "{}_coordinate", "{}_coord", "grid/{}", "coords/{}", "coordinates/{}", "grid_{}", "{}_grid")


GRID_KIND = "grid_kind"  # an array of one number, where `operformer.write` says what grid it wrote


def written_grid(contents: Contents) -> Grid | None:
    """The grid that `operformer.write` noted, with its kind, bounds and weights; None in files of others."""
    arrays, kinds = contents.arrays, get_args(Kind)
    if GRID_KIND not in arrays or "bounds" not in arrays or tuple(arrays[GRID_KIND].shape) != (1,):
        return None
    number, bounds = whole(arrays[GRID_KIND])[0], whole(arrays["bounds"])
    if number not in range(len(kinds)) or bounds.ndim != 2:
        return None
    kind = kinds[int(number)]
    box = [(float(lower), float(upper)) for lower, upper in bounds] if bounds.shape[1] == 2 else []
    names = [f"grid_{letter}" for letter in "xyz"[: len(box)]]
    try:
        if kind == "scattered":
            points, weights = whole(arrays["points"]), torch.tensor(whole(arrays["weights"]))
            equal = Grid.scattered(points, None, box)
            return equal if torch.equal(equal.weights, weights) else Grid.scattered(points, weights, box)
        if kind == "ragged":
            counts = [int(n) for n in whole(arrays["counts"])]
            rows = [
                [torch.tensor(one[:n]) for one, n in zip(whole(arrays[name]), counts, strict=True)]
                for name in ("points", "weights")
            ]
            return Grid.ragged(rows[0], rows[1], box)
        axes = [whole(arrays[name]).reshape(-1) for name in names]
        if kind == "rectilinear":
            return Grid.rectilinear(*axes, bounds=box)
        grid = Grid.uniform([len(axis) for axis in axes], box, kind)
        known = [axis.numpy() for axis in grid.axes or ()]
        is_same = all(
            np.allclose(one, other, rtol=0, atol=1e-6 * np.ptp(box)) for one, other in zip(known, axes, strict=True)
        )
        return grid if is_same else None
    except (KeyError, ValueError) as error:
        raise DataError(f"{contents.path} says it holds a {kind} grid, and does not ({error})") from None


def find_axes(contents: Contents, taken: set[str]) -> dict[str, np.ndarray]:
    """The coordinates along x, y and z that a file has under one of the usual names."""
    if contents.axes:
        return dict(contents.axes)
    found = {letter: values for letter in "xyz" if (values := find_row(contents, letter, taken)) is not None}
    return found if "x" in found else {}


def find_row(contents: Contents, letter: str, taken: set[str]) -> np.ndarray | None:
    """The values along one axis: a row of numbers, or all points of a tensor product, as ndgrid makes them."""
    for pattern in (*NAMES, "{}"):
        for name in (pattern.format(letter), pattern.format(letter.upper())):
            array = contents.arrays.get(name)
            if name in taken or array is None or not array.shape or max(array.shape) < 2 or 0 in array.shape:
                continue
            is_row = sum(n > 1 for n in array.shape) == 1
            if is_row or name != letter:  # a lone small letter may well be something else
                values = whole(array)
                return values.reshape(-1) if is_row else _of_product(values, letter, name, contents.path)
    return None


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


def grid_of_axes(
    axes: dict[str, np.ndarray],
    kinds: Mapping[str, tuple[UniformKind, ...]],
    kind: UniformKind | None,
    bounds: GivenBounds | None,
    path: Path,
) -> Grid:
    """The grid with these coordinates; what user or format say of their kind comes before what they look like."""
    box = None if bounds is None else checked_bounds(bounds, len(axes))
    recognised = []
    for k, (letter, values) in enumerate(axes.items()):
        if not np.isfinite(values).all():
            raise DataError(f"{path} has values of {letter} that are not finite; give a Grid")
        if len(values) < 2:
            raise DataError(f"{path} has one point along {letter}; a function needs at least two")
        allowed = kinds.get(letter, RECOGNISED) if kind is None else (kind,)
        ends = None if box is None else box[k]
        one = _recognise(values, allowed, ends)
        if one is None and (kind is not None or bounds is not None):
            what = f"{kind or 'equispaced points'} of {list(ends)}" if ends else f"equispaced {kind}"
            raise DataError(
                f"{path}: {letter} runs from {values[0]:g} to {values[-1]:g} in {len(values)} values, which are not "
                f"{what}; leave grid= and bounds= out, or give a Grid"
            )
        recognised.append(one)
    shape = [len(values) for values in axes.values()]
    found = [one for one in recognised if one is not None]
    if len(found) == len(axes) and len({kind for kind, _, _ in found}) == 1:
        return Grid.uniform(shape, [(lower, upper) for _, lower, upper in found], found[0][0])
    try:
        reach = [_box(values, one) for values, one in zip(axes.values(), recognised, strict=True)]
        return Grid.rectilinear(*(torch.tensor(values) for values in axes.values()), bounds=reach)
    except UsageError as error:
        raise DataError(f"{path} has coordinates that make no grid: {error}") from None


def grid_of_points(
    points: np.ndarray, weights: np.ndarray | None, rule: WeightsName, bounds: GivenBounds | None, path: Path
) -> Grid:
    """Scattered points in the box that holds them, unless the user names one; without weights those of a rule."""
    if not np.isfinite(points).all():
        raise DataError(f"{path} has points that are not finite; give a Grid without them")
    with _refusing_points(bounds, path):
        box = bounds or _box_of(points)
        return Grid.scattered(torch.tensor(points), _weights(points, weights, rule, box), box)


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


def _of_product(values: np.ndarray, letter: str, name: str, path: Path) -> np.ndarray:
    axis = "xyzt".index(letter)
    if axis < values.ndim <= 3:
        row = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])[0]
        shape = [len(row) if k == axis else 1 for k in range(values.ndim)]
        if np.array_equal(np.broadcast_to(row.reshape(shape), values.shape), values):
            return row
    raise DataError(
        f"{path}: the coordinates {shown(name)} of shape {values.shape} do not vary along axis {axis} alone; store one "
        "row of coordinates for each axis, points (N, d) named points for scattered ones, or give a Grid"
    )


def _recognise(
    values: np.ndarray, allowed: tuple[UniformKind, ...], ends: tuple[float, float] | None
) -> tuple[UniformKind, float, float] | None:
    """The kind and the bounds of equispaced values: the first whose bounds are those given, or are round numbers.

    None if they are not equispaced, run downwards, or have other bounds; without round ones it is the first allowed.
    """
    n, step = len(values), float(values[-1] - values[0]) / (len(values) - 1)
    even = values[0] + step * np.arange(n)
    rounding = 4 * float(np.finfo(np.float32).eps * np.abs(values).max())  # coordinates are often float32
    slack = min(max(1e-3 * step, rounding), 0.05 * step)
    if step <= 0 or float(np.abs(values - even).max()) > slack:
        return None
    first, last = float(values[0]), float(values[-1])
    options: dict[UniformKind, tuple[float, float]] = {
        "nodes": (first, last),
        "cells": (first - step / 2, last + step / 2),
        "periodic": (first, last + step),
        "left": (first, last + step),
    }
    if ends is not None:
        fitting = (kind for kind in allowed if np.allclose(options[kind], ends, rtol=0, atol=2 * slack))
        kind = next(fitting, None)
        return None if kind is None else (kind, *ends)
    for part in (1, 2):  # pixels at 0.5, 1.5, ... are the cells from 0 on, not the nodes from 0.5 on
        for kind in allowed:
            lower, upper = (_round(end, part, 2 * slack) for end in options[kind])
            if lower is not None and upper is not None:
                return kind, lower, upper
    return allowed[0], *options[allowed[0]]


def _round(value: float, part: int, slack: float) -> float | None:
    """The multiple of 1/part or of pi/part that the value is, up to rounding."""
    for unit in (1 / part, pi / part):
        nearest = round(value / unit) * unit
        if abs(value - nearest) <= slack:
            return nearest
    return None


def _box(values: np.ndarray, recognised: tuple[UniformKind, float, float] | None) -> tuple[float, float]:
    """Bounds in which trapezoidal weights are those of the kind: a period begins half a step before its points."""
    if recognised is None:
        return float(values.min()), float(values.max())
    kind, lower, upper = recognised
    shift = (upper - lower) / len(values) / 2 if kind == "periodic" else 0.0
    return min(lower - shift, float(values.min())), max(upper - shift, float(values.max()))
