"""Files of named arrays: NumPy's .npy and .npz, never with pickled objects, and MATLAB's .mat of version 5 to 7.2.

A .mat file is a header of 128 bytes and elements. An element is a tag (type, bytes) and data. A variable is an element
of elements, mostly packed by zlib. Arrays of numbers are read here, with their axes as MATLAB shows them, because
scipy.io.loadmat crashes the interpreter on damaged files.
"""

from __future__ import annotations

import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from operformer.data.contents import (
    LARGEST_RATIO,
    TEXTS,
    Array,
    Contents,
    Loaded,
    refusing_damage,
    why_not_numbers,
    why_too_large,
)
from operformer.errors import DataError
from operformer.text import shown

Header = tuple[tuple[int, ...], bool, np.dtype[Any]]  # of an .npy: shape, whether Fortran's order, type

# The types of MATLAB's elements, and the classes of its variables.
MATRIX, COMPRESSED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMBERS = dict(zip(range(6, 16), ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), strict=True))
OTHERS = {1: "cell", 2: "struct", 3: "object", 4: "text", 5: "sparse matrix", 16: "function", 17: "object"}
MOST_TEXT = 2**16  # bytes of the names of channels
HEAD = 4096  # bytes in which flags, sizes and name of a variable must be
IS_COMPLEX, IS_LOGICAL = 0x0800, 0x0200


