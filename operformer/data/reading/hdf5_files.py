"""HDF5 files: arrays that lie in the file itself, whole; and MATLAB 7.3, which is HDF5 with its axes reversed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from operformer.data.reading.contents import (
    Array,
    Contents,
    refusing_damage,
    shown,
    why_not_numbers,
    why_too_large,
)
from operformer.data.reading.pdebench import pdebench_contents
from operformer.data.reading.the_well import well_contents
from operformer.errors import DataError

MOST_OBJECTS = 100_000


@contextmanager
def open_hdf5(path: Path) -> Iterator[Contents]:
    """The arrays of a file, by their paths inside it; PDEBench and The Well say what theirs mean."""
    with refusing_damage(path), h5py.File(path, "r") as file:
        groups = _sample_groups(file)
        arrays, refused = _arrays(file, path, set(groups[1:]))
        plain = Contents(path, arrays, refused)
        opener = partial(open_array, file, path)
        yield well_contents(plain, file) or pdebench_contents(plain, groups, opener) or plain


def _sample_groups(file: Any) -> list[str]:
    """The groups 0000, 0001, ... of a file with one for each sample; there are thousands, all like the first."""
    names = sorted(name for name in file if name.isdigit())
    first = file[names[0]] if names and _is_own(file, names[0]) else None
    return names if isinstance(first, h5py.Group) and "data" in list(first) else []


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
    if matlab not in _NUMBERS:
        kind = matlab.decode(errors="replace") if isinstance(matlab, bytes) else str(matlab)
        return f"is a {shown(kind, 40)} of MATLAB, not an array of numbers; save it as double or single"
    if dataset.shape is None or "MATLAB_empty" in dataset.attrs:
        return "is empty; give an array with values"
    if dataset.is_virtual or dataset.external:
        return "keeps its values in other files; only arrays in the file itself are read, copy it there"
    return (
        why_not_numbers(dataset.dtype)
        or why_too_large(dataset.shape, dataset.dtype, file_size, is_packed=dataset.chunks is not None)
        or _why_unwritten(dataset)
    )


def _why_unwritten(dataset: Any) -> str | None:
    """HDF5 reads what was never written as zeros; that is no data."""
    if dataset.chunks is None:
        is_whole = dataset.id.get_storage_size() >= prod(dataset.shape) * dataset.dtype.itemsize
    else:
        expected = prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
        is_whole = dataset.id.get_num_chunks() >= expected
    return None if is_whole else "was never written to its end; write the file again"


_NUMBERS = {b"double", b"single", b"logical", *(f"{s}int{n}".encode() for s in ("", "u") for n in (8, 16, 32, 64))}
