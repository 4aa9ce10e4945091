"""Functions as text for a page: 16 bits for each value, errors by sign and logarithm, in base64."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Encoded = tuple[float, float, str]  # what the lowest and the highest code stand for, and the codes

HIGHEST = 65534
MISSING = 65535  # no number: NaN or infinity
DECADES = 12.0  # below the largest error, beyond which errors count as the smallest one that is kept
NO_ERROR = -300.0  # the logarithm of the largest error where there is none
NEGATIVE = 1 << 15  # the sign of an error; by itself, no number


def encode_values(values: Array) -> Encoded:
    """v = lowest + code / 65534 (highest - lowest): off by at most 8e-6 of the span."""
    values = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(values)
    lowest, highest = (float(f(values[finite])) if finite.any() else 0.0 for f in (np.min, np.max))
    share = (np.where(finite, values, lowest) - lowest) / ((highest - lowest) or 1.0)
    return lowest, highest, _text(np.where(finite, np.rint(share * HIGHEST), MISSING))


def encode_errors(errors: Array) -> Encoded:
    """log10 |e| = lowest + (code - 1) / 32766 (highest - lowest), code 0 is e = 0, bit 15 the sign of e.

    Over twelve decades that is 0.04 % of each error, however small beside the function, so that truth + e gives the
    prediction, and a page need not hold both.
    """
    errors = np.asarray(errors, dtype=np.float64)
    finite, zero = np.isfinite(errors), errors == 0
    size = np.log10(np.abs(np.where(finite & ~zero, errors, 1.0)))
    kept = size[finite & ~zero]
    highest = float(kept.max()) if kept.size else NO_ERROR
    lowest = max(float(kept.min()), highest - DECADES) if kept.size else NO_ERROR
    share = np.clip((size - lowest) / ((highest - lowest) or 1.0), 0.0, 1.0)
    codes = np.rint(share * (NEGATIVE - 2)) + 1 + np.where(errors < 0, NEGATIVE, 0)
    return lowest, highest, _text(np.where(finite, np.where(zero, 0, codes), NEGATIVE))


def encode_floats(values: Array) -> str:
    """Numbers as they are, in 32 bits."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def decode_floats(text: str) -> NDArray[np.float32]:
    """The reverse, in one row; a ValueError where the text is none."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")


def _text(codes: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(codes).astype("<u2").tobytes()).decode()
