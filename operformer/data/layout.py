"""The axes of an array by letters, such as "b x y c": b samples, t time, c channels, x y z space, n points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from operformer.data.contents import Array
from operformer.domain import Grid, Samples
from operformer.domain.samples import is_point
from operformer.errors import DataError, UsageError
from operformer.memory import require_memory

Layout = tuple[str, ...]
# Orders of axes, S for those of space: what is usual, and what others write.
USUAL = ("bS", "bcS", "bSc", "btS", "btcS", "btSc")
UNUSUAL = ("Sb", "cSb", "Scb", "tbS", "tbcS", "tbSc", "tSb", "bSt", "bcSt", "bStc", "Stb", "Scbt", "bSct")
MOST_SAMPLES, MOST_VALUES = 64, 2**22  # of an array that are looked at to find where its points are
SQUARE = 8  # from this size on, (b, n, n) is a square of n x n points and not n channels


def parse(layout: str) -> Layout:
    """The letters of a layout that a user gives; spaces between them do not matter."""
    if not isinstance(layout, str):
        raise UsageError(f'layout must be a text such as "b c x y": got {layout!r}')
    letters = tuple(layout.replace(" ", ""))
    remedy = "use b samples, t time, c channels, x y z space, n scattered points"
    unknown = [letter for letter in letters if letter not in "btcxyzn"]
    if unknown:
        raise UsageError(f"layout has an unknown letter {unknown[0]!r} in {layout!r}; {remedy}")
    if len(set(letters)) < len(letters):
        raise UsageError(f"layout names an axis twice: got {layout!r}")
    if not space_of(letters):  # a series: its functions live on time
        letters = tuple("x" if letter == "t" else letter for letter in letters)
    if "".join(space_of(letters)) not in ("x", "xy", "xyz", "n") or "b" not in letters:
        raise UsageError(f'layout must hold b and one of x, x y, x y z or n: got {layout!r}; try "b c x y"')
    return letters


def space_of(layout: Layout) -> Layout:
    """The axes of space, in the order in which they come out."""
    return tuple(letter for letter in "xyzn" if letter in layout)


def sizes(layout: Layout, shape: tuple[int, ...]) -> dict[str, int]:
    """How long each axis of space is, and b and t where there are any."""
    return {letter: n for letter, n in zip(layout, shape, strict=True) if letter != "c"}


def channels_first(values: np.ndarray, layout: Layout, space: Layout) -> np.ndarray:
    """The values as (b, t, c, *space); an axis that the layout does not have is of size 1.

    Several axes of channels, such as the components of a matrix, become one.
    """
    order = [k for letter in (*"btc", *space) for k, other in enumerate(layout) if other == letter]
    size = sizes(layout, values.shape)
    channels = values.size // max(1, int(np.prod(list(size.values()))))
    moved = values.transpose(order)
    return moved.reshape(size.get("b", 1), size.get("t", 1), channels, *(size.get(letter, 1) for letter in space))


def as_floats(values: Any) -> np.ndarray:
    """The values as float32 or float64 of this machine: floats keep their precision, everything else is float32."""
    array = np.asarray(values)
    wide = array.dtype.kind == "f" and array.dtype.itemsize >= 8
    return array.astype(np.float64 if wide else np.float32)


def inferred(shapes: dict[str, tuple[int, ...]], space: dict[str, int] | None, dim: int | None) -> dict[str, Layout]:
    """The layouts of arrays whose user and format say none, where only one makes sense.

    ``space`` are the axes with known coordinates. ``dim`` is the dimension, if bounds are given. Without both: two axes
    are samples of functions on a line. An axis that the arrays do not share is channels. The array with fewer axes has
    no channels, and neither have arrays of one shape (b, n, n).
    """
    if space is None:
        space = _shared_space(list(shapes.values()), dim)
    found = {}
    for name, shape in shapes.items():
        letters = None if space is None else placed(shape, space)
        if letters is None:
            _refuse_finer(list(shapes.values()), " and ".join(f"{one} {two}" for one, two in shapes.items()))
            raise DataError(question(shapes, space))
        found[name] = letters
    return found


def _refuse_finer(shapes: list[tuple[int, ...]], given: str) -> None:
    """Refuse arrays that differ in all axes but the first: functions on grids of different resolution."""
    one, other = sorted((shapes[0], shapes[-1]))
    if (
        len(one) == len(other) > 2
        and one[0] == other[0]
        and all(a < b for a, b in zip(one[1:], other[1:], strict=True))
    ):
        raise DataError(f"{given} are known on different grids; thin or interpolate one of them")


def placed(shape: tuple[int, ...], space: dict[str, int]) -> Layout | None:
    """The one usual layout in which the shape has these axes of space, samples in front."""
    fitting = arrangements(shape, space, None, is_ordered=True)[0]
    return fitting[0] if len(fitting) == 1 else None


def arrangements(
    shape: tuple[int, ...], space: dict[str, int], times: int | None, is_ordered: bool
) -> tuple[list[Layout], list[Layout]]:
    """The usual layouts that a shape fits, samples in front, and the others: samples last, time first, axes turned.

    ``is_ordered`` if the axes of space are known to lie in this order. With a known number of times an axis so long is
    time.
    """
    size = {**space, **({} if times is None else {"t": times})}
    usual, turned = "".join(space), "".join(space)[::-1]
    found: list[list[Layout]] = [[], []]
    for patterns, orders, kept in (
        (USUAL, (usual,), found[0]),
        (UNUSUAL, (usual,), found[1]),
        ((*USUAL, *UNUSUAL), () if is_ordered or turned == usual else (turned,), found[1]),
    ):
        for pattern, order in product(patterns, orders):
            letters = tuple(pattern.replace("S", order))
            if len(letters) != len(shape) or ("t" in letters and times is None):
                continue
            if all(size.get(letter, n) == n for letter, n in zip(letters, shape, strict=True)):
                kept.append(letters)
    timed = [[one for one in several if "t" in one] for several in found]
    usual_, unusual = timed if any(timed) else found
    return usual_, unusual


def _shared_space(shapes: list[tuple[int, ...]], dim: int | None) -> dict[str, int] | None:
    """The axes of space that all of the arrays must have, if their shapes leave no choice."""
    fewest = min(shapes, key=len)
    rest: tuple[int, ...] = ()
    if dim is not None:
        rest = fewest[1:] if len(fewest) == dim + 1 else ()
    elif len(fewest) == 2 or len({len(shape) for shape in shapes}) > 1:
        rest = fewest[1:]
    else:
        varying = {k for shape in shapes for k in range(1, len(shape)) if shape[k] != fewest[k]}
        if not varying and len(set(fewest[1:])) == 1 and fewest[1] >= SQUARE:
            rest = fewest[1:]
        elif varying == {1}:
            rest = fewest[2:]
        elif varying == {len(fewest) - 1}:
            rest = fewest[1:-1]
    return dict(zip("xyz", rest, strict=False)) if 1 <= len(rest) <= 3 else None


def question(shapes: Mapping[str, tuple[int, ...]], space: Mapping[str, int] | None) -> str:
    """What to ask about shapes that could mean several things."""
    given = " and ".join(f"{one} {two}" for one, two in shapes.items())
    hint = "; where z is on points of its own, name them by --query and those of u by --axes"
    known = f" on a grid of {' x '.join(map(str, space.values()))}" if space else ""
    return (
        f"the axes of {given}{known} could mean several things; say which they are by a layout, such as "
        f"{_examples(max(len(shape) for shape in shapes.values()))}{hint if len(set(shapes.values())) > 1 else ''}"
    )


def _examples(n_axes: int) -> str:
    letters = "b x y z"[: 2 * n_axes - 1]
    if n_axes < 3:
        return f'"{letters}"'
    fewer = "x y z"[: 2 * n_axes - 5]
    options = [f'"{letters}"'] if n_axes < 5 else []
    return " or ".join([*options, f'"b c {fewer}"', f'"b {fewer} c"'])


@dataclass(frozen=True)
class Field:
    """An array, its name in the file and what its axes are."""

    name: str
    array: Array
    layout: Layout
    unit: str = ""

    @property
    def channel_names(self) -> list[str]:
        """The array's own name, with a number for each of several channels."""
        name = self.name.rpartition("/")[2]
        count = prod(self.array.shape) // max(1, prod(sizes(self.layout, self.array.shape).values()))
        return [name] if count == 1 else [f"{name}_{k}" for k in range(count)]

    def read(self, space: Layout, samples: slice, times: slice) -> np.ndarray:
        """Its values as (b, t, c, *space), read from the file now."""
        index = tuple({"b": samples, "t": times}.get(letter, slice(None)) for letter in self.layout)
        return channels_first(as_floats(self.array[index]), self.layout, space)

    def channels(self, extent: Mapping[str, int]) -> int:
        """How many channels it has."""
        return max(1, prod(self.array.shape) // prod(extent.get(letter, 1) for letter in self.layout))


@dataclass(frozen=True)
class Selection:
    """The pairs of an open file; reading any of them touches only what they need."""

    path: Path
    u: list[Field]
    z: list[Field]
    extent: dict[str, int]
    times: tuple[range, range]
    grid: Grid
    said: str  # how the place of the points was found
    outputs: Selection | None = None  # that of z, where it is known on points of its own

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return self.extent.get("b", 1) * len(self.times[0])

    def read(self, begin: int, end: int) -> Samples:
        """The pairs begin, ..., end - 1; those of one trajectory follow each other."""
        there = self.outputs or self
        u, z = self.inputs(begin, end), there._values(there.z, there.times[1], begin, end)
        dtype = torch.promote_types(u.dtype, z.dtype)
        query = None if self.outputs is None else self.outputs.grid
        return Samples(u.to(dtype), z.to(dtype), self.grid.of_samples(slice(begin, end)), query)

    def inputs(self, begin: int, end: int) -> Tensor:
        """u of the pairs begin, ..., end - 1."""
        return self._values(self.u, self.times[0], begin, end)

    def _values(self, fields: list[Field], times: range, begin: int, end: int) -> Tensor:
        """The channels of some fields, one after the other: (end - begin, channels, *shape)."""
        per_sample, space = len(times), space_of(tuple(self.extent))
        samples = slice(begin // per_sample, -(-end // per_sample))
        n_samples = samples.stop - samples.start
        states = self.extent.get("b", 1) * self.extent.get("t", 1)
        stored = sum(prod(field.array.shape) * max(4, field.array.dtype.itemsize) for field in fields)
        # Twice: a copy is made while the axes are moved.
        need = 2 * stored * n_samples * per_sample // states
        require_memory(need, f"reading {self.path}", "read a part of it with first= and count=")
        parts = [field.read(space, samples, slice(times.start, times.stop)) for field in fields]
        shape = tuple(self.extent[letter] for letter in space)
        whole = [np.broadcast_to(part, (n_samples, per_sample, part.shape[2], *shape)) for part in parts]
        joined = np.concatenate(whole, axis=2).reshape(n_samples * per_sample, -1, *shape)
        skipped = begin - samples.start * per_sample
        values = torch.from_numpy(np.ascontiguousarray(joined[skipped : skipped + end - begin]))
        if self.grid.counts is None:
            return values
        return values.where(is_point(self.grid.of_samples(slice(begin, end))), 0.0)  # beyond the points may be anything


def looked_at(
    fields: tuple[list[Field], list[Field]], space: Layout, extent: Mapping[str, int], times: tuple[range, range]
) -> list[np.ndarray]:
    """Some values of each array (samples, *space) by which places of points are judged; finite ones alone."""
    points = prod(extent[letter] for letter in space)
    found = []
    for several, steps in zip(fields, times, strict=True):
        for one in several:
            if not set(space) <= set(one.layout):  # constant along an axis
                continue
            count = max(1, min(MOST_SAMPLES, MOST_VALUES // (points * one.channels(extent))))
            values = one.read(space, slice(0, count), slice(steps.start, min(steps.stop, steps.start + 4)))
            rows = values.astype(np.float64).reshape(-1, *values.shape[3:])
            rows = rows[np.isfinite(rows).reshape(len(rows), -1).all(1)]
            if len(rows):
                found.append(rows)
    return found
