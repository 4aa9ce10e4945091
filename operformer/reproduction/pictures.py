"""The median and the worst sample of a record as plain values: functions are float32 in base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from operformer.learning.records import look_of
from operformer.reproduction.record import DIGITS, Look, rounded

_FUNCTIONS = ("u", "z", "prediction")


def pack(looks: Mapping[str, tuple[Look, Look]]) -> dict[str, Any]:
    """By grid, as JSON has them."""
    return {label: [_pack(look) for look in pair] for label, pair in looks.items()}


def unpack(values: Mapping[str, Any]) -> dict[str, tuple[Look, Look]]:
    """The reverse; a ValueError where functions do not live on their axes."""
    return {label: (_unpack(median), _unpack(worst)) for label, (median, worst) in values.items()}


def _pack(look: Look) -> dict[str, Any]:
    values = rounded(asdict(look), DIGITS)
    for name in _FUNCTIONS:
        array = np.asarray(getattr(look, name), "<f4")
        values[name] = {"shape": list(array.shape), "float32": base64.b64encode(array.tobytes()).decode()}
    return values


def _unpack(values: Mapping[str, Any]) -> Look:
    found = dict(values)
    for name in _FUNCTIONS:
        data = base64.b64decode(values[name]["float32"], validate=True)
        found[name] = np.frombuffer(data, "<f4").reshape(values[name]["shape"]).tolist()
    return look_of(found)
