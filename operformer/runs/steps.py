"""The steps of a run: train, evaluate on every grid that its operator takes, calibrate; and the samples of each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from operformer.data.store import StoredPairs, open_pairs
from operformer.domain import Grid, Pairs, Samples
from operformer.domain.interpolation import restrict
from operformer.domain.samples import check_samples, split
from operformer.errors import DataError, DivergedError, UsageError
from operformer.evaluation.cautions import rough_gradients, warn
from operformer.evaluation.conformal import Calibration, Coverage, SpreadName, calibrate, check_request, coverage
from operformer.evaluation.errors import (
    OTHER_SET,
    Evaluation,
    assess,
    evaluate,
    partition,
    predictions,
    relative_errors,
)
from operformer.evaluation.prediction import check_fits
from operformer.evaluation.rollout import Rollout, study_rollout
from operformer.files import held, refuse_links, remove
from operformer.operators import Operator, Resampled
from operformer.operators.pretrained import check_weights, load_hashed
from operformer.problems import describe
from operformer.problems.problem import Draws
from operformer.runs.experiment import Experiment
from operformer.runs.folder import drop_stale, occupy, outputs_of, read_experiment, refuse_another
from operformer.runs.gallery import Gallery, show, write_gallery
from operformer.runs.onward import first_weights
from operformer.runs.provenance import note_seconds
from operformer.runs.records import read_evaluations, write_calibration, write_evaluations, write_rollout
from operformer.runs.trajectories import follow
from operformer.training.checkpoint import last_epoch
from operformer.training.lock import FOLDERS, locked
from operformer.training.loop import check_device, train
from operformer.training.ranks import is_first
from operformer.training.recipe import training_device

ROLLOUT_DRAWS, ROLLOUT_STEPS = 16, 10
PARTS = "lower data.train, data.validation or data.test, which it is cut into"


def train_run(experiment: Experiment, folder: Path, draws: Draws | None = None) -> Operator:
    """Draw the data and train; the same folder again goes on where it stopped. Draws may be remembered ones."""
    draws = draws or Draws()
    refuse_another(experiment, folder)
    check_device(experiment.training)
    operator = first_weights(experiment, folder)  # before the draw, which may take long: its package may be missing
    data, problem = experiment.data, experiment.problem
    started = time.monotonic()
    pairs, coarser = training_pairs(experiment, draws)
    parts = split(pairs, validation=data.validation, test=0)
    drawing = time.monotonic() - started
    with locked(folder) if is_first() else nullcontext():
        if is_first():
            occupy(experiment, folder, parts.train, drawing)
            if experiment.start and not (folder / "start" / "config.json").is_file():
                operator.save_pretrained(folder / "start")
        is_left = last_epoch(folder / "checkpoints") < experiment.training.epochs
        trained = train(
            operator,
            [*coarser, parts.train] if coarser else parts.train,
            parts.validation,
            experiment.training,
            folder,
            experiment.name,
            problem.symmetries if experiment.training.augment else (),
        )
        if is_left and is_first():
            drop_stale(folder)
        return trained


def evaluate_run(folder: Path, draws: Draws | None = None) -> list[Evaluation]:
    """Errors on test pairs, the same draws on every grid: half to double the training resolution, irregular ones.

    L2 errors are relative in physical units and in standardised ones, those of the paper's code.
    With them go samples to look at (gallery.npz) and for a flow the growth of errors in a rollout (rollout.json).
    """
    refuse_links(folder, FOLDERS)
    draws, started = draws or Draws(), time.monotonic()
    experiment, operator, weights, device = _trained(folder)
    is_periodic, outputs = experiment.problem.boundary == "periodic", outputs_of(folder, operator)
    evaluations, shown = [], {}
    for label, samples in _tests(experiment, operator, device, draws):
        check_samples(samples, "test")
        prediction = predictions(operator, samples)
        found = assess(prediction, samples, label, is_periodic, partition(operator), outputs)
        evaluations.append(replace(found, weights=weights))
        shown[label] = show(prediction, samples, torch.tensor(evaluations[-1].errors))
        h1 = evaluations[-1].h1
        if label == "1x" and h1 is not None:
            warn(rough_gradients(h1.median))
    rolled = _roll_out(operator, experiment, device, draws)
    with held(folder, create=False):
        write_gallery(Gallery(shown, weights), folder / "gallery.npz")
        if rolled is None:
            remove(folder / "rollout.json")
        else:
            write_rollout(replace(rolled, weights=weights), folder / "rollout.json")
        note_seconds(folder, "evaluation", time.monotonic() - started)
        write_evaluations(evaluations, folder / "evaluation.json")
    drop_stale(folder, is_unmarked_kept=True)  # a calibration of other weights
    return evaluations


def evaluate_on(folder: Path, other: Path) -> Evaluation:
    """Errors on another set, whose grid may be another one; a run that was evaluated keeps them beside its own.

    An operator that does not take the grid is applied to u interpolated to the nearest one that it takes.
    """
    refuse_links(folder, FOLDERS)
    experiment, operator, weights, device = _trained(folder)
    pairs = open_pairs(other)
    check_fits(operator, pairs)
    samples = pairs.read().to(device)
    operator = operator if operator.takes(samples.grid) else Resampled(operator)
    is_periodic, label = experiment.problem.boundary == "periodic", f"{other.resolve().name} {OTHER_SET}"
    found = evaluate(operator, samples, label, is_periodic, outputs=outputs_of(folder, operator))
    found = replace(found, weights=weights)
    path = folder / "evaluation.json"
    if path.is_file():
        kept = [one for one in read_evaluations(path) if one.label != label]
        check_weights(kept[0].weights, path, weights, f"operformer evaluate {folder}")
        with held(folder, create=False):
            write_evaluations([*kept, found], path)
    return found


def roll_out_on(folder: Path, other: Path) -> Rollout | None:
    """How errors grow along the trajectories of another set, on a grid that the operator takes; None without any."""
    refuse_links(folder, FOLDERS)
    experiment, operator, weights, _ = _trained(folder)
    pairs = open_pairs(other)
    check_fits(operator, pairs)
    operator = operator if operator.takes(pairs.grid) else Resampled(operator)
    found = follow(operator, pairs, experiment.problem.boundary == "periodic")
    return None if found is None else replace(found, weights=weights)


def calibrate_run(
    folder: Path, alpha: float = 0.1, delta: float = 0.05, spread: SpreadName = "rms", fresh: int | None = None
) -> tuple[Calibration, dict[str, Coverage]]:
    """A conformal band from the validation pairs or fresh draws, and how often it holds on test pairs, by grid."""
    refuse_links(folder, FOLDERS)
    experiment, operator, weights, device = _trained(folder)
    check_request(experiment.data.validation if fresh is None else fresh, alpha, delta, spread)
    found = calibrate(operator, calibration_pairs(experiment, fresh, device), alpha, delta, spread)
    found = replace(found, weights=weights)
    tests = _tests(experiment, operator, device, Draws())
    coverages = {label: coverage(found, operator, samples) for label, samples in tests}
    with held(folder, create=False):
        write_calibration(found, coverages, folder / "calibration.json")
    return found, coverages


def errors_on_tests(experiment: Experiment, operator: Operator, draws: Draws | None = None) -> list[float]:
    """Relative L2 errors of any operator on the test pairs of the training grid."""
    grid = experiment.problem.grid(experiment.data.resolution)
    (samples,) = test_pairs(experiment, [grid], operator.input_mean.device, draws or Draws())
    return list(relative_errors(operator, samples).tolist())


def _trained(folder: Path) -> tuple[Experiment, Operator, str, torch.device]:
    """The experiment of a run, its operator on the device that it was trained on, and the hash of its weights."""
    experiment = read_experiment(folder)
    if not (folder / "operator").is_dir():
        raise DataError(f"{folder} has finished no epoch yet; train it first")
    device = training_device(experiment.training)
    operator, weights = load_hashed(folder / "operator")
    return experiment, operator.to(device), weights, device


def _tests(
    experiment: Experiment, operator: Operator, device: torch.device, draws: Draws
) -> Iterator[tuple[str, Samples]]:
    """The test pairs on the training grid and on all others that the operator takes, by label."""
    grids = experiment.problem.evaluation_grids(experiment.data.resolution)
    taken = {label: grid for label, grid in grids.items() if label == "1x" or _takes(operator, grid.to(device))}
    return zip(taken, test_pairs(experiment, list(taken.values()), device, draws), strict=True)


@torch.no_grad()
def _takes(operator: Operator, grid: Grid) -> bool:
    """Whether an operator takes a grid, before anything is drawn on it."""
    try:
        operator(operator.input_mean.new_zeros(1, operator.in_channels, *grid.shape), grid)
    except UsageError:
        return False
    return True


def _roll_out(operator: Operator, experiment: Experiment, device: torch.device, draws: Draws) -> Rollout | None:
    """Draws of a flow that were not trained on, followed for some steps on the training grid."""
    data, problem = experiment.data, experiment.problem
    if not problem.has_law:
        unseen = _some(problem.stored, data.train + data.validation, data.test, PARTS)
        return follow(operator, unseen, problem.boundary == "periodic")
    found = problem.followed(ROLLOUT_STEPS)
    if found is None:
        return None
    (law, finer), times = found
    first, count, grid = data.train + data.validation, min(data.test, ROLLOUT_DRAWS), problem.grid(data.resolution)
    try:
        (samples,) = draws.readings(law, count, [grid], data.seed, device, first)
    except DivergedError:
        (samples,) = draws.readings(finer, count, [grid], data.seed, device, first)
    return study_rollout(operator, samples.u, samples.z.unsqueeze(2), samples.grid, times, is_periodic=True)


# Which samples: parts of one draw, or of one set on disk


def training_pairs(experiment: Experiment, draws: Draws) -> tuple[Pairs, list[Pairs]]:
    """The training and validation pairs, and those to train on at the coarser resolutions.

    They are drawn on the device that trains, of all resolutions together, or the first ones of a set on disk.
    """
    data, problem = experiment.data, experiment.problem
    count, device = data.train + data.validation, training_device(experiment.training)
    grids = [problem.grid(n) for n in data.coarser]
    if not problem.has_law:  # the test pairs are asked for now, not after hours of training
        stored = _some(problem.stored, 0, count + data.test, PARTS)[:count]
    elif data.folder:
        stored = open_pairs(data.folder)
        _refuse_other_draws(stored.manifest.header.origin, experiment)
        stored = _some(stored, 0, count, "lower data.train or data.validation")
    else:
        grids.append(problem.grid(data.resolution))
        *coarser, finest = draws.readings(problem, count, grids, data.seed, device, dtype=torch.float32)
        return finest, [pairs[: data.train] for pairs in coarser]
    return stored, list(draws.readings(problem, data.train, grids, data.seed, device, dtype=torch.float32))


def _some(pairs: StoredPairs, first: int, count: int, remedy: str) -> StoredPairs:
    """So many pairs of a set, from the first one on."""
    if len(pairs) < first + count:
        raise UsageError(f"{pairs.folder} holds {len(pairs)} samples, and {first + count} are asked for; {remedy}")
    return pairs[first : first + count]


def _refuse_other_draws(origin: Mapping[str, Any], experiment: Experiment) -> None:
    """A set to train on is of the experiment's law, resolution and seed."""
    data, problem = experiment.data, experiment.problem
    wanted = {"problem": describe(problem), "resolution": data.resolution, "seed": data.seed, "first": 0}
    if "problem" not in origin:
        raise UsageError(f"{data.folder} was imported; set problem.name=Imported and problem.folder={data.folder}")
    others = [key for key, value in json.loads(json.dumps(wanted)).items() if origin.get(key) != value]
    if others:
        key = others[0]
        values = "" if key == "problem" else f": {origin.get(key)} there, {wanted[key]} asked for"
        raise UsageError(f"{data.folder} holds other samples than the experiment's ({key} differs{values})")


