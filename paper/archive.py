"""results/RECIPE/NAME[-seed-K].json: the record of a run at the paper's size, small enough to be kept with the code.

The format is that of results.json, without spectra. Errors of single samples have four digits, those in H1 are there
for the training grid; of every grid and norm there is a summary. The samples that figures of Section 6 show are packed
(samples.py).
"""

# DESIGN.md: Records are what RESULTS.md is made of

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import Any

from operformer.errors import DataError, OperformerError, UsageError
from operformer.evaluation.errors import Summary, evaluate, summarise
from operformer.files import read_json, write_bytes
from operformer.operators import load
from operformer.problems.problem import Draws
from operformer.runs import Run, read_run
from operformer.runs.experiment import parse_stored
from operformer.runs.steps import test_pairs
from operformer.training.recipe import training_device
from paper.catalogue import Recipe
from paper.recipes import RECORDED, check_recipe
from paper.record import VERSION, Measured, Record, measured_of, record_from, record_of, record_values
from paper.samples import pack_looks, rounded, unpack_looks
from paper.studies import pictured_grids

FRESH, FRESH_SEED = 500, 1_000_000  # how many fresh samples, and how far their seed is from that of all others
DIGITS = 4
CLOSE = 1e-3  # a summary is that of errors of four digits
Archive = dict[Recipe, dict[str, list[Record]]]  # the seeds of a run under its name
_SUMMARY = {"median", "mean", "worst"}


def record_run(folder: Path, recipe: Recipe, fresh: int = 0) -> Record:
    """What is kept of a run that was trained to its end and evaluated, if it follows the recipe.

    With errors on so many fresh samples, if any are asked for.
    """
    run = read_run(folder)
    experiment, epochs = run.experiment, [line["epoch"] for line in run.metrics]
    if experiment.training.epochs not in epochs:
        raise DataError(f"{folder} is at epoch {max(epochs, default=0)} of {experiment.training.epochs}; train it on")
    if "started" not in run.made:
        raise DataError(f"{folder} does not say what it was trained with (made.json); train it again by a command")
    check_recipe(experiment, recipe)
    measured = on_fresh_samples(run, folder, fresh) if fresh else None
    return replace(record_of(run, pictured_grids(experiment.name)), recipe=recipe, fresh=measured)


def on_fresh_samples(run: Run, folder: Path, count: int) -> Measured:
    """Errors on samples of another seed, on the training grid: the fixed tests were read while recipes were made."""
    experiment = run.experiment
    operator = load(folder / "operator").to(training_device(experiment.training))
    grid = experiment.problem.grid(experiment.data.resolution)
    drawn = replace(experiment, data=replace(experiment.data, seed=experiment.data.seed + FRESH_SEED, test=count))
    (samples,) = test_pairs(drawn, [grid], operator.input_mean.device, Draws())
    return measured_of(evaluate(operator, samples, "1x", outputs=run.outputs))


def keep(record: Record, folder: Path, is_replaced: bool = False) -> Path:
    """Put a record into the folder; another run's of the same name stays, unless it is to be replaced."""
    path = folder / record.recipe / f"{file_name(record)}.json"
    if path.exists() and not is_replaced and not _is_same(read_record(path), record):
        raise UsageError(f"{path} is the record of another run; give --replace, or another training.seed")
    text = _text(_values(record))
    _record(json.loads(text), path)  # what could not be read is not written
    write_bytes(path, text.encode())
    return path


def amend(path: Path, outputs: Mapping[str, Any], standardised: Sequence[float]) -> None:
    """Add standardised errors on the training grid to the record of a file; all else stays to the last digit."""
    values = read_json(path)
    (there,) = (one for one in values["measured"] if one["label"] == "1x")
    there |= {"standardised_errors": rounded(standardised, DIGITS), "standardised": asdict(summarise(standardised))}
    text = _text(values | {"outputs": outputs})
    _record(json.loads(text), path)
    write_bytes(path, text.encode())


def read_archive(folder: Path) -> Archive:
    """All records of a folder, by recipe and by run, seeds in order."""
    found: Archive = {recipe: {} for recipe in RECORDED}
    for recipe in RECORDED:
        for path in sorted((folder / recipe).glob("*.json")):
            record = read_record(path)
            if (record.recipe, file_name(record)) != (recipe, path.stem):
                raise DataError(f"{path} holds {file_name(record)} of the recipe {record.recipe}; move it there")
            found[recipe].setdefault(record.settings["name"], []).append(record)
    return {recipe: {n: sorted(seeds, key=_seed) for n, seeds in runs.items()} for recipe, runs in found.items()}


def is_archive(folder: Path) -> bool:
    """Whether a folder is one of records."""
    return any((folder / recipe).is_dir() for recipe in RECORDED) and not (folder / "experiment.json").exists()


def read_record(path: Path) -> Record:
    """The record of a file, if it is whole, of this version, and as its recipe demands."""
    return _record(read_json(path), path)


