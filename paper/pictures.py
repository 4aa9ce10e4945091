"""The median and the worst sample of a record as plain values: functions are float32 in base64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from operformer.runs.records import look_of
from operformer.runs.report.encoding import decode_floats, encode_floats
from paper.record import DIGITS, Look, rounded

_FUNCTIONS = ("u", "z", "prediction")


def pack(looks: Mapping[str, tuple[Look, Look]]) -> dict[str, Any]:
    """By grid, as JSON has them."""
    return {label: [_pack(look) for look in pair] for label, pair in looks.items()}


def unpack(values: Mapping[str, Any]) -> dict[str, tuple[Look, Look]]:
    """The reverse; a ValueError where functions do not live on their axes or are not finite."""
    return {label: (_unpack(median), _unpack(worst)) for label, (median, worst) in values.items()}


def _pack(look: Look) -> dict[str, Any]:
    functions = {name: np.asarray(getattr(look, name)) for name in _FUNCTIONS}
    values: dict[str, Any] = rounded({name: v for name, v in asdict(look).items() if name not in functions}, DIGITS)
    return values | {name: {"shape": list(f.shape), "float32": encode_floats(f)} for name, f in functions.items()}


def _unpack(values: Mapping[str, Any]) -> Look:
    functions = {name: decode_floats(values[name]["float32"]).reshape(values[name]["shape"]) for name in _FUNCTIONS}
    for name, found in functions.items():
        if not np.isfinite(found).all():
            raise ValueError(f"{name} of a sample is not finite")
    return look_of({**values, **{name: found.tolist() for name, found in functions.items()}})
