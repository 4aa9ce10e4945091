"""What values tell about their points: whether they wrap around, close a period, or vanish at an end of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from operformer.domain.grid import UNIFORM_KINDS, UniformKind
from operformer.errors import DataError

ENOUGH = 8  # samples from which on values may show a period
EXACT = 1e-5  # of the largest value: what is called equal, or zero
SMOOTH, ROUGH = 0.25, 0.5  # shares of the squared differences of independent values


@dataclass(frozen=True)
class Evidence:
    """What values along one axis leave possible.

    ``kinds`` are the readings that remain of points without coordinates, ``wraps`` says whether the step from the last
    point to the first is like the others (None: not known), and ``reason`` says it in words.
    """

    kinds: tuple[UniformKind, ...]
    wraps: bool | None
    reason: str


def evidence_along(arrays: Sequence[np.ndarray], axis: int, nested: tuple[UniformKind, ...] | None = None) -> Evidence:
    """What some arrays (samples, *space) of finite values, known on the same points, say about an axis of space.

    ``nested`` are the kinds of which a coarser file's points are among these, if there is one.
    """
    found = _alone(arrays, axis)
    if nested is None:
        return found
    reason = "the points of the coarser file are among these" + (f", and {found.reason}" if found.reason else "")
    return Evidence(tuple(kind for kind in found.kinds if kind in nested), found.wraps, reason)


def nested_kinds(fine: Sequence[np.ndarray], coarse: Sequence[np.ndarray], path: Path) -> tuple[UniformKind, ...]:
    """The kinds of equispaced points for which coarse values are those of fine ones at the points that both share.

    Cells may also be means over the finer ones.
    """
    possible = [kind for kind in UNIFORM_KINDS if all(map(partial(_is_nested, kind), fine, coarse))]
    if len(fine) != len(coarse) or not possible:
        raise DataError(
            f"the values of the coarser file are not among those of {path} for any kind of grid; give the same samples "
            "at fewer points, or leave coarser= out"
        )
    return tuple(possible)


def _is_nested(kind: UniformKind, fine: np.ndarray, coarse: np.ndarray) -> bool:
    count = min(len(fine), len(coarse))
    if fine.ndim != coarse.ndim or not count:
        return False
    many, few, ends = fine.shape[1:], coarse.shape[1:], int(kind == "nodes")
    if any(m < 2 or (n - ends) % (m - ends) or n == m for n, m in zip(many, few, strict=True)):
        return False
    steps = [(n - ends) // (m - ends) for n, m in zip(many, few, strict=True)]
    values, scale = fine[:count], np.abs(coarse).max()
    if kind == "cells" and all(step % 2 for step in steps):
        middles = values[(slice(None), *(slice(step // 2, None, step) for step in steps))]
        if np.abs(middles - coarse[:count]).max() <= EXACT * scale:
            return True
    if kind == "cells":
        shape = [size for m, step in zip(few, steps, strict=True) for size in (m, step)]
        means = values.reshape(count, *shape).mean(tuple(range(2, 2 + 2 * len(few), 2)))
        return bool(np.abs(means - coarse[:count]).max() <= EXACT * scale)
    kept = values[(slice(None), *(slice(None, None, step) for step in steps))]
    return bool(np.abs(kept - coarse[:count]).max() <= EXACT * scale)


def _alone(arrays: Sequence[np.ndarray], axis: int) -> Evidence:
    """What the values of one file tell."""
    rows = [np.moveaxis(values, axis + 1, -1) for values in arrays if values.shape[axis + 1] >= 4]
    rows = [one for one in rows if np.ptp(one) > 0]
    if any(_is_closed(one) for one in rows):
        return Evidence(("nodes",), False, "the values at both ends are equal in every sample")
    wraps = _all_agree([_wraps(one) for one in rows])
    if any(_begins_at_zero(one) for one in rows):
        ends = wraps is False and any(_lands_on_zero(one) for one in rows if _begins_at_zero(one))
        kinds: tuple[UniformKind, ...] = ("left",) if ends else ("nodes", "left")
        reason = (
            "values are zero at the first point, and would be one step beyond the last"
            if ends
            else ("values are zero at the first point and not at the last")
        )
        return Evidence(kinds if wraps is False else (*kinds, "periodic"), wraps, reason)
    if wraps:
        return Evidence(("cells", "periodic"), True, "the values continue from the last point to the first")
    if wraps is False:
        kinds = tuple(kind for kind in UNIFORM_KINDS if kind != "periodic")
        return Evidence(kinds, False, "the values do not continue from the last point to the first")
    return Evidence(UNIFORM_KINDS, None, "")


def roughness(values: np.ndarray, axis: int) -> float:
    """Squared differences of neighbours along an axis over those of independent values: about 1 for noise, 0 if smooth.

    NaN for values that do not vary.
    """
    moved = np.moveaxis(values, axis, -1)
    spread = 2 * float(moved.var(axis=-1).mean())
    return float(np.square(np.diff(moved)).mean()) / spread if spread > 0 and moved.shape[-1] > 1 else float("nan")


def _is_closed(rows: np.ndarray) -> bool:
    """Whether first and last values are equal in every sample, and that is no accident."""
    scale = np.abs(rows).max()
    first, last = rows[..., 0], rows[..., -1]
    are_zero = np.abs(first).max() <= EXACT * scale
    if np.abs(first - last).max() > EXACT * scale or len(rows) < 3 or (_is_even(rows) and not are_zero):
        return False
    least = 100 * EXACT * scale
    neighbours = min(np.abs(rows[..., 1]).max(), np.abs(rows[..., -2]).max())
    varies = np.ptp(first) > least or np.abs(rows[..., 1] - first).max() > least
    return bool(varies and neighbours > least)


def _is_even(rows: np.ndarray) -> bool:
    """Whether all functions are their own mirror images, which makes the ends equal on any points."""
    return bool(np.abs(rows - rows[..., ::-1]).max() <= EXACT * np.abs(rows).max())


def _begins_at_zero(rows: np.ndarray) -> bool:
    scale = np.abs(rows).max()
    others = min(np.abs(rows[..., 1]).max(), np.abs(rows[..., -1]).max())
    return bool(len(rows) >= 3 and np.abs(rows[..., 0]).max() <= EXACT * scale and others > 100 * EXACT * scale)


def _lands_on_zero(rows: np.ndarray) -> bool:
    """Whether a parabola through the last three values is zero one step beyond them."""
    beyond = 3 * rows[..., -1] - 3 * rows[..., -2] + rows[..., -3]
    return bool(_root(beyond) < 0.2 * _root(rows[..., -1]))


def _wraps(rows: np.ndarray) -> bool | None:
    """Whether first and second differences across the ends are as large as those inside; None where nothing tells."""
    if not roughness(rows, -1) < SMOOTH:
        return None
    around = np.concatenate([rows, rows[..., :2]], -1)
    verdicts = []
    for order, inner in ((1, rows.shape[-1] - 1), (2, rows.shape[-1] - 2)):
        profile = np.sqrt(np.square(np.diff(around, order)).mean(tuple(range(rows.ndim - 1))))
        across, inside = profile[inner : rows.shape[-1]].max(), profile[:inner]
        if across > 2 * inside.max():
            return False
        verdicts.append(across <= 1.2 * inside.max() and across <= 2 * _root(inside))
    return True if all(verdicts) and len(rows) >= ENOUGH else None


def _all_agree(verdicts: list[bool | None]) -> bool | None:
    """No, if one array says so; yes, if all that tell anything do."""
    known = [verdict for verdict in verdicts if verdict is not None]
    return all(known) if known else None


def _root(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))
