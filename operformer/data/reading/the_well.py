"""The Well's HDF5 files: fields of order 0, 1, 2 over samples, time and space, with coordinates and what bounds them.

A field stands in t0_fields, t1_fields or t2_fields and is (b, t, *space, *components); attributes say which of b, t and
space it varies along, and along the others it is stored once.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from operformer.data.reading.contents import Array, Contents, UniformKind, shown
from operformer.errors import DataError

ORDERS = ("t0_fields", "t1_fields", "t2_fields")


def well_contents(file: Contents, groups: Any) -> Contents | None:
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
    axes = {letter: _axis(file, dim) for dim, letter in letters.items()}
    periodic = _periodic(file, groups)
    walls: tuple[UniformKind, ...] = ("nodes", "cells")
    kinds = {letter: (("periodic",) if dim in periodic else walls) for dim, letter in letters.items()}
    return Contents(file.path, {**arrays, **file.arrays}, file.refused, u, z, layouts, axes, kinds)


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


def _axis(file: Contents, dim: str) -> np.ndarray:
    array = file.array(f"dimensions/{dim}")
    values = np.asarray(array[(slice(None),) * len(array.shape)], dtype=np.float64)
    rows = values.reshape(-1, values.shape[-1])
    if not (rows == rows[0]).all():
        raise DataError(f"{file.path}: the coordinates {shown(dim)} differ between samples; one grid is read at a time")
    return rows[0]


def _periodic(file: Contents, groups: Any) -> set[str]:
    """The dimensions that some boundary condition calls periodic."""
    found: set[str] = set()
    conditions = groups.get("boundary_conditions", {})
    for name in conditions:
        _check_own(file, conditions, name)
        attributes = conditions[name].attrs
        if str(attributes.get("bc_type", "")).upper() == "PERIODIC":
            found |= set(_texts(attributes.get("associated_dims", [])))
    return found


def _check_own(file: Contents, group: Any, name: str) -> None:
    """Refuse a link, which may lead out of the file."""
    link = group.get(name, getlink=True)
    if link is not None and not isinstance(link, h5py.HardLink):
        raise DataError(
            f"{file.path}: {shown(name)} is a link; only what lies in the file itself is read, copy it there"
        )


def _texts(values: Any) -> list[str]:
    """An attribute as a list of texts, however h5py gives them."""
    return [one.decode() if isinstance(one, bytes) else str(one) for one in np.atleast_1d(values)]