@contextmanager
def open_npy(path: Path, outputs: Path | None = None) -> Iterator[Contents]:
    """Two files of one array each, the inputs and the outputs, or the inputs alone."""
    arrays, refused = {}, {}
    for name, one in (("u", path),) if outputs is None else (("u", path), ("z", outputs)):
        with refusing_damage(one), one.open("rb") as file:
            header = _header(file)
            offset = file.tell()
            complaint = _complaint(header, one.stat().st_size - offset)
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
        refused, texts = {}, {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in arrays or name in refused:
                raise DataError(f"{path} holds {shown(name)} twice; write it again with numpy.savez")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                refused[name] = "is packed in a way that numpy does not write; write it again with numpy.savez"
                continue
            try:
                if name in TEXTS and info.file_size < MOST_TEXT:
                    texts[name] = tuple(map(str, np.ravel(_values_of(archive, info, "U"))))
                    continue
                with archive.open(info) as file:
                    header = _header(file)
                    stored = info.file_size - file.tell()
                complaint = _complaint(header, stored)
                if complaint is None and stored > prod(header[0]) * header[2].itemsize:
                    complaint = f"has shape {header[0]}, but {stored} bytes; write it again with numpy.savez"
            except (ValueError, EOFError, SyntaxError, MemoryError) as error:
                complaint = f"is no array of numpy ({shown(str(error), 80, quoted=False)}); write it again"
            complaint = complaint or why_too_large((info.file_size,), np.dtype("u1"), info.compress_size, True)
            if complaint:
                refused[name] = complaint
            else:
                arrays[name] = Loaded(header[0], header[2], partial(_values_of, archive, info))
        yield Contents(path, arrays, refused, texts=texts)


def _values_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo, kinds: str = "fiub") -> np.ndarray:
    with archive.open(info) as file:
        shape, fortran, dtype = _header(file)
        if dtype.kind not in kinds:
            raise ValueError(f"it holds {dtype}")
        return np.frombuffer(file.read(), dtype).reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes]) -> Header:
    """Shape, order and type, parsed by numpy as a literal; nothing in it is run."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the format is not for arrays of numbers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns of files that Python 2 wrote, and reads them
        return (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)


def _complaint(header: Header, stored: int) -> str | None:
    shape, _, dtype = header
    return why_not_numbers(dtype) or why_too_large(shape, dtype, stored, is_packed=False)


@contextmanager
def open_mat(path: Path) -> Iterator[Contents]:
    """The variables of a .mat file; cells, structs, texts and objects are named but never read."""
    with refusing_damage(path):
        content = np.memmap(path, np.uint8, "r")
        order = {b"IM": "<", b"MI": ">"}[bytes(content[126:128])]
        arrays: dict[str, Array] = {}
        refused: dict[str, str] = {}
        position = 128
        while position < len(content):
            kind, size, _ = _tag(content[position : position + 8], order)
            element = content[position + 8 : position + 8 + size]
            if len(element) < size:
                raise DataError(f"{path} ends within a variable; it is cut short, restore it from a copy")
            position += 8 + size
            if kind in (MATRIX, COMPRESSED):
                name, found = _variable(element, kind == COMPRESSED, order)
                if isinstance(found, str):
                    refused[name] = found
                else:
                    arrays[name] = found
        yield Contents(path, arrays, refused)


def _variable(element: np.ndarray, is_packed: bool, order: str) -> tuple[str, Loaded | str]:
    """The name of a variable and, by its head, the array of numbers that it is or why it is refused."""
    head = _unpacked(element, HEAD) if is_packed else element[:HEAD].tobytes()
    start = 8 if is_packed else 0  # inside the packed bytes the variable has a tag of its own
    flags, at = _part(head, start, order)
    shape, at = _part(head, at, order)
    name, at = _part(head, at, order)
    text = name.tobytes().decode("ascii", errors="replace")
    word = int(flags.view(f"{order}u4")[0])
    kind = word & 0xFF
    sizes = tuple(int(n) for n in shape.view(f"{order}i4"))
    if kind not in NUMBERS:
        return text, f"is a {OTHERS.get(kind, 'thing')} of MATLAB, not an array of numbers; save it as double or single"
    if word & IS_COMPLEX:
        return text, "holds complex values; store the real and the imaginary part as two channels"
    if min(sizes, default=0) <= 0:
        return text, f"is empty, of shape {sizes}; give an array with values"
    code, size, small = _tag(np.frombuffer(head[at : at + 8], np.uint8), order)
    stored = np.dtype(order + STORED[code])
    room = len(element) * (LARGEST_RATIO if is_packed else 1)
    if size != prod(sizes) * stored.itemsize or size > room:
        return text, f"claims the shape {sizes}, more than the {size} bytes stored can hold; the file is damaged"
    dtype = np.dtype("?") if word & IS_LOGICAL else np.dtype(NUMBERS[kind])
    offset = at + (4 if small else 8)
    end = offset + prod(sizes) * stored.itemsize

    def load() -> np.ndarray:
        body = _unpacked(element, end + 8, is_whole=True) if is_packed else element[:end].tobytes()
        if len(body) < end:
            raise ValueError(f"the variable {shown(text)} is cut short")
        return np.frombuffer(body, stored, prod(sizes), offset).reshape(sizes, order="F")

    return text, Loaded(sizes, dtype, load)


def _part(head: bytes, at: int, order: str) -> tuple[np.ndarray, int]:
    """The bytes of the element at a position, and where the next begins."""
    _, size, small = _tag(np.frombuffer(head[at : at + 8], np.uint8), order)
    begin = at + (4 if small else 8)
    if begin + size > len(head):
        raise ValueError("a variable has a head that is too long")
    return np.frombuffer(head[begin : begin + size], np.uint8), at + 8 if small else begin + -(-size // 8) * 8


def _tag(eight: np.ndarray, order: str) -> tuple[int, int, bool]:
    """Type and bytes of an element, and whether it is a small one, whose four bytes stand in its tag."""
    first, second = (int(n) for n in np.frombuffer(eight.tobytes(), f"{order}u4", 2))
    return (first & 0xFFFF, first >> 16, True) if first >> 16 else (first, second, False)


def _unpacked(element: np.ndarray, size: int, is_whole: bool = False) -> bytes:
    """The first bytes of what zlib packed, or all of them: only at its end is their checksum compared."""
    packed = zlib.decompressobj()
    body = packed.decompress(element.tobytes(), size)
    if is_whole and not packed.eof:
        raise ValueError("a variable is longer than its shape")
    return body
