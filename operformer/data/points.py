"""Points to read functions at, from a file: .csv, .npy or .npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from operformer.data.array_files import open_npy, open_npz
from operformer.data.contents import POINTS, Contents
from operformer.errors import DataError

LARGEST = 2**28  # bytes of a .csv file


def read_points(path: Path, dim: int) -> np.ndarray:
    """The points (N, d) in a file, in float64.

    A .csv file has a line for each point, its numbers separated by commas; a first line of names is skipped. An .npz
    file has the array ``points``, or no other array.
    """
    if not path.is_file():
        raise DataError(f"{path} was not found, or is not a file; give a .csv, .npy or .npz file of points")
    if path.suffix == ".csv":
        points = _of_lines(path)
    elif path.suffix in (".npy", ".npz"):
        with open_npy(path) if path.suffix == ".npy" else open_npz(path) as contents:
            points = _of_arrays(contents)
    else:
        raise DataError(f"points are read from .csv, .npy and .npz files: got {path}")
    points = points[:, None] if points.ndim == 1 and dim == 1 else points
    if points.ndim != 2 or points.shape[1] != dim:
        raise DataError(f"{path} must hold points (N, {dim}), one row each: got shape {points.shape}")
    broken = ~np.isfinite(points).all(1)
    if broken.any():
        raise DataError(f"{path} holds values that are not finite, first in point {int(broken.argmax())}; remove them")
    return points


def _of_lines(path: Path) -> np.ndarray:
    if path.stat().st_size > LARGEST:
        raise DataError(f"{path} has more than {LARGEST // 2**20} MiB; save the points with numpy.save instead")
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text; save the points as comma-separated numbers") from None
    rows: list[list[float]] = []
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            rows.append([float(one) for one in line.split(",")])
        except ValueError:
            if number:
                raise DataError(f"line {number + 1} of {path} is no row of numbers: {line[:60]!r}") from None
        if rows and len(rows[-1]) != len(rows[0]):
            raise DataError(f"line {number + 1} of {path} has {len(rows[-1])} numbers, the first {len(rows[0])}")
    if not rows:
        raise DataError(f"{path} holds no points; write one line for each")
    return np.array(rows)


def _of_arrays(contents: Contents) -> np.ndarray:
    arrays = contents.arrays
    name = next((name for name in POINTS if name in arrays), next(iter(arrays)) if len(arrays) == 1 else None)
    if name is None:
        names = ", ".join(sorted(arrays)) or "none that can be read"
        raise DataError(f"{contents.path} must hold an array named points: it has {names}")
    try:
        return np.array(arrays[name][()], dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"the points in {contents.path} are not real numbers; save them as floats") from None
