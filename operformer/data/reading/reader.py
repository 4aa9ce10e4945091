"""Pairs (u, z) from a file: `operformer.read`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from torch import Tensor

from operformer.data.reading.contents import Contents, UniformKind, WeightsName
from operformer.data.reading.options import Expected, Options, layouts_of, names_of
from operformer.domain import Grid, Samples
from operformer.domain.box import GivenBounds
from operformer.errors import DataError, UsageError

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
    weights: WeightsName = "voronoi",
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
    if there are none, the nodes of the unit cube. Scattered points without an array of weights get those of their
    Voronoi cells, or equal ones, which are for points drawn evenly. ``first`` and ``count`` read a part of the pairs.

    Floats keep their precision and u and z get the wider of both; everything else becomes float32.
    """
    parts = list(read_blocks(path, None, u, z, layout, steps, lead, grid, bounds, weights, first, count))
    if len(parts) == 1:
        return parts[0]
    return Samples(torch.cat([part.u for part in parts]), torch.cat([part.z for part in parts]), parts[0].grid)


def read_blocks(
    path: str | Path,
    block: int | None,
    u: str | Sequence[str] | None = None,
    z: str | Path | Sequence[str] | None = None,
    layout: str | tuple[str, str] | None = None,
    steps: tuple[int, int] | None = None,
    lead: int | None = None,
    grid: Grid | UniformKind | None = None,
    bounds: GivenBounds | None = None,
    weights: WeightsName = "voronoi",
    first: int = 0,
    count: int | None = None,
) -> Iterator[Samples]:
    """What `read` reads, at most ``block`` pairs at a time, so that the whole need not fit into memory."""
    if first < 0 or (count is not None and count < 1) or (block is not None and block < 1):
        raise UsageError(f"first must not be negative, count and block at least 1: got {first}, {count} and {block}")
    files = _files(Path(path))
    is_npy = _start(files[0]).startswith(NPY)  # z is then no name but a file
    outputs = _outputs(files[0], z) if is_npy else None
    names = names_of(u, "u"), names_of(None if is_npy else z, "z")
    options = Options(*names, layouts_of(layout), steps, lead, grid, bounds, weights=weights)
    passed = 0
    before: tuple[Grid, tuple[int, int]] | None = None
    for file in files:
        with _open(file, outputs, is_npy) as contents:
            selection = options.select(contents)
            begin = max(0, first - passed)
            end = selection.count if count is None else min(selection.count, first + count - passed)
            for start in range(begin, end, block or selection.count):
                part = selection.read(start, min(end, start + (block or end)))
                if before is not None and start == begin and not _are_alike(*before, part.grid, part.channels):
                    raise DataError(f"{file} differs from the file before it in its channels or grid; read them apart")
                before = part.grid, part.channels
                yield part
            passed += selection.count
        if count is not None and passed >= first + count:
            break
    if passed < first + (count or 1):
        raise UsageError(f"first and count ask for pairs {first} to {first + (count or 1) - 1}: {path} holds {passed}")


def read_functions(
    path: str | Path,
    expected: Expected,
    u: str | Sequence[str] | None = None,
    layout: str | None = None,
    grid: Grid | UniformKind | None = None,
    bounds: GivenBounds | None = None,
    weights: WeightsName = "voronoi",
) -> tuple[Tensor, Grid]:
    """The inputs of a file that need not hold outputs, u (count, channels, *shape), and the grid they are known on.

    As `read` does, but what the file does not say is what an operator expects: the axes of an array by the number of
    its channels, and without coordinates its domain. Where there is time, u is the first step.
    """
    parts: list[Tensor] = []
    found: Grid | None = None
    for file in _files(Path(path)):
        layouts = layouts_of(layout)
        options = Options(names_of(u, "u"), (), layouts, None, None, grid, bounds, expected, weights)
        with _open(file, None, is_npy=_start(file).startswith(NPY)) as contents:
            selection = options.select_inputs(contents)
            parts.append(selection.inputs(0, selection.count))
        channels = (parts[-1].shape[1],) * 2
        if found is not None and not _are_alike(found, (parts[0].shape[1],) * 2, selection.grid, channels):
            raise DataError(f"{file} differs from the file before it in its channels or grid; read them apart")
        found = found or selection.grid
    if found is None:
        raise DataError(f"{path} holds no file to read")
    return torch.cat(parts), found


def _are_alike(grid: Grid, channels: tuple[int, int], other: Grid, others: tuple[int, int]) -> bool:
    """Whether the pairs of two files go together."""
    return channels == others and (grid is other or torch.equal(grid.points, other.points))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        from operformer.data.manifest import MANIFEST

        if (path / MANIFEST).is_file():
            raise DataError(f"{path} is a finished set of pairs; open it with operformer.data.store.open_pairs")
        found = sorted(one for one in path.iterdir() if one.suffix in HDF5_SUFFIXES)
        if not found:
            raise DataError(f"{path} is a folder without .hdf5 files; give one that has some, or a file")
        return found
    return [path]


def _open(path: Path, outputs: Path | None, is_npy: bool) -> AbstractContextManager[Contents]:
    """Open a file as what its first bytes say it is, whatever its name; readers are imported when they are needed."""
    start = _start(path)
    if is_npy:
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
