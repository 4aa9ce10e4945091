"""What the axes of arrays are: by coordinates of the same length, and by how smooth the values are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from operformer.data.contents import Array, Contents
from operformer.data.coordinates import find_axes, find_many_points, find_points, find_row
from operformer.data.evidence import ROUGH, SMOOTH, roughness
from operformer.data.layout import Layout, arrangements, inferred, placed, question
from operformer.domain import Grid
from operformer.errors import DataError
from operformer.text import shown

if TYPE_CHECKING:
    from operformer.data.options import Options

MOST_CHANNELS = 8  # a longer axis that nothing explains may be steps in time
SOME = 2**20  # values of an array that are looked at
Shapes = Mapping[str, tuple[int, ...]]


def layouts_of(options: Options, contents: Contents, arrays: dict[str, Array]) -> dict[str, Layout]:
    """The axes of every array, as its format says or as its shape leaves no choice."""
    if all(name in contents.layouts for name in arrays):
        return {name: tuple(contents.layouts[name].split()) for name in arrays}
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    for name, shape in shapes.items():
        if len(shape) < 2:
            raise DataError(
                f"{contents.path}: {shown(name)} has shape {shape}; samples of functions have at least two axes"
            )
    axes = find_axes(contents, set(shapes), options.axes)
    if axes.rows and not isinstance(options.grid, Grid):
        times = find_row(contents, "t", set(shapes))
        space = {letter: len(values) for letter, values in axes.rows.items()}
        return arranged(arrays, space, None if times is None else len(times.values), axes.is_fixed, contents)
    known = _space(options, contents, shapes) or _expected_space(options, shapes, contents.path)
    dim = None if options.bounds is None else len(options.bounds)
    found = inferred(shapes, known, dim)
    if known is None:
        check_samples_first(found, arrays, contents)
        check_channels(found, shapes, contents)
    return found


def _space(options: Options, contents: Contents, shapes: dict[str, tuple[int, ...]]) -> dict[str, int] | None:
    """How many points there are along each axis, if a grid, scattered points or times tell."""
    if isinstance(options.grid, Grid):
        letters = ("n",) if options.grid.axes is None else "xyz"
        return dict(zip(letters, options.grid.shape, strict=False))
    points = find_points(contents, set(shapes))
    if points is not None:
        return {"n": len(points)}
    many = find_many_points(contents, set(shapes))
    if many is not None:
        return {"n": contents.arrays[many].shape[1]}
    times = find_row(contents, "t", set(shapes))
    line = None if times is None else {"x": len(times.values)}
    return line if line and all(placed(shape, line) for shape in shapes.values()) else None


def _expected_space(options: Options, shapes: dict[str, tuple[int, ...]], path: Path) -> dict[str, int] | None:
    """The same, if one array is all there is and its channels are known."""
    if options.expected is None or len(shapes) != 1:
        return None
    ((name, shape),) = shapes.items()
    dim, channels = len(options.expected.bounds), options.expected.channels
    spaces = {shape[1:]} if len(shape) == dim + 1 and channels == 1 else set()
    if len(shape) == dim + 2:
        spaces |= {space for space, n in ((shape[2:], shape[1]), (shape[1:-1], shape[-1])) if n == channels}
    if len(spaces) != 1:
        wanted = ", ".join(["samples", str(channels), *"xyz"[:dim]])
        raise DataError(
            f"{path}: {shown(name)} has shape {shape}, where the operator takes ({wanted}), or points "
            f"(N, {dim}) beside it; say what its axes are by a layout, such as {' '.join(['b', 'c', *'xyz'[:dim]])}"
        )
    return dict(zip("xyz", spaces.pop(), strict=False))


def arranged(
    arrays: Mapping[str, Array], space: dict[str, int], times: int | None, is_ordered: bool, contents: Contents
) -> dict[str, Layout]:
    """The layouts of arrays on axes of space whose lengths are known.

    Where sizes alone leave several, the axes along which values are smooth are those of space.
    """
    found: dict[str, Layout] = {}
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    for name, shape in shapes.items():
        usual, others = arrangements(shape, space, times, is_ordered)
        # What is unusual and has channels fits nearly any shape: it counts where nothing usual does.
        several = [*usual, *(one for one in others if not (usual and "c" in one))]
        if len(several) > 1:
            several = _smooth_in_space(several, arrays[name]) or several
        if len(several) != 1:
            raise DataError(question(shapes, space))
        found[name] = several[0]
    check_channels(found, shapes, contents)
    return found


def check_channels(layouts: Mapping[str, Layout], shapes: Shapes, contents: Contents) -> None:
    """Refuse an axis that is called channels only because nothing else is known of it, if it is long."""
    for name, layout in layouts.items():
        if "c" not in layout:
            continue
        n = shapes[name][layout.index("c")]
        if n > MOST_CHANNELS:
            timed = " ".join("t" if letter == "c" else letter for letter in layout)
            raise DataError(
                f"{contents.path}: {shown(name)} of shape {shapes[name]} has an axis of {n} that may be steps in time "
                f'or channels; say --layout "{timed}" or --layout "{" ".join(layout)}", one for u and '
                "one for z if they differ (layout=)"
            )


def check_samples_first(layouts: Mapping[str, Layout], arrays: Mapping[str, Array], contents: Contents) -> None:
    """Refuse arrays that are smooth from sample to sample and rough in space: their axes are others than usual."""
    for name, layout in layouts.items():
        values = _some(arrays[name])
        samples = layout.index("b")
        if values.shape[samples] < 4 or not roughness(values, samples) < SMOOTH:
            continue
        space = [k for k, letter in enumerate(layout) if letter in "xyz" and values.shape[k] >= 4]
        if any(roughness(values, k) > ROUGH for k in space):
            usual = " ".join(layout)
            others = " ".join([*(letter for letter in layout if letter != "b"), "b"])
            raise DataError(
                f"{contents.path}: {shown(name)} of shape {values.shape} is smooth along its first axis and rough "
                f'along another, so samples may come last; say --layout "{others}" if so, else '
                f'--layout "{usual}" (layout=)'
            )


def _smooth_in_space(layouts: list[Layout], array: Array) -> list[Layout]:
    """The layouts in which values are smooth along space and rough from sample to sample, if there are any."""
    values = _some(array)
    rough = [roughness(values, k) for k in range(values.ndim)]
    return [
        layout
        for layout in layouts
        if rough[layout.index("b")] > ROUGH
        and all(rough[k] < SMOOTH for k, letter in enumerate(layout) if letter in "xyz")
    ]


def _some(array: Array) -> np.ndarray:
    """The values of an array, or of a part of its first axis that is not too large."""
    size = int(np.prod(array.shape[1:]))
    count = max(64, SOME // max(1, size))
    values = np.asarray(array[(slice(0, count), *[slice(None)] * (len(array.shape) - 1))], dtype=np.float64)
    return np.where(np.isfinite(values), values, 0.0)
