"""MATLAB's .mat before version 7.3, through SciPy: arrays of numbers only, axes as MATLAB shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat, whosmat

from operformer.data.reading.contents import Array, Contents, refusing_damage, why_not_numbers, why_too_large
from operformer.errors import DataError

NUMBERS = {"double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}


@contextmanager
def open_mat(path: Path) -> Iterator[Contents]:
    """The variables of a .mat file; cells, structs, texts and objects are named but never read."""
    with refusing_damage(path):
        arrays: dict[str, Array] = {}
        refused = {}
        for name, shape, kind in whosmat(path):
            bytes_ = np.dtype("u1")  # MATLAB stores doubles that are small integers in one byte each
            complaint = why_too_large(shape, bytes_, path.stat().st_size, is_packed=True)
            if kind not in NUMBERS:
                refused[name] = f"is a {kind} of MATLAB, not an array of numbers; save it as double or single"
            elif complaint:
                refused[name] = complaint
            else:
                arrays[name] = _Variable(path, name, shape, kind)
        yield Contents(path, arrays, refused)


class _Variable:
    """One variable, loaded by indexing."""

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], kind: str) -> None:
        self._path, self._name, self.shape = path, name, tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype({"double": "f8", "single": "f4", "logical": "?"}.get(kind, kind))

    def __getitem__(self, index: tuple[int | slice, ...]) -> np.ndarray:
        values = loadmat(self._path, variable_names=[self._name])[self._name]
        complaint = why_not_numbers(values.dtype)
        if complaint or values.shape != self.shape:
            raise DataError(f"{self._path}: {self._name} {complaint or 'is not of the shape that its header claims'}")
        return values[index]
