"""HDF5 files: arrays that lie in the file itself, whole; MATLAB 7.3; and what PDEBench and The Well mean by theirs.

MATLAB 7.3 is HDF5 with its axes reversed.

PDEBench's files hold trajectories, or Darcy's coefficient and solution, with x-, y- and z-coordinates:

| files | arrays |
|---|---|
| 1-d advection, Burgers, reaction-diffusion | tensor (b, t, x) |
| compressible flow | density, pressure, Vx, Vy, Vz (b, t, x, ...) |
| Darcy | nu (b, x, y), tensor (b, 1, x, y) |
| 2-d diffusion-reaction, shallow water, 1-d diffusion-sorption | a group for each sample: data (t, x, y, c), grid/x |
| incompressible flow | force (b, x, y, c), velocity and particles (b, t, x, y, c), no coordinates |

The Well's hold fields of order 0, 1 and 2 in t0_fields, t1_fields and t2_fields, each (b, t, *space, *components).
Attributes say along which of b, t and space a field varies. Along the others it is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from operformer.data.contents import (
    LARGEST_RATIO,
    TEXTS,
    Array,
    Contents,
    refusing_damage,
    unit_of,
    whole,
    why_not_numbers,
    why_too_large,
)
from operformer.data.netcdf_files import is_netcdf4, with_dimensions
from operformer.domain.grid import UniformKind
from operformer.errors import DataError
from operformer.memory import require_memory
from operformer.text import shown

MOST_OBJECTS = 100_000
MOST_TEXTS = 1000  # names of channels
MATLAB_NUMBERS = {
    b"double",
    b"single",
    b"logical",
    *(f"{s}int{n}".encode() for s in ("", "u") for n in (8, 16, 32, 64)),
}
FLOW = ("density", "pressure", "Vx", "Vy", "Vz")
ORDERS = ("t0_fields", "t1_fields", "t2_fields")


@contextmanager
def open_hdf5(path: Path) -> Iterator[Contents]:
    """The arrays of a file, by their paths inside it; PDEBench and The Well say what theirs mean."""
    with refusing_damage(path), h5py.File(path, "r") as file:
        # A group for each sample, 0000, 0001, ...: there may be thousands, all like the first.
        groups = sorted(name for name in file if name.isdigit())
        first = file[groups[0]] if groups and _is_own(file, groups[0]) else None
        groups = groups if isinstance(first, h5py.Group) and "data" in list(first) else []
        arrays, refused = _arrays(file, path, set(groups[1:]))
        units = {name: unit_of(file[name].attrs.get("units", "")) for name in arrays}
        plain = Contents(path, arrays, refused, units=units, texts=_names_of_channels(file))
        opener = partial(open_array, file, path)
        known = _of_the_well(plain, file) or _of_pdebench(plain, groups, opener)
        yield known or (with_dimensions(plain, file) if is_netcdf4(file) else plain)


def _names_of_channels(file: Any) -> dict[str, tuple[str, ...]]:
    """The arrays of texts that say what channels are called, and their units."""
    own = {name: file[name] for name in TEXTS if _is_own(file, name)}
    return {
        name: tuple(_texts(one[()]))
        for name, one in own.items()
        if isinstance(one, h5py.Dataset) and h5py.check_string_dtype(one.dtype) and one.size <= MOST_TEXTS
    }


def _is_own(group: Any, name: str) -> bool:
    """Whether the name is there and no link; asking `name in group` would follow a link out of the file."""
    return isinstance(group.get(name, getlink=True), h5py.HardLink)


class Stored:
    """A dataset of numbers; ``is_reversed`` gives the order of axes in which MATLAB shows it."""

    def __init__(self, dataset: Any, is_reversed: bool) -> None:
        self._dataset, self._is_reversed = dataset, is_reversed
        self.shape: tuple[int, ...] = dataset.shape[::-1] if is_reversed else dataset.shape
        self.dtype: np.dtype[Any] = dataset.dtype

    def __getitem__(self, index: tuple[int | slice, ...]) -> np.ndarray:
        check_chunks(self._dataset)
        if self._is_reversed:
            return np.asarray(self._dataset[index[::-1]]).T
        return np.asarray(self._dataset[index])


def open_array(file: Any, path: Path, name: str) -> Array:
    """One array by its path, refused as in `_arrays`."""
    group = file
    for part in name.split("/"):
        if not isinstance(group, h5py.Group) or not _is_own(group, part):
            raise DataError(f"{path}: {shown(name)} is missing or a link; copy it into the file")
        group = group[part]
    complaint = "is no array" if isinstance(group, h5py.Group) else _complaint(group, path.stat().st_size)
    if complaint:
        raise DataError(f"{path}: {shown(name)} {complaint}")
    return Stored(group, is_reversed=False)


def _arrays(file: Any, path: Path, left_out: set[str]) -> tuple[dict[str, Array], dict[str, str]]:
    """Every dataset that hard links lead to, and why some are refused; but nothing in the groups left out."""
    arrays: dict[str, Array] = {}
    refused: dict[str, str] = {}
    waiting, seen, size = [("", file)], {h5py.h5o.get_info(file.id).addr}, path.stat().st_size
    while waiting:
        prefix, group = waiting.pop()
        for name in group:
            full = f"{prefix}{name}"
            if full in left_out:
                continue
            if len(arrays) + len(refused) + len(waiting) > MOST_OBJECTS:
                raise DataError(
                    f"{path} holds more than {MOST_OBJECTS} objects; copy two arrays to a file of their own"
                )
            if not _is_own(group, name):
                refused[full] = "is a link; only arrays in the file itself are read, copy it there"
                continue
            item = group[name]
            if isinstance(item, h5py.Group):
                address = h5py.h5o.get_info(item.id).addr
                if address not in seen:  # a group may hold itself
                    seen.add(address)
                    waiting.append((f"{full}/", item))
            elif isinstance(item, h5py.Dataset):
                complaint = _complaint(item, size)
                if complaint:
                    refused[full] = complaint
                else:
                    arrays[full] = Stored(item, is_reversed="MATLAB_class" in item.attrs)
    return dict(sorted(arrays.items())), refused


def _complaint(dataset: Any, file_size: int) -> str | None:
    """Why a dataset is refused, if it is."""
    matlab = dataset.attrs.get("MATLAB_class", b"double")
    if matlab not in MATLAB_NUMBERS:
        kind = matlab.decode(errors="replace") if isinstance(matlab, bytes) else str(matlab)
        return f"is a {shown(kind, 40)} of MATLAB, not an array of numbers; save it as double or single"
    if dataset.shape is None or "MATLAB_empty" in dataset.attrs:
        return "is empty; give an array with values"
    if dataset.is_virtual or dataset.external:
        return "keeps its values in other files; only arrays in the file itself are read, copy it there"
    return (
        why_not_numbers(dataset.dtype)
        or why_too_large(dataset.shape, dataset.dtype, file_size, is_packed=dataset.chunks is not None)
        or _why_chunks_too_large(dataset, file_size)
        or _why_unwritten(dataset)
    )


def check_chunks(dataset: Any) -> None:
    """Refuse a chunk that does not fit into memory: one is unpacked as a whole, for any value in it."""
    if dataset.chunks:
        require_memory(_chunk_bytes(dataset), "a chunk of an HDF5 array", "write the file with smaller chunks")


def _chunk_bytes(dataset: Any) -> int:
    """What is unpacked at once, also where the chunk reaches beyond the array."""
    return prod(dataset.chunks) * int(dataset.dtype.itemsize)


def _why_chunks_too_large(dataset: Any, file_size: int) -> str | None:
    if dataset.chunks is None or _chunk_bytes(dataset) <= LARGEST_RATIO * file_size:
        return None
    return f"has chunks of shape {dataset.chunks}, more than the file can hold; write it with smaller ones"


def _why_unwritten(dataset: Any) -> str | None:
    """HDF5 reads what was never written as zeros; that is no data."""
    if dataset.chunks is None:
        is_whole = dataset.id.get_storage_size() >= prod(dataset.shape) * dataset.dtype.itemsize
    else:
        expected = prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
        is_whole = dataset.id.get_num_chunks() >= expected
    return None if is_whole else "was never written to its end; write the file again"


def _of_pdebench(file: Contents, groups: list[str], opener: Callable[[str], Array]) -> Contents | None:
    """What an HDF5 file means if it is one of PDEBench's, else None; ``groups`` are those with numbers for names."""
    arrays = file.arrays
    # Only the files of incompressible flow have no coordinates; their values are at the centres of cells.
    known = partial(replace, file, kind="cells")
    if groups and f"{groups[0]}/data" in arrays:
        letters = [letter for letter in "xyz" if f"{groups[0]}/grid/{letter}" in arrays]
        axes = {letter: _row(file, f"{groups[0]}/grid/{letter}") for letter in letters}
        data = {"data": Stacked(file.path, groups, axes, opener), **arrays}
        layouts = {"data": f"b t {' '.join(letters)} c"}
        return known(arrays=data, u=("data",), z=("data",), layouts=layouts, axes=axes)
    axes = {letter: _row(file, f"{letter}-coordinate") for letter in "xyz" if f"{letter}-coordinate" in arrays}
    space = " ".join(axes)
    if "tensor" in arrays and "nu" in arrays and space == "x y":
        return known(u=("nu",), z=("tensor",), layouts={"nu": "b x y", "tensor": "b c x y"}, axes=axes)
    if "tensor" in arrays and "x" in axes and len(arrays["tensor"].shape) == 2 + len(axes):
        return known(u=("tensor",), z=("tensor",), layouts={"tensor": f"b t {space}"}, axes=axes)
    fields = tuple(name for name in FLOW if name in arrays)
    if "density" in fields and "x" in axes:
        return known(u=fields, z=fields, layouts=dict.fromkeys(fields, f"b t {space}"), axes=axes)
    if all(name in arrays for name in ("force", "velocity", "t")):
        moving = tuple(name for name in ("particles", "velocity") if name in arrays)
        layouts = dict.fromkeys(moving, "b t x y c") | {"force": "b x y c"}
        return known(u=(*moving, "force"), z=moving, layouts=layouts)
    return None


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


