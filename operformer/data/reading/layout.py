"""The axes of an array by letters, such as "b x y c": b samples, t time, c channels, x y z space, n points."""

from __future__ import annotations

from typing import Any

import numpy as np

from operformer.errors import DataError, UsageError

Layout = tuple[str, ...]
LETTERS = "btcxyzn"
SQUARE = 8  # from this size on, (b, n, n) is a square of n x n points and not n channels
SPACES = {("x",), ("x", "y"), ("x", "y", "z"), ("n",)}


def parse(layout: str, name: str = "layout") -> Layout:
    """The letters of a layout that a user gives; spaces between them do not matter."""
    if not isinstance(layout, str):
        raise UsageError(f'{name} must be a text such as "b c x y": got {layout!r}')
    letters = tuple(layout.replace(" ", ""))
    remedy = "use b samples, t time, c channels, x y z space, n scattered points"
    unknown = [letter for letter in letters if letter not in LETTERS]
    if unknown:
        raise UsageError(f"{name} has an unknown letter {unknown[0]!r} in {layout!r}; {remedy}")
    if len(set(letters)) < len(letters):
        raise UsageError(f"{name} names an axis twice: got {layout!r}")
    if space_of(letters) not in SPACES or "b" not in letters:
        raise UsageError(f'{name} must hold b and one of x, x y, x y z or n: got {layout!r}; try "b c x y"')
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
    order = [*_positions(layout, "b"), *_positions(layout, "t"), *_positions(layout, "c")]
    for letter in space:
        order += _positions(layout, letter)
    moved = values.transpose(order)
    size = sizes(layout, values.shape)
    channels = values.size // max(1, int(np.prod(list(size.values()))))
    return moved.reshape(size.get("b", 1), size.get("t", 1), channels, *(size.get(letter, 1) for letter in space))


def as_floats(values: Any) -> np.ndarray:
    """The values as float32 or float64 of this machine: floats keep their precision, everything else is float32."""
    array = np.asarray(values)
    wide = array.dtype.kind == "f" and array.dtype.itemsize >= 8
    return array.astype(np.float64 if wide else np.float32)


def inferred(shapes: dict[str, tuple[int, ...]], space: dict[str, int] | None, dim: int | None) -> dict[str, Layout]:
    """The layouts of arrays without one, where only one makes sense.

    ``space`` are the axes that coordinates are known for, ``dim`` the dimension if bounds told it. Otherwise an array
    with two axes is samples of functions on a line, an axis that the arrays do not share is channels, of arrays with
    more and with fewer axes the latter have no channels, and arrays of one shape (b, n, n) have none.
    """
    if space is None:
        space = _shared_space(list(shapes.values()), dim)
    found = {}
    for name, shape in shapes.items():
        letters = None if space is None else _placed(shape, space)
        if letters is None:
            given = " and ".join(f"{one} {two}" for one, two in shapes.items())
            known = f" on a grid of {' x '.join(map(str, space.values()))}" if space else ""
            raise DataError(
                f"the axes of {given}{known} could mean several things; say which they are by a layout, such as "
                f"{_examples(len(shape))}"
            )
        found[name] = letters
    return found


def space_of_function(shape: tuple[int, ...], dim: int, channels: int) -> dict[str, int] | None:
    """The axes of space of an array whose dimension and channels are known, if that leaves no choice."""
    spaces = {shape[1:]} if len(shape) == dim + 1 and channels == 1 else set()
    if len(shape) == dim + 2:
        spaces |= {shape[2:]} if shape[1] == channels else set()
        spaces |= {shape[1:-1]} if shape[-1] == channels else set()
    return dict(zip("xyz", spaces.pop(), strict=False)) if len(spaces) == 1 else None


def fits(shapes: dict[str, tuple[int, ...]], space: dict[str, int]) -> bool:
    """Whether every array has these axes of space, and in one way only."""
    return all(_placed(shape, space) is not None for shape in shapes.values())


def _positions(layout: Layout, letter: str) -> list[int]:
    return [k for k, other in enumerate(layout) if other == letter]


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


def _placed(shape: tuple[int, ...], space: dict[str, int]) -> Layout | None:
    """The one layout in which the shape has these axes of space, samples in front."""
    letters, extents = tuple(space), tuple(space.values())
    options = {("b", *letters): shape[1:], ("b", "c", *letters): shape[2:], ("b", *letters, "c"): shape[1:-1]}
    fitting = [o for o, rest in options.items() if len(o) == len(shape) and rest == extents]
    return fitting[0] if len(fitting) == 1 else None


def _examples(n_axes: int) -> str:
    letters = "b x y z"[: 2 * n_axes - 1]
    if n_axes < 3:
        return f'"{letters}"'
    fewer = "x y z"[: 2 * n_axes - 5]
    options = [f'"{letters}"'] if n_axes < 5 else []
    return " or ".join([*options, f'"b c {fewer}"', f'"b {fewer} c"'])