def _record(values: Any, path: Path) -> Record:
    try:
        if values["version"] != VERSION:
            raise ValueError(f"it is of version {values['version']}, not {VERSION}")
        given = {key: value for key, value in values.items() if key not in ("version", "changes")}
        fresh = values.get("fresh") and _measured(values["fresh"])
        measured = [_measured(one) for one in values["measured"]]
        record = record_from(given | {"measured": measured, "fresh": fresh, "looks": {}})
        record = replace(record, looks=unpack_looks(values.get("looks", {})))
        return replace(record, changes=_check(record))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        reason = error if isinstance(error, OperformerError) else f"{type(error).__name__}: {error}"
        raise DataError(f"{path} is no record of a run ({reason}); make it again: python -m paper record RUN") from None


def file_name(record: Record) -> str:
    """The run's name and, if it is not 0, the seed of its training."""
    seed = _seed(record)
    return f"{record.settings['name']}-seed-{seed}" if seed else str(record.settings["name"])


def _seed(record: Record) -> int:
    return int(record.settings["training"]["seed"])


def _is_same(one: Record, other: Record) -> bool:
    """Evaluated or recorded again: the same settings, started at the same time."""
    plain = [json.loads(json.dumps(dict(record.settings))) for record in (one, other)]
    return plain[0] == plain[1] and one.made["started"] == other.made["started"]


def _values(record: Record) -> dict[str, Any]:
    values = {"version": VERSION} | record_values(replace(record, looks={})) | {"looks": pack_looks(record.looks)}
    del values["changes"]
    values["measured"] = [_measured_values(there) for there in record.measured]
    values["fresh"] = record.fresh and _measured_values(record.fresh)
    values["curve"] = rounded(record.curve, DIGITS)
    if values["rollout"]:
        values["rollout"] = rounded(values["rollout"], DIGITS) | {"spectrum": None}
    return values


def _measured_values(there: Measured) -> dict[str, Any]:
    """Errors of single samples in other norms are kept of the training grid; of each grid there is a summary."""
    values = {"label": there.label, "points": there.points, "errors": rounded(there.errors, DIGITS)}
    for name, errors in (("h1_errors", there.h1_errors), ("standardised_errors", there.standardised_errors)):
        values[name] = rounded(errors, DIGITS) if there.label == "1x" else []
    values["jumps"] = there.jumps and asdict(there.jumps)
    return values | {name: found and asdict(found) for name, found in _summaries(there).items()}


def _summaries(there: Measured) -> dict[str, Summary | None]:
    return {"l2": there.l2, "h1": there.h1, "standardised": there.standardised}


def _measured(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a grid as `record_from` takes them, after the summary was compared with the errors."""
    values = {"standardised_errors": [], "standardised": None, **values}  # which records of 0.1.0 do not have
    kept = {key: value for key, value in values.items() if key not in ("l2", "h1", "standardised")}
    listed = {key: tuple(kept[key]) for key in ("errors", "h1_errors", "standardised_errors")}
    there = Measured(
        kept["label"], kept["points"], listed["errors"], listed["h1_errors"],
        standardised_errors=listed["standardised_errors"],
    )  # fmt: skip
    if not all(isinstance(e, int | float) and isfinite(e) and e >= 0 for errors in listed.values() for e in errors):
        raise ValueError(f"an error on the grid {there.label} is no number")
    for name, found in _summaries(there).items():
        said = values[name]
        if said is not None and said.keys() != _SUMMARY:
            raise ValueError(f"the summary {name} on the grid {there.label} is not of {', '.join(sorted(_SUMMARY))}")
        for key in _SUMMARY if found else ():
            if abs(said[key] - getattr(found, key)) > CLOSE * said[key]:
                raise ValueError(f"the {key} of {name} on the grid {there.label} is not that of its samples")
    return kept | {"spectrum": None, "h1_summary": values["h1"], "standardised_summary": values["standardised"]}


def _check(record: Record) -> Mapping[str, tuple[Any, Any]]:
    """What differs from the authors' run; a setting that is newer than the record has its default on both sides."""
    experiment = parse_stored(record.settings)
    if record.recipe not in RECORDED:
        raise ValueError(f"recipe is {record.recipe!r}, not {' or '.join(RECORDED)}")
    changes = check_recipe(experiment, record.recipe)
    if any(len(there.errors) != experiment.data.test for there in (record.trained, *record.measured)):
        raise ValueError(f"there are not errors of {experiment.data.test} test samples")
    if len(record.trained.standardised_errors) not in (0, experiment.data.test):
        raise ValueError(f"there are not standardised errors of {experiment.data.test} test samples")
    for label, (median, worst) in record.looks.items():
        _check_samples(record.on(label), median.error, worst.error)
    for name in ("started", "commit", "is_clean", "device", "torch"):
        record.made[name]
    for name in ("data", "evaluation"):
        float(record.clock[name])
    float(record.seconds), int(record.parameters), int(record.operations)
    return changes


def _check_samples(there: Measured | None, median: float, worst: float) -> None:
    """That pictures of such errors are of samples that were measured there."""
    if there is None:
        raise ValueError("there are pictures of a grid without errors")
    if abs(worst - there.l2.worst) > CLOSE * worst or min(abs(e - median) for e in there.errors) > CLOSE * median:
        raise ValueError(f"the pictures on the grid {there.label} are of no sample there")


def _text(values: Mapping[str, Any]) -> str:
    """JSON with a line for each setting and one for each list of numbers."""
    text = json.dumps(values, indent=1, allow_nan=False)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\n *", "", found[0]), text) + "\n"
