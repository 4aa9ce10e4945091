"""What a file holds: arrays by name, what their axes mean where the format says so, and where they are known."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from operformer.domain.grid import UniformKind
from operformer.errors import DataError, OperformerError, ResourceError
from operformer.memory import require_memory
from operformer.text import shown

WeightsName = Literal["voronoi", "equal"]  # of scattered points whose file has none
PAIRS = (("u", "z"), ("x", "y"), ("input", "output"), ("inputs", "outputs"), ("a", "u"), ("coeff", "sol"))
POINTS = ("points", "coords", "coordinates", "nodes", "pos", "xy", "xyz")
# What an array of inputs is not called: scattered points, their weights, the cells of a mesh, outputs.
NO_INPUTS = (*POINTS, "weights", "cells", *(output for _, output in PAIRS if output != "u"))
# The most that deflate can pack into one byte; what claims to be larger than that is no data.
LARGEST_RATIO = 1032
# Names and units of the channels, one text for each, as `write` writes them.
TEXTS = ("u_names", "z_names", "u_units", "z_units")
LONGEST_TEXT = 60
# What a system says of a file that may be whole: no permission, an error of the disk or of the network.
UNREADABLE = (errno.EACCES, errno.EPERM, errno.EIO, errno.ENOENT, errno.ESTALE, errno.EMFILE, errno.ETIMEDOUT)


class Array(Protocol):
    """An array in a file; indexing reads."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its size along each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """What its values are."""

    def __getitem__(self, index: tuple[int | slice, ...]) -> Any: ...


@dataclass(frozen=True, eq=False)
class Loaded:
    """An array that is read as a whole, when a value of it is first asked for."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Callable[[], np.ndarray]

    def __getitem__(self, index: tuple[int | slice, ...]) -> np.ndarray:
        return self._values[index].astype(self.dtype, copy=False)

    @cached_property
    def _values(self) -> np.ndarray:
        need = 2 * prod(self.shape) * self.dtype.itemsize  # unpacked, and in the order of its axes
        require_memory(need, f"an array of shape {self.shape}", "keep it as .npy or HDF5, of which parts are read")
        return self.load()


@dataclass(frozen=True, eq=False)
class Contents:
    """The arrays of an open file, by name.

    ``refused`` says why other arrays are not read. The rest is what the format itself knows: the arrays of input and
    output, the axes of each array (one letter each), the coordinates along each axis of space, and their kinds; or the
    names of the axes of each array, as NetCDF has them; and the unit of each array that has one. ``texts`` are the
    arrays of `TEXTS`: what the channels of u and z are called, and their units.
    """

    path: Path
    arrays: Mapping[str, Array]
    refused: Mapping[str, str] = field(default_factory=dict)
    u: tuple[str, ...] = ()
    z: tuple[str, ...] = ()
    layouts: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, np.ndarray] = field(default_factory=dict)
    kinds: Mapping[str, tuple[UniformKind, ...]] = field(default_factory=dict)
    dimensions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kind: UniformKind | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def array(self, name: str) -> Array:
        """The array of that name, if it can be learnt from."""
        if name in self.refused:
            raise DataError(f"{self.path}: {shown(name)} {self.refused[name]}")
        if name not in self.arrays:
            raise DataError(f"{self.path} has no array {shown(name)}; it holds {self.described()}")
        array = self.arrays[name]
        if not prod(array.shape):
            raise DataError(f"{self.path}: {shown(name)} is empty, of shape {array.shape}; give an array with values")
        return array

    def pair(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The arrays of u and of z: those that the format knows, else the only two with names that say so."""
        if self.u and self.z:
            return self.u, self.z
        for n_axes in (2, 1):  # what varies along one axis is rather a coordinate, which MATLAB stores as (1, n)
            known = {*self._varying(n_axes), *self.refused}
            found = [pair for pair in PAIRS if known.issuperset(pair)]
            if found:
                break
        if len(found) != 1:
            raise DataError(
                f"{self.path} does not say which arrays are the input u and the output z: it holds {self.described()}; "
                "name them with u= and z= (--u and --z of a command)"
            )
        return (found[0][0],), (found[0][1],)

    def inputs(self) -> tuple[str, ...]:
        """The arrays of u in a file that need not hold z: as `pair` finds them, else the only one that may be it."""
        if self.u:
            return self.u
        try:
            return self.pair()[0]
        except DataError:
            known = self._varying(2) or self._varying(1)
            found = [name for name, _ in PAIRS if name in known] or [name for name in known if name not in NO_INPUTS]
        rows = [name for name in dict(PAIRS) if name != "x" and len(self._shape(name)) == 1]
        if not found and rows:
            n = self._shape(rows[0])[0]
            raise DataError(
                f"{self.path}: {shown(rows[0])} has shape ({n},), without an axis of samples; store one function as "
                f"(1, 1, {n}), one sample of one channel"
            )
        if len(dict.fromkeys(found)) != 1:
            raise DataError(
                f"{self.path} does not say which array is the input u: it holds {self.described()}; "
                "name it with u= (--u of a command)"
            )
        return (found[0],)

    def _shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array, or none."""
        return tuple(self.arrays[name].shape) if name in self.arrays else ()

    def _varying(self, n_axes: int) -> list[str]:
        """The arrays that vary along so many axes at least, and have another axis for the samples."""
        return [k for k, one in self.arrays.items() if sum(n != 1 for n in one.shape) >= n_axes and len(one.shape) > 1]

    def described(self) -> str:
        """The names and shapes of what can be read, in one line."""
        names = [f"{shown(name)} {tuple(array.shape)}" for name, array in list(self.arrays.items())[:12]]
        more = len(self.arrays) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "") if names else "no arrays of numbers"


