"""The domain D: a box, the product of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from operformer.errors import UsageError
from operformer.settings import AS_GIVEN, named

Bounds = tuple[tuple[float, float], ...]
GivenBounds = Annotated[Sequence[Sequence[float]], AS_GIVEN]
Numbers = Annotated[Tensor | np.ndarray | Sequence[Any], AS_GIVEN]  # read by `as_numbers`


def checked_bounds(bounds: GivenBounds | None, dim: int | None) -> Bounds:
    """One (lower, upper) for each axis, however many if ``dim`` is not known; None is the unit cube."""
    if bounds is None:
        return ((0.0, 1.0),) * (dim or 1)
    try:
        box = tuple((float(lower), float(upper)) for lower, upper in bounds)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        box = ()
    if len(box) != dim if dim else not 1 <= len(box) <= 3:
        of = f"each of {dim} axes" if dim else "each axis"
        raise UsageError(f"bounds must be one (lower, upper) for {of}: got {named(bounds)}")
    if not all(lower < upper and isfinite(upper - lower) for lower, upper in box):
        raise UsageError(f"bounds must be finite and grow from lower to upper: got {box}")
    return box


def as_numbers(values: Any, name: str) -> Tensor:
    """Real numbers as a tensor of the precision that was given; Python's own numbers are float64."""
    try:
        found = values if isinstance(values, Tensor) else torch.as_tensor(_usable(np.asarray(values)))
    except (TypeError, ValueError, RuntimeError, OverflowError):
        found = None
    is_dense = found is not None and found.layout == torch.strided and not found.is_meta
    if found is None or not is_dense or found.is_complex() or found.dtype == torch.bool:
        raise UsageError(f"{name} must be an array of real numbers: got {named(values)}")
    return found


def _usable(array: np.ndarray) -> np.ndarray:
    """The array as torch can share it: not read-only, and not backwards."""
    return array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy()


def checked_points(points: Any, bounds: Bounds) -> Tensor:
    """The points (N, d) in float64, every one inside the box; what the given precision rounded past a face is on it."""
    given = as_numbers(points, "points")
    exact = given.to(torch.float64)
    box = torch.tensor(bounds, dtype=torch.float64, device=exact.device)
    resolution = torch.finfo(given.dtype).eps if given.is_floating_point() else 0.0
    slack = resolution * box.abs().amax(1)
    # Written so that NaN counts as outside.
    inside = ((exact >= box[:, 0] - slack) & (exact <= box[:, 1] + slack)).all(-1)
    if not bool(inside.all()):
        first = int((~inside).nonzero()[0])
        raise UsageError(
            f"every point must lie inside the bounds {bounds}: point {first} is {exact[first].tolist()}; pass bounds= "
            "that hold all points"
        )
    return exact.clamp(box[:, 0], box[:, 1])
