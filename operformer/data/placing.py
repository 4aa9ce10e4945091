"""Where points are: a reading of coordinates, of the values themselves and of what the user says, with its reason.

Where several readings remain the file is refused by a question that names the option for each of them.
"""

# DESIGN.md: Points are found, or asked for

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10, pi
from pathlib import Path

import numpy as np
import torch

from operformer.data.evidence import Evidence
from operformer.domain import Grid
from operformer.domain.box import GivenBounds, checked_bounds
from operformer.domain.grid import UNIFORM_KINDS, UniformKind
from operformer.errors import DataError, UsageError

MEANING: dict[UniformKind, str] = {
    "nodes": "both ends are points",
    "cells": "midpoints of equal cells",
    "periodic": "one period without its upper end",
    "left": "i/n, without the upper end and without a period",
}
Ends = tuple[float, float]
Look = Callable[[str], Evidence]  # what the values say about an axis; they are read when it is first asked


@dataclass(frozen=True)
class Placed:
    """A grid, and how its place was found, in words."""

    grid: Grid
    said: str


@dataclass(frozen=True)
class AxisReading:
    """What the coordinates along one axis mean: a kind of equispaced points in its bounds, or none and their ends."""

    kind: UniformKind | None
    ends: Ends
    said: str
    is_reversed: bool = False


def place_axes(
    axes: Mapping[str, np.ndarray],
    told: Mapping[str, tuple[UniformKind, ...]],
    bounds: GivenBounds | None,
    evidence: Look,
    path: Path,
    usual: UniformKind | None = None,
) -> Placed:
    """The grid with these coordinates.

    Args:
        axes: the coordinates along each axis, by its letter.
        told: the kinds that the user or the format leaves possible, for the axes of which they say something.
        bounds: the user's.
        evidence: what the values say about each axis.
        path: the file, for messages.
        usual: the kind to take where several remain possible: what an operator was trained on.
    """
    box = None if bounds is None else checked_bounds(bounds, len(axes))
    readings = [
        _read_axis(letter, values, told.get(letter), None if box is None else box[k], evidence, path, usual)
        for k, (letter, values) in enumerate(axes.items())
    ]
    said = "; ".join(f"{letter} {one.said}" for letter, one in zip(axes, readings, strict=True))
    kinds = {one.kind for one in readings}
    if len(kinds) == 1 and readings[0].kind is not None and not any(one.is_reversed for one in readings):
        return Placed(
            Grid.uniform([len(v) for v in axes.values()], [one.ends for one in readings], readings[0].kind), said
        )
    try:
        reach = [_reach(values, one) for values, one in zip(axes.values(), readings, strict=True)]
        return Placed(Grid.rectilinear(*(torch.tensor(values) for values in axes.values()), bounds=reach), said)
    except UsageError as error:
        raise DataError(f"{path} has coordinates that make no grid: {error}") from None


def place_shape(
    extent: Mapping[str, int],
    told: Mapping[str, tuple[UniformKind, ...]],
    bounds: GivenBounds | None,
    evidence: Look,
    path: Path,
    unused: Sequence[str] = (),
) -> Placed:
    """The grid of values without coordinates, by what the user says, else by what they themselves leave possible.

    Args:
        extent: how many points there are along each axis.
        told: the kinds that the user or the format leaves possible, for the axes of which they say something.
        bounds: the user's; the unit cube if None.
        evidence: what the values say about each axis.
        path: the file, for messages.
        unused: rows of numbers in the file that may be the coordinates.
    """
    box = checked_bounds(bounds, len(extent))
    left = {letter: told.get(letter) or evidence(letter).kinds for letter in extent}
    if any(len(kinds) != 1 for kinds in left.values()) or (unused and len(told) < len(extent)):
        raise DataError(_question(extent, left, evidence, path, unused))
    kinds = {letter: one[0] for letter, one in left.items()}
    said = "; ".join(
        f"{letter} {kind} by {'what is said of it' if letter in told else evidence(letter).reason}"
        for letter, kind in kinds.items()
    )
    said += "" if bounds is not None else "; from 0 to 1, as nothing says otherwise (--bounds)"
    shape = tuple(extent.values())
    if len(set(kinds.values())) == 1:
        return Placed(Grid.uniform(shape, box, next(iter(kinds.values()))), said)
    rows = [Grid.uniform(n, [ends], kind).axes for n, ends, kind in zip(shape, box, kinds.values(), strict=True)]
    values = [row[0] for row in rows if row is not None]
    readings = [AxisReading(kind, ends, "") for kind, ends in zip(kinds.values(), box, strict=True)]
    reach = [_reach(row.numpy(), one) for row, one in zip(values, readings, strict=True)]
    return Placed(Grid.rectilinear(*values, bounds=reach), said)


