"""PDEBench's HDF5 files: trajectories or Darcy's coefficient and solution, with x-, y- and z-coordinates.

| files | arrays |
|---|---|
| 1-d advection, Burgers, reaction-diffusion | tensor (b, t, x) |
| compressible flow | density, pressure, Vx, Vy, Vz (b, t, x, ...) |
| Darcy | nu (b, x, y), tensor (b, 1, x, y) |
| 2-d diffusion-reaction, shallow water, 1-d diffusion-sorption | a group for each sample: data (t, x, y, c), grid/x |
| incompressible flow | force (b, x, y, c), velocity and particles (b, t, x, y, c), no coordinates |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from operformer.data.reading.contents import Array, Contents, shown
from operformer.errors import DataError

FLOW = ("density", "pressure", "Vx", "Vy", "Vz")
INCOMPRESSIBLE = ("particles", "velocity", "force")


def pdebench_contents(file: Contents) -> Contents | None:
    """What an HDF5 file means if it is one of PDEBench's, else None."""
    arrays = file.arrays
    groups = [name for name in arrays if re.fullmatch(r"\d+/data", name)]
    if groups:
        return _of_groups(file, groups)
    axes = {letter: _row(file, f"{letter}-coordinate") for letter in "xyz" if f"{letter}-coordinate" in arrays}
    space = " ".join(axes)
    if "tensor" in arrays and "nu" in arrays and space == "x y":
        layouts = {"nu": "b x y", "tensor": "b c x y"}
        return _contents(file, {}, ("nu",), ("tensor",), layouts, axes)
    if "tensor" in arrays and "x" in axes and len(arrays["tensor"].shape) == 2 + len(axes):
        return _contents(file, {}, ("tensor",), ("tensor",), {"tensor": f"b t {space}"}, axes)
    fields = tuple(name for name in FLOW if name in arrays)
    if "density" in fields and "x" in axes:
        return _contents(file, {}, fields, fields, dict.fromkeys(fields, f"b t {space}"), axes)
    if all(name in arrays for name in ("force", "velocity", "t")):
        fields = tuple(name for name in INCOMPRESSIBLE if name in arrays)
        layouts = {name: "b x y c" if name == "force" else "b t x y c" for name in fields}
        return _contents(file, {}, fields, tuple(f for f in fields if f != "force"), layouts, {})
    return None


def _of_groups(file: Contents, groups: list[str]) -> Contents:
    """The samples of files with a group for each: one array, and the coordinates of the first."""
    root = groups[0].removesuffix("data")
    letters = [letter for letter in "xyz" if f"{root}grid/{letter}" in file.arrays]
    axes = {letter: _row(file, f"{root}grid/{letter}") for letter in letters}
    for name in groups[1:]:
        if file.arrays[name].shape != file.arrays[groups[0]].shape:
            shapes = f"{file.arrays[groups[0]].shape} and {file.arrays[name].shape}"
            raise DataError(f"{file.path}: {groups[0]} and {name} differ in shape, {shapes}; read them one by one")
        for letter in letters:
            row = f"{name.removesuffix('data')}grid/{letter}"
            if row in file.arrays and not np.array_equal(_row(file, row), axes[letter]):
                raise DataError(f"{file.path}: {groups[0]} and {name} are known on different grids")
    lost = [name for name in file.refused if re.fullmatch(r"\d+/data", name)]
    if lost:
        raise DataError(f"{file.path}: {shown(lost[0])} {file.refused[lost[0]]}")
    data = Stacked([file.arrays[name] for name in groups])
    layout = f"b t {' '.join(letters)} c"
    return _contents(file, {"data": data}, ("data",), ("data",), {"data": layout}, axes)


class Stacked:
    """Arrays of one shape as one array, a sample each."""

    def __init__(self, parts: list[Array]) -> None:
        self._parts = parts
        self.shape = (len(parts), *parts[0].shape)
        self.dtype: np.dtype[Any] = parts[0].dtype

    def __getitem__(self, index: tuple[int | slice, ...]) -> np.ndarray:
        return np.stack([part[index[1:]] for part in self._parts[index[0]]])  # type: ignore[union-attr]


def _contents(
    file: Contents,
    more: Mapping[str, Array],
    u: tuple[str, ...],
    z: tuple[str, ...],
    layouts: dict[str, str],
    axes: dict[str, np.ndarray],
) -> Contents:
    # Without coordinates are only the files of incompressible flow, whose values are at the centres of cells.
    return Contents(file.path, {**more, **file.arrays}, file.refused, u, z, layouts, axes, kind="cells")


def _row(file: Contents, name: str) -> np.ndarray:
    array = file.array(name)
    if len(array.shape) != 1:
        raise DataError(f"{file.path}: {shown(name)} must be one row of coordinates: got shape {array.shape}")
    return np.asarray(array[(slice(None),)], dtype=np.float64)
