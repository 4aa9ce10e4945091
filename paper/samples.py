"""Samples as plain values: the median and the worst one of a record, and those that a page's explorer shows.

Functions are float32 in base64; those that runs share stand once in a file of results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from operformer.evaluation.errors import Look
from operformer.runs.gallery import Gallery, Shown
from operformer.runs.records import look_of
from operformer.runs.report.encoding import decode_floats, encode_floats

DIGITS = 6  # of the functions in pictures
_FUNCTIONS = ("u", "z", "prediction")


def pack_looks(looks: Mapping[str, tuple[Look, Look]]) -> dict[str, Any]:
    """By grid, as JSON has them."""
    return {label: [_pack_look(look) for look in pair] for label, pair in looks.items()}


def unpack_looks(values: Mapping[str, Any]) -> dict[str, tuple[Look, Look]]:
    """The reverse; a ValueError where functions do not live on their axes or are not finite."""
    return {label: (_unpack_look(median), _unpack_look(worst)) for label, (median, worst) in values.items()}


def _pack_look(look: Look) -> dict[str, Any]:
    functions = {name: np.asarray(getattr(look, name)) for name in _FUNCTIONS}
    values: dict[str, Any] = rounded({name: v for name, v in asdict(look).items() if name not in functions}, DIGITS)
    return values | {name: {"shape": list(f.shape), "float32": encode_floats(f)} for name, f in functions.items()}


def _unpack_look(values: Mapping[str, Any]) -> Look:
    functions = {name: decode_floats(values[name]["float32"]).reshape(values[name]["shape"]) for name in _FUNCTIONS}
    for name, found in functions.items():
        if not np.isfinite(found).all():
            raise ValueError(f"{name} of a sample is not finite")
    return look_of({**values, **{name: found.tolist() for name, found in functions.items()}})


def rounded(value: Any, digits: int) -> Any:
    """Numbers of at most this many digits, in lists and tables, too."""
    if isinstance(value, dict):
        return {key: rounded(inner, digits) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner, digits) for inner in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


# For the explorer of a page

SAMPLES = 4
MOST = 64  # points along an axis of a plane
LABELS = ("0.5x", "0.75x", "1x", "1.5x", "2x", "irregular", "graded")
Views = Mapping[str, Shown]


def views_of(gallery: Gallery) -> dict[str, Shown]:
    """A few samples on a few grids, with fewer points."""
    return {label: _small(gallery[label]) for label in LABELS if label in gallery}


def pack_views(views: Mapping[str, Views]) -> dict[str, Any]:
    """The views of all runs as JSON has them."""
    pool: dict[str, int] = {}
    runs = {
        run: {
            label: {name: _pack(array, pool) for name, array in vars(shown).items()} for label, shown in found.items()
        }
        for run, found in views.items()
    }
    return {"arrays": list(pool), "runs": runs}


def unpack_views(values: Mapping[str, Any]) -> dict[str, Views]:
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
