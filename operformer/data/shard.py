"""A shard: some samples as one HDF5 file in The Well's layout, one sample in each chunk.

    attributes  dataset_name  grid_type  n_spatial_dims  n_trajectories  simulation_parameters
    dimensions/ time  x  y  (points, weights)        boundary_conditions/x_wall ...
    query/      where z is known, if it is not where u is: the same names as in dimensions/
    scalars/    constants of the law, and what the solver says of each pair
    t0_fields/  inputs (n, *shape); outputs (n, 1, *shape); or one field (n, times, *shape) that is both

The Well has no problems without time: an input that does not vary in it and an output at one time are read by its
`WellDataset(path, n_steps_input=0, n_steps_output=1)`.
"""

# DESIGN.md: A shard depends on its header and its index alone

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import torch
from torch import Tensor

from operformer.data.contents import refusing_damage, whole
from operformer.data.hdf5_files import check_chunks, open_array
from operformer.data.manifest import Fields
from operformer.domain import Grid, Samples
from operformer.errors import DataError
from operformer.problems.problem import Boundary


def encode(samples: Samples, fields: Fields, title: str) -> bytes:
    """The file of some samples; the same samples give the same bytes."""
    grid, count = samples.grid.to("cpu"), len(samples)
    u, z = (values.cpu().numpy() for values in (samples.u, samples.z))
    with h5py.File("shard", "w", driver="core", backing_store=False) as file:
        file.attrs.update({"dataset_name": title, "grid_type": "cartesian", "n_trajectories": count})
        file.attrs["n_spatial_dims"] = len(grid.shape)
        file.attrs["simulation_parameters"] = _texts(fields.constants)
        file.attrs.update(fields.constants)
        axes = _write_dimensions(file, grid, fields.times or (0.0,))
        if samples.query is not None:
            query = file.create_group("query")
            for name, each in _coordinates(samples.query.to("cpu")).items():
                _flag(query.create_dataset(name, data=each.numpy()), False, False)
        _write_boundary(file, axes, fields.boundary)
        scalars = file.create_group("scalars")
        scalars.attrs["field_names"] = _texts([*fields.constants, *samples.checks])
        for name, value in fields.constants.items():
            _flag(scalars.create_dataset(name, data=np.float64(value)), False, False)
        for name, each in samples.checks.items():
            _flag(scalars.create_dataset(name, data=each.cpu().numpy()), True, False)
        if fields.times is None:
            values = {name: (u[:, k], False) for k, name in enumerate(fields.inputs)}
            values |= {name: (z[:, k, None], True) for k, name in enumerate(fields.outputs)}
        else:
            values = {fields.series: (np.concatenate([u, z], axis=1), True)}
        for order in range(3):
            group = file.create_group(f"t{order}_fields")
            group.attrs["field_names"] = _texts(values if order == 0 else [])
        for name, (array, time_varying) in values.items():
            dataset = file["t0_fields"].create_dataset(name, data=array, chunks=(1, *array.shape[1:]))
            _flag(dataset, True, time_varying)
            dataset.attrs["dim_varying"] = [True] * (array.ndim - 1 - time_varying)
        file.flush()
        return bytes(file.id.get_file_image())


class Shard:
    """A shard on disk, open for reading."""

    def __init__(
        self, path: Path, fields: Fields, count: int, shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str
    ) -> None:
        self._path, self._fields, self._dtype = path, fields, dtype
        shape, z_shape = shapes
        with refusing_damage(path):
            self._file = h5py.File(path, "r", rdcc_nbytes=0)  # a chunk is read once, and 1 MiB for each field adds up
            if fields.times is None:
                self._u = [self._field(name, (count, *shape)) for name in fields.inputs]
                self._z = [self._field(name, (count, 1, *z_shape)) for name in fields.outputs]
            else:
                self._u = [self._field(fields.series, (count, len(fields.times), *shape))]

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def read(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """u and z of the pairs first, ..., last - 1, channels first."""
        with refusing_damage(self._path):
            if self._fields.times is None:
                u = np.stack([array[first:last] for array in self._u], axis=1)
                z = np.stack([array[first:last, 0] for array in self._z], axis=1)
            else:
                both = self._u[0][first:last]
                u, z = both[:, :1], both[:, 1:]
        return torch.from_numpy(np.ascontiguousarray(u)), torch.from_numpy(np.ascontiguousarray(z))

    def coordinates(self, group: Literal["dimensions", "query"] = "dimensions") -> dict[str, Tensor]:
        """The arrays of a group: axes x, y, ... or points and weights."""
        with refusing_damage(self._path):
            names = [name for name in self._file[group] if name != "time"]
            arrays = {name: open_array(self._file, self._path, f"{group}/{name}") for name in names}
            return {name: torch.from_numpy(whole(array)) for name, array in arrays.items()}

    def _field(self, name: str, shape: tuple[int, ...]) -> Any:
        array = open_array(self._file, self._path, f"t0_fields/{name}")
        if array.shape != shape or array.dtype.name != self._dtype:
            found, wanted = f"{array.dtype} {array.shape}", f"{self._dtype} {shape}"
            raise DataError(f"{self._path}: {name} is {found}, not {wanted} as its manifest says")
        dataset = self._file["t0_fields"][name]
        check_chunks(dataset)
        return dataset


def _write_dimensions(file: Any, grid: Grid, times: Sequence[float]) -> dict[str, int]:
    """Coordinates; the names of the axes with their numbers of points."""
    group = file.create_group("dimensions")
    coordinates = _coordinates(grid)
    axes = {name: each for name, each in coordinates.items() if name not in ("points", "weights", "cells")}
    group.attrs["spatial_dims"] = _texts(axes)
    _flag(group.create_dataset("time", data=np.asarray(times, dtype=np.float64)), False, True)
    for name, each in coordinates.items():
        _flag(group.create_dataset(name, data=each.numpy()), False, False)
    return {name: len(axis) for name, axis in axes.items()}


def _coordinates(grid: Grid) -> dict[str, Tensor]:
    """The axes x, y, ... of a grid, or its points, weights and cells with an axis that counts points."""
    if grid.axes is not None:
        return dict(zip("xyz", grid.axes, strict=False))
    numbers = torch.arange(len(grid.points), dtype=torch.float64)
    cells = {"cells": grid.cells[0].corners} if grid.cells else {}
    return {"points": grid.points, "weights": grid.weights, **cells, "point": numbers}


def _write_boundary(file: Any, axes: Mapping[str, int], boundary: Boundary) -> None:
    group = file.create_group("boundary_conditions")
    for name, points in axes.items() if boundary != "open" else ():
        condition = group.create_group(f"{name}_{boundary}")
        condition.attrs.update({"bc_type": boundary.upper(), "sample_varying": False, "time_varying": False})
        condition.attrs["associated_dims"] = _texts([name])
        condition.attrs["associated_fields"] = _texts([])
        mask = np.zeros(points, dtype=bool)
        mask[[0, -1]] = True
        condition.create_dataset("mask", data=mask)


def _flag(dataset: Any, sample_varying: bool, time_varying: bool) -> None:
    dataset.attrs.update({"sample_varying": sample_varying, "time_varying": time_varying})


def _texts(values: Any) -> np.ndarray:
    return np.array(list(values), dtype=h5py.string_dtype())
