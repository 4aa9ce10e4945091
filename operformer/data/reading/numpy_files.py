"""NumPy's .npy and .npz, never with pickled objects."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from operformer.data.reading.contents import Array, Contents, refusing_damage, shown, why_not_numbers, why_too_large
from operformer.errors import DataError


@contextmanager
def open_npy(path: Path, outputs: Path | None = None) -> Iterator[Contents]:
    """Two files of one array each, the inputs and the outputs, or the inputs alone."""
    arrays, refused = {}, {}
    for name, one in (("u", path),) if outputs is None else (("u", path), ("z", outputs)):
        with refusing_damage(one), one.open("rb") as file:
            header = _header(file)
            offset = file.tell()
            complaint = _complaint(header, one.stat().st_size - offset, is_packed=False)
            if complaint:
                raise DataError(f"{one} {complaint}")
            shape, fortran, dtype = header
            if prod(shape):
                order: Any = "F" if fortran else "C"
                arrays[name] = np.memmap(one, dtype, "r", offset, shape, order)
            else:
                refused[name] = f"is empty, of shape {shape}; give an array with values"
    with refusing_damage(path):
        yield Contents(path, arrays, refused, ("u",), ("z",))


@contextmanager
def open_npz(path: Path) -> Iterator[Contents]:
    """The named arrays of an archive; each is read when it is used."""
    with refusing_damage(path), zipfile.ZipFile(path) as archive:
        arrays: dict[str, Array] = {}
        refused = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in arrays or name in refused:
                raise DataError(f"{path} holds {shown(name)} twice; write it again with numpy.savez")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                refused[name] = "is packed in a way that numpy does not write; write it again with numpy.savez"
                continue
            try:
                with archive.open(info) as file:
                    header = _header(file)
                    complaint = _complaint(header, info.file_size - file.tell(), is_packed=False)
            except (ValueError, EOFError, SyntaxError, MemoryError) as error:
                complaint = f"is no array of numpy ({shown(str(error), 80, quoted=False)}); write it again"
            complaint = complaint or why_too_large((info.file_size,), np.dtype("u1"), info.compress_size, True)
            if complaint:
                refused[name] = complaint
            else:
                arrays[name] = _Member(archive, info, header)
        yield Contents(path, arrays, refused)


class _Member:
    """An array inside an archive: its header is known, its values are read by indexing."""

    def __init__(
        self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: tuple[tuple[int, ...], bool, np.dtype[Any]]
    ) -> None:
        self._archive, self._info = archive, info
        self.shape, self._fortran, self.dtype = header

    def __getitem__(self, index: tuple[int | slice, ...]) -> np.ndarray:
        return self._values[index]

    @cached_property
    def _values(self) -> np.ndarray:
        with self._archive.open(self._info) as file:
            _header(file)
            values = np.frombuffer(file.read(), self.dtype)
        return values.reshape(self.shape, order="F" if self._fortran else "C")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type, parsed by numpy as a literal; nothing in it is run."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the format is not for arrays of numbers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns of files that Python 2 wrote, and reads them
        return (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)


def _complaint(header: tuple[tuple[int, ...], bool, np.dtype[Any]], stored: int, is_packed: bool) -> str | None:
    shape, _, dtype = header
    return why_not_numbers(dtype) or why_too_large(shape, dtype, stored, is_packed)
