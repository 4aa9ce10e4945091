"""Numbers of each sample, such as a viscosity or a drag, as channels that are constant in space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from operformer.data.contents import Contents
from operformer.data.layout import Field, Layout, Selection
from operformer.domain import Grid
from operformer.errors import DataError
from operformer.text import shown


def scalar_fields(contents: Contents, names: Sequence[str], count: int) -> list[Field]:
    """The arrays of these names: (count,), or (count, k) for k numbers of each sample; MATLAB's (1, count), too."""
    found = []
    for name in names:
        array = contents.array(name)
        layouts: dict[tuple[int, ...], Layout] = {(1, count): ("c", "b"), (count,): ("b",)}
        shape = tuple(array.shape)
        layout = ("b", "c") if len(shape) == 2 and shape[0] == count else layouts.get(shape)
        if layout is None:
            raise DataError(
                f"{contents.path}: {shown(name)} has shape {shape}, where one number for each of {count} samples is "
                f"expected: ({count},) or ({count}, k)"
            )
        found.append(Field(name, array, layout, contents.units.get(name, "")))
    return found


def at_corners(selection: Selection) -> Selection:
    """The selection of outputs that are numbers alone: constant functions, kept on the corners of the domain."""
    dim = selection.grid.dim
    corners = Grid.uniform((2,) * dim, selection.grid.bounds)
    extent = {letter: n for letter, n in selection.extent.items() if letter in "bt"}
    return replace(selection, extent=extent | dict.fromkeys("xyz"[:dim], 2), grid=corners)
