"""Pairs (u, z) from a file: `operformer.read`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
import torch

from operformer.data.reading.contents import Array, Contents, UniformKind, check_memory, shown
from operformer.data.reading.coordinates import find_axes, find_points, find_times, grid_of_axes, grid_of_points
from operformer.data.reading.layout import Layout, as_floats, channels_first, fits, inferred, parse, sizes, space_of
from operformer.domain import Grid
from operformer.domain.box import GivenBounds
from operformer.errors import DataError, UsageError
from operformer.problems import Samples

NPY = b"\x93NUMPY"
HDF5_SUFFIXES = (".hdf5", ".h5")


def read(
    path: str | Path,
    u: str | Sequence[str] | None = None,
    z: str | Path | Sequence[str] | None = None,
    *,
    layout: str | tuple[str, str] | None = None,
    steps: tuple[int, int] | None = None,
    lead: int | None = None,
    grid: Grid | UniformKind | None = None,
    bounds: GivenBounds | None = None,
    first: int = 0,
    count: int | None = None,
) -> Samples:
    """The pairs in a file, in memory, channels first: u (count, in_channels, *shape), z (count, out_channels, *shape).

    Reads .npz, .npy (the inputs; ``z`` is then the file of the outputs), HDF5, MATLAB, PDEBench, The Well (one file, or
    a folder of them) and torch.save's .pt. It unpickles nothing, follows no link out of a file and writes nothing.

    ``u`` and ``z`` name arrays; several become channels, in that order. None is what the format says, or the one pair
    of names that says it: u z, x y, input output, inputs outputs, a u, coeff sol. ``layout`` says what the axes are, as
    "b x y c" (b samples, t time, c channels, x y z space, n scattered points), one for both or one for each.

    Where there is time, u is taken at ``steps[0]`` and z at ``steps[1]``, by default first and last; ``lead=k`` pairs
    every step with the one k later instead.

    ``grid`` and ``bounds`` say where the values are known. Without them it is where the file's coordinates are, and
    if there are none, the nodes of the unit cube. ``first`` and ``count`` read a part of the pairs.

    Floats keep their precision and u and z get the wider of both; everything else becomes float32.
    """
    if first < 0 or (count is not None and count < 1):
        raise UsageError(f"first must not be negative and count at least 1: got {first} and {count}")
    files = _files(Path(path))
    is_npy = _start(files[0]).startswith(NPY)  # z is then no name but a file
    outputs = _outputs(files[0], z) if is_npy else None
    names = _names(u, "u"), _names(None if is_npy else z, "z")
    options = _Options(*names, _layouts(layout), steps, lead, grid, bounds)
    parts: list[Samples] = []
    passed = 0
    for file in files:
        with _open(file, outputs) as contents:
            selection = options.select(contents)
            begin = max(0, first - passed)
            end = selection.count if count is None else min(selection.count, first + count - passed)
            passed += selection.count
            if begin < end:
                parts.append(selection.read(begin, end))
        if count is not None and passed >= first + count:
            break
    if passed < first + (count or 1):
        raise UsageError(f"first and count ask for pairs {first} to {first + (count or 1) - 1}: {path} holds {passed}")
    for (one, other), name in zip(pairwise(parts), files[1:], strict=False):
        same = one.channels == other.channels and one.grid.points.shape == other.grid.points.shape
        if not same or not torch.equal(one.grid.points, other.grid.points):
            raise DataError(f"{name} differs from the file before it in its channels or its grid; read them apart")
    if len(parts) == 1:
        return parts[0]
    return Samples(torch.cat([part.u for part in parts]), torch.cat([part.z for part in parts]), parts[0].grid)


@dataclass(frozen=True)
class _Options:
    """What the user says of a file."""

    u: tuple[str, ...]
    z: tuple[str, ...]
    layouts: tuple[Layout, Layout] | None
    steps: tuple[int, int] | None
    lead: int | None
    grid: Grid | UniformKind | None
    bounds: GivenBounds | None

    def select(self, contents: Contents) -> _Selection:
        """The arrays of a file that become u and z, and the grid that they are known on."""
        known = ((), ()) if self.u and self.z else contents.pair()
        u, z = self.u or known[0], self.z or known[1]
        arrays = {name: contents.array(name) for name in (*u, *z)}
        layouts = self._layouts_of(contents, u, z, arrays)
        letters = {letter for one in layouts.values() for letter in one}
        extent: dict[str, int] = {}
        if self.layouts is None and contents.layouts:
            extent |= {letter: len(values) for letter, values in contents.axes.items()}
        space = space_of((*letters, *extent))
        for key, one in layouts.items():
            for letter, n in sizes(one, arrays[key[1]].shape).items():
                if extent.setdefault(letter, n) != n:
                    what = {"b": "samples", "t": "steps in time"}.get(letter, f"points along {letter}")
                    name = shown(key[1])
                    raise DataError(f"{contents.path}: {name} has {n} {what}, where {extent[letter]} are expected")
        for letter in space:
            if extent[letter] < 2:
                raise DataError(f"{contents.path} has one point along {letter}; a function needs at least two")
        grid = self._grid(contents, {letter: extent[letter] for letter in space}, set(arrays), "t" in letters)
        fields = [[_Field(arrays[key[1]], one) for key, one in layouts.items() if key[0] == k] for k in (0, 1)]
        return _Selection(contents.path, fields[0], fields[1], space, extent, self._times(extent), grid)

    def _layouts_of(
        self, contents: Contents, u: tuple[str, ...], z: tuple[str, ...], arrays: dict[str, Array]
    ) -> dict[tuple[int, str], Layout]:
        """The axes of every array of u (0) and of z (1)."""
        keys = [(0, name) for name in u] + [(1, name) for name in z]
        if self.layouts is not None:
            for k, name in keys:
                if len(arrays[name].shape) != len(self.layouts[k]):
                    given = " ".join(self.layouts[k])
                    raise UsageError(
                        f"layout {given!r} names {len(self.layouts[k])} axes: {shown(name)} has shape "
                        f"{arrays[name].shape}"
                    )
            return {(k, name): self.layouts[k] for k, name in keys}
        if all(name in contents.layouts for _, name in keys):
            found = {(k, name): tuple(contents.layouts[name].split()) for k, name in keys}
            for (_, name), one in found.items():
                if len(one) != len(arrays[name].shape):
                    raise DataError(
                        f"{contents.path}: {shown(name)} has shape {arrays[name].shape}, but its format "
                        f"has {len(one)} axes; give layout="
                    )
            return found
        shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        for name, shape in shapes.items():
            if len(shape) < 2:
                raise DataError(
                    f"{contents.path}: {shown(name)} has shape {shape}; samples of functions have at least two axes"
                )
        dim = None if self.bounds is None else len(self.bounds)
        letters = inferred(shapes, self._space(contents, shapes), dim)
        return {(k, name): letters[name] for k, name in keys}

    def _space(self, contents: Contents, shapes: dict[str, tuple[int, ...]]) -> dict[str, int] | None:
        """How many points there are along each axis, if a grid or coordinates tell."""
        if isinstance(self.grid, Grid):
            letters = ("n",) if self.grid.axes is None else "xyz"
            return dict(zip(letters, self.grid.shape, strict=False))
        axes = find_axes(contents, set(shapes))
        if axes:
            return {letter: len(values) for letter, values in axes.items()}
        points = find_points(contents, set(shapes))
        if points is not None:
            return {"n": len(points)}
        times = find_times(contents, set(shapes))
        line = None if times is None else {"x": len(times)}
        return line if line and fits(shapes, line) else None

    def _grid(self, contents: Contents, extent: dict[str, int], taken: set[str], has_time: bool) -> Grid:
        """Where the values are known: what the user says, else the coordinates of the file, else a unit cube."""
        shape = tuple(extent.values())
        if isinstance(self.grid, Grid):
            if self.grid.shape != shape:
                raise DataError(f"{contents.path} has values of shape {shape}: the grid has {self.grid.shape}")
            return self.grid
        if tuple(extent) == ("n",):
            points = find_points(contents, taken)
            if points is None or len(points) != shape[0]:
                held = "no points" if points is None else f"{len(points)} points"
                raise DataError(f"{contents.path} has {held} for {shape[0]} scattered values; give a Grid.scattered")
            return grid_of_points(points, self.bounds, contents.path)
        axes = find_axes(contents, taken)
        times = None if axes or has_time or tuple(extent) != ("x",) else find_times(contents, taken)
        if times is not None and len(times) == shape[0]:
            axes = {"x": times}
        if not axes:
            return Grid.uniform(shape, self.bounds, self.grid or contents.kind)
        for letter, n in extent.items():
            if letter not in axes or len(axes[letter]) != n:
                known = len(axes[letter]) if letter in axes else "no"
                raise DataError(f"{contents.path} has {known} coordinates of {letter} for {n} values; give a Grid")
        ordered = {letter: axes[letter] for letter in extent}
        return grid_of_axes(ordered, contents.kinds, self.grid, self.bounds, contents.path)

    def _times(self, extent: dict[str, int]) -> tuple[range, range]:
        """The steps at which u is taken and, one for each, those at which z is."""
        n = extent.get("t", 0)
        if self.steps is not None and self.lead is not None:
            raise UsageError("steps and lead exclude each other; give one of them")
        if not n:
            if self.steps is not None or self.lead is not None:
                raise UsageError('steps and lead need arrays with time; say where with layout=, such as "b t x"')
            return range(1), range(1)
        if self.lead is not None:
            if not 0 < self.lead < n:
                raise UsageError(f"lead must be from 1 to {n - 1}, for there are {n} steps: got {self.lead}")
            return range(n - self.lead), range(self.lead, n)
        steps = (0, -1) if self.steps is None else tuple(self.steps)
        if len(steps) != 2 or not all(-n <= step < n for step in steps):
            raise UsageError(f"steps must be two of the {n} steps, each from {-n} to {n - 1}: got {self.steps}")
        before, after = (step % n for step in steps)
        return range(before, before + 1), range(after, after + 1)


@dataclass(frozen=True)
class _Field:
    """An array and what its axes are."""

    array: Array
    layout: Layout

    def read(self, space: Layout, samples: slice, times: slice) -> np.ndarray:
        """Its values as (b, t, c, *space), read from the file now."""
        index = tuple({"b": samples, "t": times}.get(letter, slice(None)) for letter in self.layout)
        return channels_first(as_floats(self.array[index]), self.layout, space)


@dataclass(frozen=True)
class _Selection:
    """The pairs of an open file; reading any of them touches only what they need."""

    path: Path
    u: list[_Field]
    z: list[_Field]
    space: Layout
    extent: dict[str, int]
    times: tuple[range, range]
    grid: Grid

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return self.extent.get("b", 1) * len(self.times[0])

    def read(self, begin: int, end: int) -> Samples:
        """The pairs begin, ..., end - 1; those of one trajectory follow each other."""
        per_sample = len(self.times[0])
        samples = slice(begin // per_sample, -(-end // per_sample))
        n_samples = samples.stop - samples.start
        values = []
        for fields, times in zip((self.u, self.z), self.times, strict=True):
            self._check_memory(fields, n_samples * per_sample)
            parts = [field.read(self.space, samples, slice(times.start, times.stop)) for field in fields]
            shape = tuple(self.extent[letter] for letter in self.space)
            whole = [np.broadcast_to(part, (n_samples, per_sample, part.shape[2], *shape)) for part in parts]
            joined = np.concatenate(whole, axis=2).reshape(n_samples * per_sample, -1, *shape)
            skipped = begin - samples.start * per_sample
            values.append(torch.from_numpy(np.ascontiguousarray(joined[skipped : skipped + end - begin])))
        dtype = torch.promote_types(values[0].dtype, values[1].dtype)
        u, z = (one.to(dtype) for one in values)
        return Samples(u, z, self.grid)

    def _check_memory(self, fields: list[_Field], count: int) -> None:
        """Room for so many states, and for a copy while their axes are moved."""
        stored = sum(prod(field.array.shape) * max(4, field.array.dtype.itemsize) for field in fields)
        states = self.extent.get("b", 1) * self.extent.get("t", 1)
        check_memory(2 * stored * count // states, self.path)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if one.suffix in HDF5_SUFFIXES)
        if not found:
            raise DataError(f"{path} is a folder without .hdf5 files; give one that has some, or a file")
        return found
    return [path]


def _open(path: Path, outputs: Path | None) -> AbstractContextManager[Contents]:
    """Open a file as what its first bytes say it is, whatever its name; readers are imported when they are needed."""
    start = _start(path)
    if outputs is not None:
        from operformer.data.reading.numpy_files import open_npy

        return open_npy(path, outputs)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        from operformer.data.reading.numpy_files import open_npz
        from operformer.data.reading.torch_files import is_torch, open_torch

        return open_torch(path) if is_torch(path) else open_npz(path)
    if start.startswith(b"MATLAB 5.0 MAT-file"):
        from operformer.data.reading.matlab_files import open_mat

        return open_mat(path)
    if any(start[at : at + 8] == b"\x89HDF\r\n\x1a\n" for at in (0, 512, 1024, 2048)):
        from operformer.data.reading.hdf5_files import open_hdf5

        return open_hdf5(path)
    if start.startswith(b"\x80"):
        raise DataError(
            f"{path} is a pickle, which can run code; save its arrays as .npz, or with torch.save as a dict"
        )
    raise DataError(f"{path} is none of .npz, .npy, HDF5, MATLAB and torch.save's .pt; convert it to one of them")


def _outputs(path: Path, z: object) -> Path:
    """The file of the outputs beside an .npy of inputs."""
    if not isinstance(z, str | Path):
        raise DataError(f'{path} holds one array; name the file of the outputs, too: read("{path.name}", z="z.npy")')
    if not _start(Path(z)).startswith(NPY):
        raise DataError(f"{z} is no .npy file; the outputs must be in one as the inputs are")
    return Path(z)


def _start(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is not a file; give one that holds arrays")
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise DataError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    if not start:
        raise DataError(f"{path} is empty; restore it from a copy")
    return start


def _names(given: object, which: str) -> tuple[str, ...]:
    if given is None:
        return ()
    names = (given,) if isinstance(given, str | Path) else tuple(given) if isinstance(given, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{which} must be the name of an array, or several: got {given!r}")
    return names


def _layouts(layout: str | tuple[str, str] | None) -> tuple[Layout, Layout] | None:
    if layout is None:
        return None
    both = (layout, layout) if isinstance(layout, str) else tuple(layout)
    if len(both) != 2:
        raise UsageError(f'layout must be one text such as "b c x y", or one for u and one for z: got {layout!r}')
    parsed = parse(both[0]), parse(both[1])
    if space_of(parsed[0]) != space_of(parsed[1]):
        raise UsageError(f"u and z must have the same axes of space: got {both[0]!r} and {both[1]!r}")
    return parsed
