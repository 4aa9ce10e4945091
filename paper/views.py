"""The samples that the page's explorer shows, as plain values: float32 in base64, functions that runs share once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from operformer.runs.gallery import Gallery, Shown
from operformer.runs.report.encoding import decode_floats, encode_floats

SAMPLES = 4
MOST = 64  # points along an axis of a plane
LABELS = ("0.5x", "0.75x", "1x", "1.5x", "2x", "irregular", "graded")
Views = Mapping[str, Shown]


def views_of(gallery: Gallery) -> dict[str, Shown]:
    """A few samples on a few grids, with fewer points."""
    return {label: _small(gallery[label]) for label in LABELS if label in gallery}


def pack(views: Mapping[str, Views]) -> dict[str, Any]:
    """The views of all runs as JSON has them."""
    pool: dict[str, int] = {}
    runs = {
        run: {
            label: {name: _pack(array, pool) for name, array in vars(shown).items()} for label, shown in found.items()
        }
        for run, found in views.items()
    }
    return {"arrays": list(pool), "runs": runs}


def unpack(values: Mapping[str, Any]) -> dict[str, Views]:
    """The reverse."""
    arrays = [decode_floats(text) for text in values["arrays"]]
    return {
        run: {label: _shown(packed, arrays) for label, packed in found.items()} for run, found in values["runs"].items()
    }


def _small(shown: Shown) -> Shown:
    step = 1 if shown.y is None else -(-max(len(shown.x), len(shown.y)) // MOST)
    axes = (slice(None, None, step),) * (1 if shown.y is None else 2)
    u, z, prediction = (values[:SAMPLES, :, *axes] for values in (shown.u, shown.z, shown.prediction))
    y = None if shown.y is None else shown.y[::step]
    return Shown(shown.x[::step], y, u, z, prediction, shown.errors[:SAMPLES], shown.index[:SAMPLES])


def _pack(array: np.ndarray | None, pool: dict[str, int]) -> Any:
    if array is None:
        return None
    if array.dtype == np.int64:
        return array.tolist()
    return [pool.setdefault(encode_floats(array), len(pool)), *array.shape]


def _shown(packed: Mapping[str, Any], arrays: list[np.ndarray]) -> Shown:
    found = {name: value and arrays[value[0]].reshape(value[1:]) for name, value in packed.items() if name != "index"}
    return Shown(**found, index=np.asarray(packed["index"], np.int64))
