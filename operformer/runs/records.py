"""evaluation.json and rollout.json: plain values, read back only if they are whole and of this version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch

from operformer.domain import Grid
from operformer.errors import DataError, UsageError
from operformer.evaluation.conformal import Calibration, Coverage
from operformer.evaluation.errors import Curves, Evaluation, Images, Look, Triangles
from operformer.evaluation.face_jumps import AxisJumps, FaceJumps
from operformer.evaluation.rollout import Film, Rollout
from operformer.evaluation.spectra import ErrorSpectrum
from operformer.evaluation.standard import Outputs
from operformer.files import read_json, write_json
from operformer.operators.pretrained import check_weights, weights_hash
from operformer.settings import construct
from operformer.values import LARGEST_NUMBER

# A multiple of the training grid, a word, or another set.
_LABEL = re.compile(r"\d{1,4}(\.\d{1,9})?x|[a-z-]{0,39}[a-wyz]|[^\n]{1,255} \(set\)")


def write_evaluations(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Put the evaluations at the path in one step."""
    write_json(path, [asdict(evaluation) for evaluation in evaluations])


def read_evaluations(path: Path) -> list[Evaluation]:
    """The evaluations of a file, that on the training grid among them."""
    values = read_json(path, LARGEST_NUMBER)
    with _told_as_damage(path):
        evaluations = [_evaluation(one) for one in values]
        if "1x" not in {evaluation.label for evaluation in evaluations}:
            raise ValueError("the training grid is missing")
    return evaluations


def write_outputs(outputs: Outputs, path: Path) -> None:
    """Put mean and deviation of the training samples' outputs at the path in one step."""
    write_json(path, asdict(outputs))


def read_outputs(path: Path) -> Outputs:
    """Those of a file."""
    values = read_json(path, LARGEST_NUMBER)
    with _told_as_damage(path):
        found = construct(Outputs, _complete(Outputs, values), "outputs")
        if len(found.mean) != len(found.deviation) or not all(value > 0 for value in found.deviation):
            raise ValueError("a deviation is missing or not positive")
        return found


def write_rollout(rollout: Rollout, path: Path) -> None:
    """Put the rollout at the path in one step; infinity, which JSON does not have, is null."""
    write_json(path, rollout_values(rollout))


def rollout_values(rollout: Rollout) -> dict[str, Any]:
    """The rollout as plain values; infinity, which JSON does not have, is None."""
    values = asdict(rollout)
    for name in ("errors", "persistence", "variance_errors"):
        values[name] = [[error if isfinite(error) else None for error in step] for step in values[name]]
    return values


def read_rollout(path: Path) -> Rollout:
    """The rollout of a file."""
    values = read_json(path, LARGEST_NUMBER)
    with _told_as_damage(path):
        return rollout_of(values)


def rollout_of(values: Mapping[str, Any]) -> Rollout:
    """The rollout that plain values describe."""
    # Files of earlier versions do not have these.
    given = _complete(Rollout, {"weights": "", "variance_errors": [], "film": None, **values})
    errors, persistence = (_steps(given[name], len(given["times"])) for name in ("errors", "persistence"))
    last = None if given["spectrum"] is None else spectrum_of(given["spectrum"])
    times = {"times": given["times"], "weights": given["weights"]}
    more: dict[str, Any] = {"film": None if given["film"] is None else _film(given["film"])}
    if given["variance_errors"]:
        more["variance_errors"] = _steps(given["variance_errors"], len(errors))
    return construct(Rollout, times, "rollout", errors=errors, persistence=persistence, spectrum=last, **more)


def _film(values: Mapping[str, Any]) -> Film:
    """The film that plain values describe; its functions live on its axes."""
    film = Film(**_complete(Film, values))
    shape = tuple(_numbers(axis).size for axis in (film.times, film.x, *([film.y] if film.y else [])))
    if any(_numbers(functions).shape != shape for functions in (film.truth, film.rollout)):
        raise ValueError("a film's functions do not live on its axes")
    return film


def _steps(values: Sequence[Sequence[float | None]], count: int) -> tuple[tuple[float, ...], ...]:
    """Errors of as many samples at each step, null is infinity."""
    steps = tuple(tuple(inf if error is None else float(error) for error in step) for step in values)
    if len(steps) != count or len({len(step) for step in steps}) != 1 or not steps[0]:
        raise ValueError("errors are missing")
    return steps


@contextmanager
def _told_as_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"{path} is damaged ({error}); run: operformer evaluate {path.parent}") from None


def _evaluation(values: Mapping[str, Any]) -> Evaluation:
    nested = ("median_sample", "worst_sample", "spectrum", "jumps")
    values = {"standardised_errors": [], "weights": "", **values}  # which files of 0.1.0 do not have
    evaluation = construct(
        Evaluation,
        {key: value for key, value in _complete(Evaluation, values).items() if key not in nested},
        "evaluation",
        median_sample=look_of(values["median_sample"]),
        worst_sample=look_of(values["worst_sample"]),
        spectrum=None if values["spectrum"] is None else spectrum_of(values["spectrum"]),
        jumps=None if values["jumps"] is None else jumps_of(values["jumps"]),
    )
    if not _LABEL.fullmatch(evaluation.label) or evaluation.points < 1:
        raise ValueError("a grid has no name, or no points")
    if (
        not evaluation.errors
        or min(evaluation.errors) < 0
        or any(
            len(others) not in (0, len(evaluation.errors))
            for others in (evaluation.h1_errors, evaluation.standardised_errors)
        )
    ):
        raise ValueError("errors are missing")
    return evaluation


