"""Functions in files that others write and read: `operformer.read`, `read_inputs` and `write`."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from operformer.checking import checked
from operformer.data.array_files import open_mat, open_npy, open_npz
from operformer.data.contents import Contents, WeightsName, unit_of
from operformer.data.layout import Selection
from operformer.data.manifest import MANIFEST
from operformer.data.mesh_files import READERS, is_mesh, open_mesh
from operformer.data.netcdf_files import CLASSIC, open_classic
from operformer.data.options import Expected, Options
from operformer.data.torch_files import is_torch, open_torch
from operformer.data.two_grids import PREFIX
from operformer.domain import Grid, Samples
from operformer.domain.box import Bounds, GivenBounds
from operformer.domain.grid import UNIFORM_KINDS, UniformKind
from operformer.domain.samples import joined
from operformer.errors import DataError, UsageError
from operformer.files import write_bytes

NPY = b"\x93NUMPY"
HDF5 = (".h5", ".hdf5")
_CHANNEL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,59}")


@checked
def read(
    path: str | Path,
    u: str | Sequence[str] | None = None,
    z: str | Path | Sequence[str] | None = None,
    *,
    layout: str | tuple[str, str] | None = None,
    steps: tuple[int, int] | None = None,
    lead: int | None = None,
    grid: Grid | UniformKind | Sequence[UniformKind] | None = None,
    bounds: GivenBounds | None = None,
    weights: WeightsName = "voronoi",
    axes: Sequence[str] | None = None,
    coarser: str | Path | None = None,
    query: Grid | str | Sequence[str] | None = None,
    parameters: Sequence[str] = (),
    functionals: Sequence[str] = (),
    first: int = 0,
    count: int | None = None,
) -> Samples:
    """The samples in a file, in memory: u (count, in_channels, *shape) and z (count, out_channels, *shape).

    Reads .npz, .npy, HDF5, NetCDF, MATLAB, PDEBench, The Well, torch.save's .pt, and the meshes .vtu, .vtk, .msh and
    .xdmf (by meshio). It unpickles nothing, follows no link out of a file and writes nothing. Floats keep their
    precision, and u and z get the wider of both. Everything else becomes float32. What a file leaves open is asked for:
    nothing is guessed.

    Args:
        path: The file, a folder of The Well's files, or a folder of meshes, each of them a sample. An .npy file holds
            the inputs.
        u: The name of the input's array. Several arrays become channels, in that order. None is what the format says,
            or the one pair of names that says it: u z, x y, input output, inputs outputs, a u, coeff sol.
        z: The same for the output; for .npy, the file of the outputs.
        layout: What the axes are, such as "b x y c": b samples, t time, c channels, x y z space, n scattered points.
            One text for u and z, or one for each.
        steps: The time steps of u and of z; the first and the last if None.
        lead: Pair every time step with the one so much later instead.
        grid: Where the values are known: a `Grid`, or "nodes", "cells", "periodic" or "left", one for all axes or one
            for each. None is where the coordinates in the file are, else what the values leave no doubt of.
        bounds: Lower and upper end of each axis; those of the coordinates, or of the unit cube, if None.
        weights: Of scattered points without an array of weights: "voronoi" are the volumes of their Voronoi cells.
            "equal" is for points drawn evenly.
        axes: The arrays that hold the coordinates along each axis of space, if their names do not say so.
        coarser: A file with the same samples at fewer points. Which of these points it has tells where they are.
        query: Where z is known, if not where u is: the names of its coordinates along each axis, the name of an array
            of points (N, d), a kind of equispaced points, or a `Grid`. ``axes`` are then those of u.
        parameters: Arrays with one number or k numbers for each sample: constant channels behind those of u.
        functionals: The same for z, alone or behind its fields, for operators inside `Functional`.
        first: The first sample to read.
        count: How many samples to read; all if None.

    Returns:
        The samples on their grid.
    """
    numbers = {"parameters": parameters, "functionals": functionals}
    options = Options(u, z, layout, steps, lead, grid, bounds, weights, None, axes, coarser, query, **numbers)
    return joined(list(read_blocks(path, None, options, first, count)))


def read_blocks(
    path: str | Path, block: int | None, options: Options, first: int = 0, count: int | None = None
) -> Iterator[Samples]:
    """What `read` reads, at most ``block`` samples at a time, so that the whole need not fit into memory."""
    if first < 0 or (count is not None and count < 1) or (block is not None and block < 1):
        raise UsageError(f"first must not be negative, count and block at least 1: got {first}, {count} and {block}")
    files = _files(Path(path))
    is_npy = _start(files[0]).startswith(NPY)
    outputs = _outputs(files[0], options.z) if is_npy else None
    options = replace(options, z=None) if is_npy else options  # z was no name but a file
    passed = 0
    before: tuple[Grid, tuple[int, ...]] | None = None
    coarse = _coarse_values(options)
    for file in files:
        with _open(file, outputs, is_npy) as contents:
            selection = options.select(contents, coarse)
            begin = max(0, first - passed)
            end = selection.count if count is None else min(selection.count, first + count - passed)
            for start in range(begin, end, block or selection.count):
                part = selection.read(start, min(end, start + (block or end)))
                sizes = (*part.channels, *(() if part.query is None else part.z.shape[2:]))
                if before is not None and start == begin and not _go_together(*before, part.grid, sizes):
                    raise DataError(f"{file} differs from the file before it in its channels or grid; read them apart")
                before = part.grid, sizes
                yield part
            passed += selection.count
        if count is not None and passed >= first + count:
            break
    if passed < first + (count or 1):
        raise UsageError(f"first and count ask for pairs {first} to {first + (count or 1) - 1}: {path} holds {passed}")


def where_points_are(path: str | Path, options: Options) -> str:
    """How the place of the points of a file was found, in words."""
    return _selected(path, options).said


def pairs_of_a_trajectory(path: str | Path, options: Options) -> int:
    """How many pairs of a file follow each other: one, unless every step is paired with a later one."""
    return len(_selected(path, options).times[0])


def _selected(path: str | Path, options: Options) -> Selection:
    """What is chosen of the first file, whose values can no longer be read."""
    file = _files(Path(path))[0]
    is_npy = _start(file).startswith(NPY)
    outputs = _outputs(file, options.z) if is_npy else None
    with _open(file, outputs, is_npy) as contents:
        return (replace(options, z=None) if is_npy else options).select(contents, _coarse_values(options))


def _coarse_values(options: Options) -> list[np.ndarray] | None:
    """Values of the first samples of the coarser file, if one is given."""
    if options.coarser is None:
        return None
    with _open(Path(options.coarser), None, is_npy=False) as contents:
        return options.values(contents)


@dataclass(frozen=True)
class ChannelNames:
    """What the channels of u and z are called, and the units of those that have one, by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    units: Mapping[str, str]