def _row(file: Contents, name: str) -> np.ndarray:
    array = file.array(name)
    if len(array.shape) != 1:
        raise DataError(f"{file.path}: {shown(name)} must be one row of coordinates: got shape {array.shape}")
    return whole(array)


def _of_the_well(file: Contents, groups: Any) -> Contents | None:
    """What an HDF5 file means if it is one of The Well's, else None. ``groups`` is the open file."""
    if not {"dimensions", *ORDERS} <= set(groups):
        return None
    for name in ("dimensions", *ORDERS, "boundary_conditions"):
        _check_own(file, groups, name)
    if "spatial_dims" not in groups["dimensions"].attrs:
        return None
    dims = _texts(groups["dimensions"].attrs["spatial_dims"])
    if not 1 <= len(dims) <= 3:
        raise DataError(f"{file.path} has {len(dims)} dimensions of space; 1, 2 or 3 are read")
    if "dimensions/points" in file.arrays:
        raise DataError(f"{file.path} is one of several files of a set on scattered points; open their folder")
    letters = dict(zip(dims, "xyz", strict=False))
    arrays: dict[str, Array] = {}
    layouts = {}
    for order, group in enumerate(ORDERS):
        for name in _texts(groups[group].attrs.get("field_names", list(groups[group]))):
            arrays[name], layouts[name] = _field(file, groups, f"{group}/{name}", letters, order)
    u, z = _pair(file, {name: (array, layouts[name]) for name, array in arrays.items()})
    axes = {}
    for dim, letter in letters.items():
        values = whole(file.array(f"dimensions/{dim}"))
        rows = values.reshape(-1, values.shape[-1])
        if not (rows == rows[0]).all():
            complaint = f"the coordinates {shown(dim)} differ between samples; one grid is read at a time"
            raise DataError(f"{file.path}: {complaint}")
        axes[letter] = rows[0]
    periodic: set[str] = set()
    conditions = groups.get("boundary_conditions", {})
    for name in conditions:
        _check_own(file, conditions, name)
        if str(conditions[name].attrs.get("bc_type", "")).upper() == "PERIODIC":
            periodic |= set(_texts(conditions[name].attrs.get("associated_dims", [])))
    walls: tuple[UniformKind, ...] = ("nodes", "cells")
    kinds = {letter: (("periodic",) if dim in periodic else walls) for dim, letter in letters.items()}
    return replace(file, arrays={**arrays, **file.arrays}, u=u, z=z, layouts=layouts, axes=axes, kinds=kinds)