def spectrum_of(values: Mapping[str, Any]) -> ErrorSpectrum:
    """The spectrum that plain values describe."""
    found = construct(ErrorSpectrum, _complete(ErrorSpectrum, values), "spectrum")
    if len({len(row) for row in (found.wave_numbers, found.truth, found.prediction, found.error)}) != 1:
        raise ValueError("the rows of a spectrum differ in length")
    return found


def jumps_of(values: Mapping[str, Any]) -> FaceJumps:
    """The jumps that plain values describe."""
    along = tuple(construct(AxisJumps, _complete(AxisJumps, one), "jumps") for one in values["along"])
    return construct(FaceJumps, {"n_patches": _complete(FaceJumps, values)["n_patches"]}, "jumps", along=along)


def look_of(values: Mapping[str, Any]) -> Look:
    """The sample that plain values describe; its functions live on its axes, or on the points of its mesh."""
    kind = Triangles if "corners" in values else Images if "y" in values else Curves
    look = kind(**_complete(kind, values))
    if isinstance(look, Triangles):
        points = _checked_mesh(look)
    else:
        axes = [look.x, look.y] if isinstance(look, Images) else [look.x]
        points = tuple(_numbers(axis).size for axis in axes)
    for functions in (look.u, look.z, look.prediction):
        if _numbers(functions).shape[1:] != points:
            raise ValueError("a sample's functions do not live on its axes")
    return replace(look, error=float(look.error))


def _checked_mesh(look: Triangles) -> tuple[int, ...]:
    """How many points a mesh in the plane has, which its triangles lie between."""
    points, corners = _numbers(look.points), _numbers(look.corners)
    is_mesh = points.ndim == corners.ndim == 2 and (points.shape[1], corners.shape[1]) == (2, 3)
    if not is_mesh or corners.dtype.kind != "i" or corners.min() < 0 or corners.max() >= len(points):
        raise ValueError("a sample's mesh is missing")
    return (len(points),)


def _numbers(values: Any) -> np.ndarray:
    """The array that lists are; texts and rows of unequal length are none."""
    found = np.asarray(values)
    if found.dtype.kind not in "if":
        raise ValueError("a sample holds something else than numbers")
    return found


def _complete(kind: type, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values, if they are those of every field and no other; an earlier version had fewer."""
    names = {field.name for field in fields(kind)}
    if names != values.keys():
        raise ValueError(f"{', '.join(sorted(names ^ values.keys()))} missing, or not of this version")
    return values


_NUMBERS = ("alpha", "delta", "factor", "relative_error")


def write_calibration(calibration: Calibration, coverages: Mapping[str, Coverage], path: Path) -> None:
    """Put the calibration at the path in one step, with what was counted on test pairs, by grid."""
    values = {name: getattr(calibration, name) for name in (*_NUMBERS, "count", "weights")}
    values |= {"coverage": {label: asdict(found) for label, found in coverages.items()}}
    write_json(path, values | {"grid": _grid_values(calibration.grid), "spread": calibration.spread.tolist()})


def read_coverages(path: Path) -> dict[str, Coverage]:
    """What a calibration's file counted on test pairs, by grid."""
    values = read_json(path)
    try:
        return {
            label: construct(Coverage, _complete(Coverage, found), "coverage")
            for label, found in values["coverage"].items()
        }
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"{path} is damaged ({error}); run: operformer calibrate {path.parent}") from None


def read_calibration(path: Path) -> Calibration:
    """The calibration of a file."""
    try:
        values = read_json(path, LARGEST_NUMBER)
    except DataError as error:
        raise DataError(f"{error}; run: operformer calibrate {path.parent}") from None
    try:
        numbers = {name: float(values[name]) for name in _NUMBERS}
        grid = _grid_of(values["grid"])
        spread = torch.tensor(values["spread"], dtype=torch.float64)
        if not all(isfinite(number) for number in numbers.values()) or not bool(torch.isfinite(spread).all()):
            raise ValueError("a number is not finite")
        if tuple(spread.shape[1:]) != grid.shape or bool((spread <= 0).any()):
            raise ValueError("the spread is no positive function on its grid")
        weights = str(values.get("weights", ""))
        found = Calibration(**numbers, count=int(values["count"]), spread=spread, grid=grid, weights=weights)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path} is damaged ({reason}); run: operformer calibrate {path.parent}") from None
    if (path.parent / "operator").is_dir():
        check_weights(weights, path, weights_hash(path.parent / "operator"), f"operformer calibrate {path.parent}")
    return found


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