def _question(
    extent: Mapping[str, int],
    left: Mapping[str, tuple[UniformKind, ...]],
    evidence: Look,
    path: Path,
    unused: Sequence[str],
) -> str:
    points = " x ".join(map(str, extent.values()))
    if unused:
        names = ", ".join(unused)
        return (
            f"{path} holds {names}, which may be the coordinates of its {points} points; say --axes {' '.join(unused)} "
            "(axes=) if they are, else what the points are by --grid (grid=)"
        )
    open_ = {letter: kinds for letter, kinds in left.items() if len(kinds) != 1}
    choices = [kind for kind in UNIFORM_KINDS if any(kind in kinds or not kinds for kinds in open_.values())]
    why = {evidence(letter).reason for letter in open_} - {""}
    return (
        f"{path} does not say where its {points} points are{' (' + '; '.join(sorted(why)) + ')' if why else ''}: say "
        + ", ".join(f"--grid {kind} ({MEANING[kind]})" for kind in choices)
        + "; in Python grid="
    )


def _read_axis(
    letter: str,
    given: np.ndarray,
    told: tuple[UniformKind, ...] | None,
    box: Ends | None,
    evidence: Look,
    path: Path,
    usual: UniformKind | None,
) -> AxisReading:
    """What the user or the format says comes before what coordinates look like, and that before what values tell."""
    if not np.isfinite(given).all():
        raise DataError(f"{path} has values of {letter} that are not finite; give a Grid")
    if len(given) < 2:
        raise DataError(f"{path} has one point along {letter}; a function needs at least two")
    down = bool(given[0] > given[-1])
    values = given[::-1] if down else given
    span = f"runs from {given[0]:g} to {given[-1]:g} in {len(given)} values"
    options = _options(values)
    if options is None:
        if box is not None and (told is None or len(told) > 1) and box[0] <= values.min() and values.max() <= box[1]:
            return AxisReading(None, box, f"{span}, unevenly", down)
        if box is not None or (told is not None and len(told) == 1):
            raise DataError(_mismatch(path, letter, span, told, box))
        return AxisReading(None, (float(values.min()), float(values.max())), f"{span}, unevenly", down)
    ends_of, slack = options
    allowed = told or UNIFORM_KINDS
    if box is not None:
        fitting = [kind for kind in allowed if np.allclose(ends_of[kind], box, rtol=0, atol=2 * slack)]
        if not fitting:
            raise DataError(_mismatch(path, letter, span, told, box))
        return AxisReading(_choose(fitting, letter, span, ends_of, evidence, path, usual), box, span, down)
    rounded = {kind: [_rounded(end, _step(values), slack) for end in ends_of[kind]] for kind in allowed}
    tiers = {kind: max(tier for _, tier in ends) for kind, ends in rounded.items()}
    kind = _choose(_likeliest(tiers, letter, ends_of, evidence), letter, span, ends_of, evidence, path, usual)
    ends: Ends = (rounded[kind][0][0], rounded[kind][1][0]) if tiers[kind] < 2 else ends_of[kind]
    return AxisReading(kind, ends, f"{span}: {kind} of [{ends[0]:g}, {ends[1]:g}]", down)