def _pair(file: Contents, fields: dict[str, tuple[Array, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a later state depends on is an earlier one and what does not change; with one state, only the latter."""
    changing = tuple(name for name, (_, layout) in fields.items() if "t" in layout)
    fixed = tuple(name for name in fields if name not in changing)
    times = {array.shape[layout.split().index("t")] for array, layout in fields.values() if "t" in layout}
    if not changing or (times == {1} and not fixed):
        raise DataError(f"{file.path} has no field at two times, so nothing to predict; name arrays as u and z")
    return (fixed if times == {1} else (*changing, *fixed)), changing


def _field(file: Contents, groups: Any, path: str, letters: dict[str, str], order: int) -> tuple[Array, str]:
    array = file.array(path)
    attributes = groups[path].attrs
    varying = np.atleast_1d(attributes.get("dim_varying", [True] * len(letters)))
    leading = [k for k, flag in (("b", "sample_varying"), ("t", "time_varying")) if attributes.get(flag, True)]
    every = [*leading, *letters.values(), *"c" * order]
    stored = [*leading, *(k for k, varies in zip(letters.values(), varying, strict=False) if varies), *"c" * order]
    if len(array.shape) == len(every):  # what does not vary may be stored with size 1; read as a channel, it stays one
        return array, " ".join(k if k in stored else "c" for k in every)
    if len(array.shape) != len(stored):
        raise DataError(
            f"{file.path}: {shown(path)} has shape {array.shape}, but its attributes name {len(stored)} axes"
        )
    return array, " ".join(stored)


def _check_own(file: Contents, group: Any, name: str) -> None:
    """Refuse a link, which may lead out of the file."""
    if group.get(name, getlink=True) is not None and not _is_own(group, name):
        raise DataError(
            f"{file.path}: {shown(name)} is a link; only what lies in the file itself is read, copy it there"
        )


def _texts(values: Any) -> list[str]:
    """An attribute as a list of texts, however h5py gives them."""
    return [one.decode() if isinstance(one, bytes) else str(one) for one in np.atleast_1d(values)]