def channel_names(path: str | Path, options: Options) -> ChannelNames | None:
    """What the file calls the channels of u and z; None where its names do not do for names of channels."""
    file = _files(Path(path))[0]
    is_npy = _start(file).startswith(NPY)
    if is_npy:
        return None
    with _open(file, None, is_npy) as contents:
        selection = options.select(contents, _coarse_values(options))
        inputs, outputs = (
            [name for field in fields for name in field.channel_names] for fields in (selection.u, selection.z)
        )
        units = [field.unit for field in (*selection.u, *selection.z) for _ in field.channel_names]
        texts = contents.texts
    inputs, outputs = (
        list(told) if len(told) == len(found) else found
        for found, told in ((inputs, texts.get("u_names", ())), (outputs, texts.get("z_names", ())))
    )
    told = [unit_of(text) for text in (*texts.get("u_units", ()), *texts.get("z_units", ()))]
    units = told if len(told) == len(units) else units
    outputs = [f"{name}_later" if name in inputs else name for name in outputs]  # one field at two times
    names = (*inputs, *outputs)
    are_plain = all(_CHANNEL.fullmatch(name) for name in names)
    if not are_plain or len(set(names)) < len(names):
        return None
    given = {name: unit for name, unit in zip(names, units, strict=True) if unit}
    return ChannelNames(tuple(inputs), tuple(outputs), given)


