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

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from operformer.data.reading.contents import Array, Contents, shown
from operformer.errors import DataError

FLOW = ("density", "pressure", "Vx", "Vy", "Vz")
INCOMPRESSIBLE = ("particles", "velocity", "force")


def pdebench_contents(file: Contents, groups: list[str], opener: Callable[[str], Array]) -> Contents | None:
    """What an HDF5 file means if it is one of PDEBench's, else None; ``groups`` are those with numbers for names."""
    arrays = file.arrays
    if groups and f"{groups[0]}/data" in arrays:
        return _of_groups(file, groups, opener)
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


def _of_groups(file: Contents, groups: list[str], opener: Callable[[str], Array]) -> Contents:
    """The samples of files with a group for each: one array, and the coordinates of the first."""
    letters = [letter for letter in "xyz" if f"{groups[0]}/grid/{letter}" in file.arrays]
    axes = {letter: _row(file, f"{groups[0]}/grid/{letter}") for letter in letters}
    data = Stacked(file.path, groups, axes, opener)
    layout = f"b t {' '.join(letters)} c"
    return _contents(file, {"data": data}, ("data",), ("data",), {"data": layout}, axes)


class Stacked:
    """The arrays of several groups as one, a sample each; those that are read must be alike."""

    def __init__(
        self, path: Path, groups: list[str], axes: dict[str, np.ndarray], opener: Callable[[str], Array]
    ) -> None:
        self._path, self._groups, self._axes, self._opener = path, groups, axes, opener
        first = opener(f"{groups[0]}/data")
        self.shape = (len(groups), *first.shape)
        self.dtype: np.dtype[Any] = first.dtype

    def __getitem__(self, index: tuple[int | slice, ...]) -> np.ndarray:
        chosen = np.arange(len(self._groups))[index[0]]
        return np.stack([self._sample(self._groups[k])[index[1:]] for k in np.atleast_1d(chosen)])

    def _sample(self, group: str) -> Array:
        data = self._opener(f"{group}/data")
        if data.shape != self.shape[1:]:
            shapes = f"{data.shape} and {self.shape[1:]}"
            raise DataError(f"{self._path}: {group} and {self._groups[0]} differ in shape, {shapes}; read them apart")
        for letter, values in self._axes.items():
            row = self._opener(f"{group}/grid/{letter}")
            if row.shape != values.shape or not np.array_equal(row[(slice(None),)], values):
                raise DataError(f"{self._path}: {group} and {self._groups[0]} are known on different grids")
        return data


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
