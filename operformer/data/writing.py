"""Functions to a file that others read, and `operformer.read` too."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from operformer.domain import Grid, Samples
from operformer.errors import UsageError
from operformer.files import write_bytes

HDF5 = (".h5", ".hdf5")


def write(samples: Samples, path: str | Path) -> None:
    """u and z (count, channels, *shape) and where they are known, in an .npz or .h5 file, in one step.

    Beside them grid_x, grid_y and grid_z of a tensor product, or points (N, d) and weights (N,); for a ragged grid
    points (count, N, d), weights (count, N), zero where there is none, and counts (count,). bounds is (d, 2).
    """
    path = Path(path)
    check_name(path)
    arrays: dict[str, Any] = {
        "u": samples.u.cpu().numpy(),
        "z": samples.z.cpu().numpy(),
        **_where(samples.grid.to("cpu")),
    }
    content = io.BytesIO()
    if path.suffix in HDF5:
        import h5py

        with h5py.File(content, "w") as file:
            for name, values in arrays.items():
                file[name] = values
    else:
        np.savez(content, **arrays)  # numbers only, so nothing is pickled
    write_bytes(path, content.getvalue())


def check_name(path: Path) -> None:
    """Refuse a name that does not say which of the formats it is."""
    if path.suffix not in (".npz", *HDF5):
        raise UsageError(f"the output must be an .npz or .h5 file: got {path}")


def _where(grid: Grid) -> dict[str, np.ndarray]:
    bounds = {"bounds": np.array(grid.bounds)}
    if grid.axes is not None:
        return {f"grid_{letter}": axis.numpy() for letter, axis in zip("xyz", grid.axes, strict=False)} | bounds
    if grid.counts is None:
        return {"points": grid.points.numpy(), "weights": grid.weights.numpy()} | bounds
    ragged = {"points": grid.points.numpy(), "weights": grid.weights[:, 0].numpy(), "counts": np.array(grid.counts)}
    return ragged | bounds
