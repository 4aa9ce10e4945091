"""Optimiser, rate and schedule of an operator, chosen by short trainings on validation samples, never on test samples.

Every operator is given the same trainings: each optimiser with each rate and each schedule. What came out and what was
chosen is kept as results/sweeps/OPERATOR.json, which the recipe same-operator reads at 416 points.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

from operformer.errors import DataError, DivergedError
from operformer.files import read_json, write_json
from operformer.problems.problem import Draws
from operformer.runs import train_run
from operformer.runs.experiment import Experiment
from operformer.runs.provenance import provenance
from operformer.training.status import read_metrics

OPTIMIZERS = ("adamw", "muon")
RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
SCHEDULES = ("one-cycle", "cosine")
# Of a recipe at the paper's size: so little that all ways of an operator are trained in minutes of one H200.
SHORT = ("data.train=400", "data.validation=100", "training.epochs=4", "training.compile=false")


@dataclass(frozen=True)
class Way:
    """One training of a sweep."""

    optimizer: str
    learning_rate: float
    schedule: str

    def of(self, experiment: Experiment) -> Experiment:
        """The experiment trained this way."""
        return replace(experiment, training=replace(experiment.training, **vars(self)))


def ways(rates: Sequence[float] = RATES) -> list[Way]:
    """All that an operator is given."""
    return [Way(*one) for one in product(OPTIMIZERS, rates, SCHEDULES)]


def sweep(experiment: Experiment, recipe: str, chosen: Sequence[Way], path: Path, tell: Callable[[str], None]) -> Way:
    """Train every way that the file has not yet, keep each at once, and choose that of the lowest validation error."""
    name, draws = experiment.operator["name"], Draws(kept=4)
    kept = _kept(path, experiment, recipe)
    rows: list[dict[str, Any]] = kept["rows"]
    for way in chosen:
        if any(all(row[key] == value for key, value in vars(way).items()) for row in rows):
            continue
        row = vars(way) | _measured(way.of(experiment), draws)
        rows.append(row)
        write_json(path, kept | {"chosen": _best(rows), "made": provenance()})
        tell(f"{name}, {way.optimizer}, {way.learning_rate:g}, {way.schedule}: {_spoken(row['validation_error'])}")
    return Way(**_best(rows))


def _kept(path: Path, experiment: Experiment, recipe: str) -> dict[str, Any]:
    """The file's sweep, if it is of the same experiment and recipe, or a new one."""
    settings = experiment.to_mapping()
    for way in vars(Way("", 0.0, "")):
        del settings["training"][way]
    new: dict[str, Any] = {"recipe": recipe, "settings": settings, "rows": []}
    if not path.is_file():
        return new
    found = read_json(path)
    if any(found.get(key) != _plain(new[key]) for key in ("recipe", "settings")):
        raise DataError(f"{path} holds the sweep of another experiment; remove it, or give another --out")
    return new | {"rows": found["rows"]}


def _plain(value: Any) -> Any:
    """As JSON gives it back, which has no tuples."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _measured(experiment: Experiment, draws: Draws) -> dict[str, Any]:
    """The lowest validation error of a training, in the norm of its loss; None if it diverged."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            train_run(experiment, Path(folder) / "run", draws)
        except DivergedError:
            return {"validation_error": None, "seconds": None}
        metrics = read_metrics(Path(folder) / "run" / "metrics.jsonl")
    error = min(line["validation_error"] for line in metrics)
    return {"validation_error": error, "seconds": round(sum(line["seconds"] for line in metrics), 1)}


def _best(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of the lowest error."""
    best = min(rows, key=lambda row: inf if row["validation_error"] is None else row["validation_error"])
    return {key: best[key] for key in vars(Way("", 0.0, ""))}


def _spoken(error: float | None) -> str:
    return "diverged" if error is None else f"validation error {error:.3%}"
