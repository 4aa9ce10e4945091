"""The first test samples on every grid of an evaluation, small enough for a page: gallery.npz.

For the label of each grid the arrays LABEL/x, LABEL/y (planes and boxes), LABEL/u, LABEL/z, LABEL/prediction and
LABEL/errors in float32, and LABEL/index in int64; no pickle. The array weights is the hash of the operator's.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from operformer.data.array_files import open_npz
from operformer.domain import Samples
from operformer.errors import DataError
from operformer.evaluation.pictures import cut, masked, on_one_grid
from operformer.files import check_file, write_bytes
from operformer.text import shown

SAMPLES = 6
MOST = {1: 2048, 2: 128}  # points along an axis, by the number of axes of the picture
LARGEST = 2**28  # bytes of a file
WEIGHTS = "weights"
_LABEL = re.compile(r"[\w.-]{1,40}", re.ASCII)


@dataclass(frozen=True, eq=False)
class Shown:
    """Samples on one grid: axes x (n,) and y (m,), None for curves; u, z and prediction (count, channels, n[, m]).

    Outside of a mesh u, z and prediction are NaN. ``errors`` (count,) are relative L2, on all points of the grid;
    ``index`` (count,) counts the test samples from 0.
    """

    x: np.ndarray
    y: np.ndarray | None
    u: np.ndarray
    z: np.ndarray
    prediction: np.ndarray
    errors: np.ndarray
    index: np.ndarray


@dataclass(frozen=True, eq=False)
class Gallery(Mapping[str, Shown]):
    """The same samples on each grid, by its label, in the order of the evaluation."""

    grids: Mapping[str, Shown]
    weights: str = ""  # the hash of those it was made from, as `load_hashed` gives it; empty if that is not known

    def __getitem__(self, label: str) -> Shown:
        return self.grids[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self.grids)

    def __len__(self) -> int:
        return len(self.grids)


def show(prediction: Tensor, samples: Samples, errors: Tensor) -> Shown:
    """The first samples: predictions (count, channels, *shape) beside the pairs, and their errors (count,)."""
    first = on_one_grid(samples[:SAMPLES].to("cpu"))
    most = MOST[min(first.grid.dim, 2)]
    axes, functions = cut([first.u, first.z, prediction[:SAMPLES].cpu()], first.grid, most)
    u, z, found = (values.float().numpy() for values in masked(functions, axes, first.grid))
    x, y = (axes[0].float().numpy(), axes[1].float().numpy() if len(axes) > 1 else None)
    return Shown(x, y, u, z, found, errors[:SAMPLES].cpu().float().numpy(), np.arange(len(first), dtype=np.int64))


def write_gallery(gallery: Gallery, path: Path) -> None:
    """Put the gallery at the path in one step."""
    arrays = {
        f"{label}/{name}": values
        for label, samples in gallery.items()
        for name, values in vars(samples).items()
        if values is not None
    }
    if gallery.weights:
        arrays[WEIGHTS] = np.frombuffer(bytes.fromhex(gallery.weights), np.uint8)
    content = io.BytesIO()
    np.savez(content, **arrays)  # numbers only, so nothing is pickled
    write_bytes(path, content.getvalue())


def read_gallery(path: Path) -> Gallery:
    """The gallery of a file, every array compared with what the format says."""
    check_file(path, LARGEST)
    try:
        with open_npz(path) as contents:
            if contents.refused:
                name, reason = next(iter(contents.refused.items()))
                raise DataError(f"{shown(name)} {reason}")
            arrays = {name: np.array(contents.array(name)[()]) for name in contents.arrays}
        weights = arrays.pop(WEIGHTS, np.empty(0, np.uint8))
        if weights.dtype != np.uint8 or weights.shape not in ((0,), (32,)):
            raise DataError("the hash of its weights is missing")
        labels = dict.fromkeys(name.rpartition("/")[0] for name in arrays)
        return Gallery({label: _shown(label, arrays) for label in labels}, weights.tobytes().hex())
    except DataError as error:
        reason = str(error).removeprefix(f"{path} ")
        raise DataError(f"{path} is no gallery ({reason}); run: operformer evaluate {path.parent}") from None


def _shown(label: str, arrays: Mapping[str, np.ndarray]) -> Shown:
    """The arrays of one label, or why they are none."""
    found = {name.rpartition("/")[2]: values for name, values in arrays.items() if name.rpartition("/")[0] == label}
    n_axes = 2 if "y" in found else 1
    expected = {"x", "u", "z", "prediction", "errors", "index"} | ({"y"} if n_axes == 2 else set())
    if not _LABEL.fullmatch(label) or found.keys() != expected:
        raise DataError("its arrays are not those of samples on grids")
    points = tuple(found[name].size for name in ("x", "y")[:n_axes])
    count = found["errors"].size
    shapes = {"x": (points[0],), "errors": (count,), "index": (count,)} | ({"y": (points[1],)} if n_axes == 2 else {})
    for name, values in found.items():
        fits = values.shape == (shapes[name] if name in shapes else (count, *values.shape[1:2], *points))
        kind = np.int64 if name == "index" else np.float32
        may_be_nan = n_axes == 2 and name in ("u", "z", "prediction")  # outside of a mesh
        are_numbers = not (np.isinf(values).any() if may_be_nan else ~np.isfinite(values)).any()
        if not fits or values.dtype != kind or not values.size or not are_numbers:
            raise DataError(f"{label}/{name} has another shape or type than it should, or values that are not finite")
    if max(points) > MOST[n_axes] or found["z"].shape != found["prediction"].shape:
        raise DataError(f"{label} has more points than a gallery, or as many outputs as it has no predictions for")
    return Shown(y=found.pop("y", None), **found)