def calibration_pairs(experiment: Experiment, fresh: int | None, device: torch.device) -> Pairs:
    """The validation pairs, or as many as asked for after those of the tests."""
    data, problem = experiment.data, experiment.problem
    first, count = (data.train, data.validation) if fresh is None else (data.train + data.validation + data.test, fresh)
    if not problem.has_law:
        remedy = "calibrate with the validation samples, or with fewer draws"
        return _some(problem.stored, first, count, remedy).read().to(device)
    return Draws().sample(problem, count, data.resolution, data.seed, device, first)


def test_pairs(experiment: Experiment, grids: Sequence[Grid], device: torch.device, draws: Draws) -> Iterator[Samples]:
    """The pairs after those of training and validation, on one grid after the other."""
    data, problem = experiment.data, experiment.problem
    first = data.train + data.validation
    if not problem.has_law:
        chosen = _some(problem.stored, first, data.test, PARTS)
        whole = chosen.read().to(device)
        return (_restricted(whole, grid.to(device)) for grid in grids)
    return draws.readings(problem.for_tests(data.resolution), data.test, grids, data.seed, device, first)


def _restricted(samples: Samples, grid: Grid) -> Samples:
    """Pairs of an imported set on its own grid, or on one of those nested in it; a query stays as it is."""
    if grid.shape == samples.grid.shape:
        return samples
    u = restrict(samples.u, samples.grid, grid)
    z = restrict(samples.z, samples.grid, grid) if samples.query is None else samples.z
    return Samples(u, z, grid, samples.query)