def unit_of(attribute: Any) -> str:
    """The unit that an attribute names, or nothing where it is no short text on one line."""
    text = attribute.decode(errors="replace") if isinstance(attribute, bytes) else attribute
    is_unit = isinstance(text, str) and text.isprintable() and len(text) <= LONGEST_TEXT
    return text.strip() if is_unit else ""


def why_not_numbers(dtype: np.dtype[Any]) -> str | None:
    """Why values of this type are refused, if they are."""
    if dtype.kind in "fiub":
        return None
    real_and_imaginary = dtype.names is not None and len(dtype.names) == 2 and dtype.names[0] in ("r", "real")
    if dtype.kind == "c" or real_and_imaginary:
        return "holds complex values; store the real and the imaginary part as two channels"
    return f"holds {shown(str(dtype), 40)} values, not numbers; store it as float32 or float64"


def why_too_large(shape: tuple[int, ...], dtype: np.dtype[Any], stored: int, is_packed: bool) -> str | None:
    """Why the shape cannot be true of an array that takes so many bytes in its file, if it cannot."""
    claimed = prod(shape) * dtype.itemsize
    if min(shape, default=1) < 0 or claimed > stored * (LARGEST_RATIO if is_packed else 1):
        size = shown(str(shape), quoted=False)
        return f"claims the shape {size}, more than the {stored} bytes stored can hold; the file is damaged"
    return None


def whole(array: Array) -> np.ndarray:
    """All values of an array, in float64."""
    return np.asarray(array[(slice(None),) * len(array.shape)], dtype=np.float64)


@contextmanager
def refusing_damage(path: Path) -> Iterator[None]:
    """Turn whatever a parser of a foreign format raises into one line about the file."""
    try:
        yield
    except OperformerError:
        raise
    except MemoryError:
        raise ResourceError(f"reading {path} needs more memory than there is; use first= and count=") from None
    except OSError as error:
        if error.errno in UNREADABLE:
            raise DataError(f"cannot read {path}: {(os.strerror(error.errno or 0)).lower()}") from None
        raise _damage(path, error) from None
    except Exception as error:  # the parsers of numpy, h5py, zipfile and scipy raise nearly everything
        raise _damage(path, error) from None


def _damage(path: Path, error: Exception) -> DataError:
    reason = shown(str(error) or type(error).__name__, 160, quoted=False)
    return DataError(f"{path} is damaged or not what it claims to be: {reason}; restore it from a copy")
