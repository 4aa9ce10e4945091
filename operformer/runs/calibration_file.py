"""calibration.json: a conformal calibration and the grid of its spread, read back only if it is whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

import torch

from operformer.domain import Grid
from operformer.errors import DataError, UsageError
from operformer.evaluation.conformal import Calibration, Coverage
from operformer.files import read_json, write_json

_NUMBERS = ("alpha", "delta", "factor", "relative_error")


def write_calibration(calibration: Calibration, coverages: Mapping[str, Coverage], path: Path) -> None:
    """Put the calibration at the path in one step, with what was counted on test pairs, by grid."""
    values = {name: getattr(calibration, name) for name in (*_NUMBERS, "count")}
    values |= {"coverage": {label: asdict(found) for label, found in coverages.items()}}
    write_json(path, values | {"grid": _grid_values(calibration.grid), "spread": calibration.spread.tolist()})


def read_calibration(path: Path) -> Calibration:
    """The calibration of a file."""
    values = read_json(path)
    try:
        numbers = {name: float(values[name]) for name in _NUMBERS}
        grid = _grid_of(values["grid"])
        spread = torch.tensor(values["spread"], dtype=torch.float64)
        if not all(isfinite(number) for number in numbers.values()) or not bool(torch.isfinite(spread).all()):
            raise ValueError("a number is not finite")
        if tuple(spread.shape[1:]) != grid.shape or bool((spread <= 0).any()):
            raise ValueError("the spread is no positive function on its grid")
        return Calibration(**numbers, count=int(values["count"]), spread=spread, grid=grid)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path} is damaged ({reason}); run: operformer calibrate {path.parent}") from None


def _grid_values(grid: Grid) -> dict[str, Any]:
    """A grid as plain values: uniform ones need their shape only."""
    values: dict[str, Any] = {"kind": grid.kind, "bounds": [list(ends) for ends in grid.bounds]}
    if grid.axes is None:
        return values | {"points": grid.points.tolist(), "weights": grid.weights.tolist()}
    if grid.kind == "rectilinear":
        return values | {"axes": [axis.tolist() for axis in grid.axes]}
    return values | {"shape": list(grid.shape)}


def _grid_of(values: Mapping[str, Any]) -> Grid:
    bounds = [tuple(ends) for ends in values["bounds"]]
    if values["kind"] == "scattered":
        return Grid.scattered(values["points"], values["weights"], bounds)
    if values["kind"] == "rectilinear":
        return Grid.rectilinear(*values["axes"], bounds=bounds)
    if max(values["shape"]) > 2**26:
        raise UsageError("the grid is too large")
    return Grid.uniform(values["shape"], bounds, values["kind"])