def _likeliest(
    tiers: Mapping[UniformKind, int], letter: str, ends: Mapping[UniformKind, Ends], evidence: Look
) -> list[UniformKind]:
    """The kinds that remain possible: those whose bounds are the roundest numbers, and what values say against them."""
    best = min(tiers.values())
    found = [kind for kind in tiers if tiers[kind] == best]
    if "nodes" in found:
        is_pixel = "cells" in found and (ends["cells"][0] == 0 or ends["cells"][0] == -ends["cells"][1])
        if "periodic" in tiers and evidence(letter).wraps:
            return ["periodic"] if "periodic" in found and best < 2 else ["nodes", "periodic"]
        return ["nodes", "cells"] if is_pixel and best < 2 else ["nodes"]
    if "cells" in found:
        return ["cells"]
    may_be_nodes = tiers.get("nodes", 2) < 2 and not evidence(letter).wraps
    return ["nodes", *found] if may_be_nodes else found


def _choose(
    kinds: Sequence[UniformKind],
    letter: str,
    span: str,
    ends: Mapping[UniformKind, Ends],
    evidence: Look,
    path: Path,
    usual: UniformKind | None,
) -> UniformKind:
    """The one kind, between one period and left ends what the values say; else a question."""
    if usual is not None and usual in kinds:
        return usual
    if len(kinds) == 1:
        return kinds[0]
    told = evidence(letter)
    if told.wraps is not None and {"periodic", "left"} <= set(kinds):
        kinds = [kind for kind in kinds if kind != ("left" if told.wraps else "periodic")]
    if len(kinds) == 1:
        return kinds[0]
    choices = ", ".join(f"--grid {k} ({MEANING[k]}: [{ends[k][0]:g}, {ends[k][1]:g}])" for k in kinds)
    why = f" ({told.reason})" if told.reason else ""
    raise DataError(f"{path}: {letter} {span}, which may be several things{why}; say {choices}; in Python grid=")


def _mismatch(path: Path, letter: str, span: str, told: tuple[UniformKind, ...] | None, box: Ends | None) -> str:
    kind = told[0] if told and len(told) == 1 else None
    what = f"{kind or 'equispaced points'} of {list(box)}" if box else f"equispaced {kind}"
    return f"{path}: {letter} {span}, which are not {what}; leave grid= and bounds= out, or give a Grid"


def _step(values: np.ndarray) -> float:
    return float(values[-1] - values[0]) / (len(values) - 1)


def _options(values: np.ndarray) -> tuple[dict[UniformKind, Ends], float] | None:
    """The bounds that equispaced rising values have as each kind, and how exactly; None for other values."""
    step = _step(values)
    even = values[0] + step * np.arange(len(values))
    rounding = 4 * float(np.finfo(np.float32).eps * np.abs(values).max())  # coordinates are often float32
    slack = min(max(1e-3 * step, rounding), 0.05 * step)
    if step <= 0 or float(np.abs(values - even).max()) > slack:
        return None
    first, last = float(values[0]), float(values[-1])
    ends: dict[UniformKind, Ends] = {
        "nodes": (first, last),
        "cells": (first - step / 2, last + step / 2),
        "periodic": (first, last + step),
        "left": (first, last + step),
    }
    return ends, slack


def _rounded(value: float, step: float, slack: float) -> tuple[float, int]:
    """The round number that a value is up to rounding, and how round: 0 whole, 1 halves or tenths, 2 not round."""
    unit = 10.0 ** max(0, floor(log10(step) + 1e-9))  # steps of 1000 begin at multiples of 1000
    for tier, parts in enumerate(((1.0, 1 / pi), (2.0, 2 / pi, 10.0))):
        for part in parts:
            nearest = round(value * part / unit) * unit / part
            if abs(value - nearest) <= 2 * slack:
                return nearest, tier
    return value, 2


def _reach(values: np.ndarray, one: AxisReading) -> Ends:
    """Bounds in which trapezoidal weights are those of the kind: a period begins half a step before its points."""
    lower, upper = one.ends
    shift = (upper - lower) / len(values) / 2 if one.kind == "periodic" else 0.0
    return min(lower - shift, float(values.min())), max(upper - shift, float(values.max()))