@runtime_checkable
class TakesFunctions(Protocol):
    """What has to be known of an operator to read its inputs."""

    in_channels: int
    dim: int

    @property
    def bounds(self) -> Bounds:
        """The box it was trained on."""


@checked
def read_inputs(
    path: str | Path,
    operator: TakesFunctions,
    u: str | Sequence[str] | None = None,
    *,
    layout: str | None = None,
    grid: Grid | UniformKind | None = None,
    bounds: GivenBounds | None = None,
    kind: UniformKind | None = None,
    weights: WeightsName = "voronoi",
    parameters: Sequence[str] = (),
) -> tuple[Tensor, Grid]:
    """Inputs for an operator, from a file that `operformer.read` understands and that need not hold outputs.

    The operator settles what the file leaves open: which axis is channels, and the domain where there are no
    coordinates. Where there is time, u is the first step.

    Args:
        path: The file, or a folder of The Well's files.
        operator: The operator that the inputs are for.
        u: The names of the input's arrays, as in `read`.
        layout: What the axes are, as in `read`.
        grid: Where the values are known, as in `read`.
        bounds: Lower and upper end of each axis; without coordinates, those the operator was trained on if None.
        kind: The kind of equispaced points where there are no coordinates, as in training; asked for if None.
        weights: Of scattered points, as in `read`.
        parameters: The arrays with numbers for each sample, as in `read`.

    Returns:
        u (count, channels, *shape) and the grid that it is known on.
    """
    expected = Expected(operator.in_channels - len(parameters), operator.bounds, kind)
    options = Options(u, None, layout, None, None, grid, bounds, weights, expected, parameters=parameters)
    parts: list[Samples] = []
    for file in _files(Path(path)):
        with _open(file, None, is_npy=_start(file).startswith(NPY)) as contents:
            selection = options.select(contents)
            u_here = selection.inputs(0, selection.count)
            parts.append(Samples(u_here, u_here, selection.grid))
        if not _go_together(parts[0].grid, parts[0].channels, parts[-1].grid, parts[-1].channels):
            raise DataError(f"{file} differs from the file before it in its channels or grid; read them apart")
    whole = joined(parts)
    values, where = whole.u, whole.grid
    if where.dim != operator.dim:
        raise DataError(f"{path} has functions on {where}, and the operator takes dimension {operator.dim}")
    if values.shape[1] != operator.in_channels:
        raise DataError(f"{path} has {values.shape[1]} channels, and the operator takes {operator.in_channels}")
    return values, where


@checked
def write(samples: Samples, path: str | Path, is_new: bool = False, more: Mapping[str, Any] | None = None) -> None:
    """Write samples to a file that others read, and `read` too. The file appears in one step.

    It holds u and z (count, channels, *shape), bounds (d, 2), and grid_x, grid_y and grid_z of a tensor product or
    points (N, d) and weights (N,), of a mesh also cells (M, d + 1). grid_kind is 0 for nodes, 1 cells, 2 periodic, 3
    left ends. A ragged grid has points (count, N, d), weights (count, N), zero where there is no point, and counts
    (count,). Where z is on a query, the names of its coordinates begin with query_.

    Args:
        samples: The functions, on any grid.
        path: The file; its suffix .npz, .h5 or .hdf5 says the format.
        is_new: Whether to refuse if the file is there, also if another process has just written it.
        more: Other arrays, numbers and texts to write beside them, by name. `read` and `operformer import` take the
            channels' names and units from u_names, z_names, u_units and z_units.
    """
    path = Path(path)
    check_name(path)
    arrays: dict[str, Any] = {name: _array_of(values) for name, values in (("u", samples.u), ("z", samples.z))}
    arrays |= _coordinates(samples.grid.to("cpu"))
    if samples.query is not None:
        arrays |= {f"{PREFIX}{name}": values for name, values in _coordinates(samples.query.to("cpu")).items()}
    arrays |= more or {}
    content = io.BytesIO()
    if path.suffix in HDF5:
        import h5py

        with h5py.File(content, "w") as file:
            for name, values in arrays.items():
                array = np.asarray(values)
                file[name] = array.astype(h5py.string_dtype()) if array.dtype.kind == "U" else array
    else:
        np.savez(content, **arrays)  # numbers and texts only, so nothing is pickled
    write_bytes(path, content.getvalue(), is_new=is_new)


