"""NetCDF: the classic format by scipy, version 4 as the HDF5 that it is, with names of axes and packed values.

An array is a variable; its axes are named, and a variable of the same name holds their coordinates. Attributes say how
values are packed (scale_factor, add_offset) and which of them are missing (_FillValue, missing_value), which are NaN.
"""

# DESIGN.md: NetCDF needs no new dependency

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from operformer.data.contents import Array, Contents, refusing_damage, unit_of, why_not_numbers
from operformer.errors import DataError

CLASSIC = (b"CDF\x01", b"CDF\x02")


@dataclass(frozen=True, eq=False)
class Unpacked:
    """A packed array: values times scale plus offset, missing ones NaN."""

    packed: Array
    scale: float
    offset: float
    missing: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its size along each axis."""
        return self.packed.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Packed integers become float32, or float64 if they are longer than 16 bits."""
        kind = self.packed.dtype
        return kind if kind.kind == "f" else np.dtype("f4" if kind.itemsize <= 2 else "f8")

    def __getitem__(self, index: tuple[int | slice, ...]) -> np.ndarray:
        values = np.asarray(self.packed[index])
        whole = values.astype(np.float64) * self.scale + self.offset
        for one in self.missing:
            whole[values == one] = np.nan
        return whole.astype(self.dtype)


@contextmanager
def open_classic(path: Path) -> Iterator[Contents]:
    """The variables of a file of the classic format."""
    from scipy.io import netcdf_file  # here: it takes a fifth of torch's time to import

    with refusing_damage(path), netcdf_file(str(path), "r", mmap=False) as file:
        arrays: dict[str, Array] = {}
        refused: dict[str, str] = {}
        for name, variable in file.variables.items():
            values = variable.data
            complaint = why_not_numbers(values.dtype)
            if complaint or not prod(values.shape):
                refused[name] = complaint or f"is empty, of shape {values.shape}; give an array with values"
            else:
                native = values.astype(values.dtype.newbyteorder("="))
                arrays[name] = unpacked(native, {key: getattr(variable, key, None) for key in PACKING})
        dimensions = {name: tuple(file.variables[name].dimensions) for name in arrays}
        units = {name: unit_of(getattr(file.variables[name], "units", "")) for name in arrays}
        yield Contents(path, arrays, refused, dimensions=dimensions, units=units)


PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value")


def unpacked(array: Array, attributes: Mapping[str, Any]) -> Array:
    """The array as its attributes say it is meant."""
    found = {name: np.ravel(attributes[name]) for name in PACKING if attributes.get(name) is not None}
    numbers = {name: [float(one) for one in values] for name, values in found.items() if values.dtype.kind in "fiu"}
    if not numbers:
        return array
    scale, offset = numbers.get("scale_factor", [1.0]), numbers.get("add_offset", [0.0])
    if len(scale) != 1 or len(offset) != 1:
        raise DataError("scale_factor and add_offset must be one number each; unpack the array first")
    missing = (*numbers.get("_FillValue", []), *numbers.get("missing_value", []))
    return Unpacked(array, scale[0], offset[0], missing)


def is_netcdf4(file: Any) -> bool:
    """Whether an open HDF5 file has axes with names."""
    return "_NCProperties" in file.attrs or any(
        "_Netcdf4Dimid" in getattr(item, "attrs", {}) or "DIMENSION_LIST" in getattr(item, "attrs", {})
        for name in file
        for item in [file.get(name) if _is_hard(file, name) else None]
    )


def with_dimensions(contents: Contents, file: Any) -> Contents:
    """The contents of an open HDF5 file that is NetCDF-4: with named axes, and arrays unpacked."""
    arrays = dict(contents.arrays)
    dimensions = {}
    for name, array in contents.arrays.items():
        dataset = file[name]
        arrays[name] = unpacked(array, dataset.attrs)
        names = _names_of_axes(dataset, file)
        if names is not None:
            dimensions[name] = names
    return replace(contents, arrays=arrays, dimensions=dimensions)


def _names_of_axes(dataset: Any, file: Any) -> tuple[str, ...] | None:
    """The names of the scales attached to the axes of a dataset; a coordinate is its own axis."""
    if "DIMENSION_LIST" not in dataset.attrs:
        return (dataset.name.lstrip("/"),) if len(dataset.shape) == 1 else None
    found = []
    for attached in dataset.attrs["DIMENSION_LIST"]:
        if len(attached) != 1:
            return None
        found.append(str(file[attached[0]].name).lstrip("/"))
    return tuple(found)


def _is_hard(file: Any, name: str) -> bool:
    import h5py

    return isinstance(file.get(name, getlink=True), h5py.HardLink)