def _coordinates(grid: Grid) -> dict[str, Any]:
    """What a file holds of a grid."""
    arrays: dict[str, Any] = {}
    if grid.axes is not None:
        arrays |= {f"grid_{letter}": axis.numpy() for letter, axis in zip("xyz", grid.axes, strict=False)}
    elif grid.counts is None:
        arrays |= {"points": grid.points.numpy(), "weights": grid.weights.numpy()}
    else:
        arrays |= {"points": grid.points.numpy(), "weights": grid.weights[:, 0].numpy(), "counts": grid.counts}
    if grid.cells and grid.counts is None:
        arrays["cells"] = grid.cells[0].corners.numpy()
    arrays["bounds"] = grid.bounds
    if grid.is_uniform:
        arrays["grid_kind"] = [*UNIFORM_KINDS].index(grid.kind)  # type: ignore[arg-type]  # numbers alone are read
    return arrays


def _array_of(values: Tensor) -> np.ndarray:
    """The values as numpy keeps them; it has no bfloat16."""
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def check_name(path: Path) -> None:
    """Refuse a name that does not say which of the formats it is."""
    if path.suffix not in (".npz", *HDF5):
        raise UsageError(f"the output must be an .npz or .h5 file: got {path}")


def _go_together(grid: Grid, channels: tuple[int, ...], other: Grid, others: tuple[int, ...]) -> bool:
    """Whether the samples of two files make one set: on one grid, or each file on a mesh of its own."""
    both_meshes = bool(grid.cells and other.cells) and grid.dim == other.dim and channels == others
    return both_meshes or _are_alike(grid, channels, other, others)


def _are_alike(grid: Grid, channels: tuple[int, ...], other: Grid, others: tuple[int, ...]) -> bool:
    """Whether the samples of two files go together."""
    return channels == others and (grid is other or torch.equal(grid.points, other.points))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / MANIFEST).is_file():
        raise DataError(f"{path} is a finished set of pairs; open it with operformer.data.store.open_pairs")
    everything = sorted(path.iterdir())
    # An .xdmf has its values in an .h5 beside it.
    found = list(filter(is_mesh, everything)) or [one for one in everything if one.suffix in HDF5]
    if not found:
        kinds = ", ".join((".hdf5", *READERS))
        raise DataError(f"{path} is a folder without {kinds} files; give one that has some, or a file")
    return found


def _open(path: Path, outputs: Path | None, is_npy: bool) -> AbstractContextManager[Contents]:
    """Open a file as what its first bytes say it is, whatever its name; meshes by their names."""
    if is_mesh(path):
        return open_mesh(path)
    start = _start(path)
    if is_npy:
        return open_npy(path, outputs)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return open_torch(path) if is_torch(path) else open_npz(path)
    if start.startswith(b"MATLAB 5.0 MAT-file"):
        return open_mat(path)
    if any(start[at : at + 8] == b"\x89HDF\r\n\x1a\n" for at in (0, 512, 1024, 2048)):
        from operformer.data.hdf5_files import open_hdf5  # brings h5py

        return open_hdf5(path)
    if start.startswith(b"CDF"):
        if not start.startswith(CLASSIC):
            raise DataError(f"{path} is NetCDF of a version that is not read; convert it by nccopy -k nc4")
        return open_classic(path)
    if start.startswith(b"\x80"):
        raise DataError(
            f"{path} is a pickle, which can run code; save its arrays as .npz, or with torch.save as a dict"
        )
    raise DataError(
        f"{path} is not one of .npz, .npy, HDF5, NetCDF, MATLAB and torch.save's .pt; convert it to one of them"
    )


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
