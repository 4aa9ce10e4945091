"""An experiment carried out in a folder: drawn, trained, evaluated, each step leaving its file.

experiment.json  training.json  made.json  status.json  metrics.jsonl  checkpoints/  operator/  seconds.json
evaluation.json  gallery.npz  rollout.json (flows)  calibration.json
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from os.path import lexists
from pathlib import Path
from typing import Any

import torch

from operformer.data.imported import Imported
from operformer.data.store import StoredPairs, open_pairs
from operformer.domain import Grid
from operformer.domain.grading import graded_grid
from operformer.domain.restriction import nested_grids, restrict
from operformer.errors import DataError, DivergedError, UsageError
from operformer.experiments import Experiment, parse
from operformer.files import read_json, write_json
from operformer.learning.calibration_file import write_calibration
from operformer.learning.checkpoint import last_epoch
from operformer.learning.conformal import Calibration, Coverage, SpreadName, calibrate, check_request, coverage
from operformer.learning.evaluation import Evaluation, assess, partition, predictions, relative_errors
from operformer.learning.gallery import Gallery, show, write_gallery
from operformer.learning.lock import locked
from operformer.learning.metrics import read_metrics
from operformer.learning.provenance import note_seconds, read_provenance, read_seconds, write_provenance
from operformer.learning.ranks import is_first
from operformer.learning.recipe import training_device
from operformer.learning.records import read_evaluations, read_rollout, write_evaluations, write_rollout
from operformer.learning.rollout import Rollout, study_rollout
from operformer.learning.samples import check_samples, split
from operformer.learning.training import check_device, train
from operformer.operators import Operator, load
from operformer.operators.counting import count_parameters
from operformer.problems import Darcy, Kolmogorov, Pairs, Problem, Samples
from operformer.problems.catalogue import describe
from operformer.problems.draws import Draws
from operformer.problems.time_domain import TimeProblem
from operformer.settings import differing

FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
EVALUATED = ("evaluation.json", "gallery.npz", "rollout.json", "calibration.json")
ROLLOUT_DRAWS, ROLLOUT_STEPS = 16, 10


@dataclass(frozen=True)
class Run:
    """What a folder holds once its experiment is trained and evaluated."""

    experiment: Experiment
    parameters: int
    metrics: list[dict[str, Any]]
    evaluations: list[Evaluation]
    rollout: Rollout | None = None  # of a flow, whose map can be applied again and again
    clock: Mapping[str, float] = field(default_factory=dict)  # seconds of what is no epoch: data, evaluation
    made: Mapping[str, Any] = field(default_factory=dict)  # versions, commit and device of the training

    @property
    def seconds(self) -> float:
        """How long its epochs took, validation included; of an epoch that was stopped, what came after."""
        return float(sum(record.get("seconds", 0.0) for record in self.metrics))

    def evaluation(self, label: str) -> Evaluation:
        """The evaluation of that label."""
        for evaluation in self.evaluations:
            if evaluation.label == label:
                return evaluation
        raise DataError(f"the run {self.experiment.name} was not evaluated on the grid {label}; evaluate it again")


def train_run(experiment: Experiment, folder: Path, draws: Draws | None = None) -> Operator:
    """Draw the data and train; the same folder again goes on where it stopped. Draws may be remembered ones."""
    draws = draws or Draws()
    _refuse_another(experiment, folder)
    check_device(experiment.training)
    operator = experiment.make_operator()  # before the draw, which may take long: its package may be missing
    data, problem = experiment.data, experiment.problem
    device, started = training_device(experiment.training), time.monotonic()
    parts = split(_pairs(experiment, draws), validation=data.validation, test=0)
    coarser = [draws.sample(problem, data.train, n, data.seed, device) for n in data.coarser]
    drawing = time.monotonic() - started
    with locked(folder) if is_first() else nullcontext():
        if is_first():
            _occupy(experiment, folder, drawing)
        return train(
            operator,
            [*coarser, parts.train] if coarser else parts.train,
            parts.validation,
            experiment.training,
            folder,
            experiment.name,
            problem.symmetries if experiment.training.augment else (),
        )


def _pairs(experiment: Experiment, draws: Draws) -> Pairs:
    """The training and validation pairs: drawn on the device that trains, or the first ones of a set on disk."""
    data, problem = experiment.data, experiment.problem
    count = data.train + data.validation
    if isinstance(problem, Imported):
        return _some(problem.pairs(), 0, count, problem.folder)
    if data.folder:
        stored = open_pairs(data.folder)
        _refuse_other_draws(stored.manifest.header.origin, experiment)
        return _some(stored, 0, count, data.folder)
    device = training_device(experiment.training)
    return draws.sample(problem, count, data.resolution, data.seed, device)


def _some(pairs: StoredPairs, first: int, count: int, folder: str) -> StoredPairs:
    """So many pairs of a set, from the first one on."""
    if len(pairs) < first + count:
        raise UsageError(f"{folder} holds {len(pairs)} pairs, and {first + count} are asked for; lower data.train")
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
        raise UsageError(f"{data.folder} holds other pairs than the experiment's ({key} differs{values})")


def _occupy(experiment: Experiment, folder: Path, drawing: float) -> None:
    """From here on the folder belongs to this experiment, whose pairs took so many seconds."""
    write_json(folder / "experiment.json", experiment.to_mapping())
    if last_epoch(folder / "checkpoints") < experiment.training.epochs:
        # What was evaluated is about to be trained on.
        for name in EVALUATED:
            (folder / name).unlink(missing_ok=True)
        write_provenance(folder)
        note_seconds(folder, "data", drawing)


def evaluate_run(folder: Path, draws: Draws | None = None) -> list[Evaluation]:
    """Errors on test pairs, the same draws on every grid: half to double the training resolution, irregular ones.

    With them go samples to look at (gallery.npz) and for a flow the growth of errors in a rollout (rollout.json).
    """
    draws, started = draws or Draws(), time.monotonic()
    experiment, operator, device = _trained(folder)
    is_periodic = experiment.problem.boundary == "periodic"
    evaluations, shown = [], {}
    for label, samples in _tests(experiment, operator, device, draws):
        check_samples(samples, "test")
        prediction = predictions(operator, samples)
        evaluations.append(assess(prediction, samples, label, is_periodic, partition(operator)))
        shown[label] = show(prediction, samples, torch.tensor(evaluations[-1].errors))
    rolled = _roll_out(operator, experiment, device, draws)
    write_gallery(Gallery(shown), folder / "gallery.npz")
    if rolled is None:
        (folder / "rollout.json").unlink(missing_ok=True)
    else:
        write_rollout(rolled, folder / "rollout.json")
    note_seconds(folder, "evaluation", time.monotonic() - started)
    write_evaluations(evaluations, folder / "evaluation.json")
    return evaluations


def calibrate_run(
    folder: Path, alpha: float = 0.1, delta: float = 0.05, spread: SpreadName = "rms", fresh: int | None = None
) -> tuple[Calibration, dict[str, Coverage]]:
    """A conformal band from the validation pairs or fresh draws, and how often it holds on test pairs, by grid."""
    experiment, operator, device = _trained(folder)
    check_request(experiment.data.validation if fresh is None else fresh, alpha, delta, spread)
    found = calibrate(operator, _calibration_pairs(experiment, fresh, device), alpha, delta, spread)
    tests = _tests(experiment, operator, device, Draws())
    coverages = {label: coverage(found, operator, samples) for label, samples in tests}
    write_calibration(found, coverages, folder / "calibration.json")
    return found, coverages


def errors_on_tests(experiment: Experiment, operator: Operator) -> list[float]:
    """Relative L2 errors of any operator on the test pairs of the training grid."""
    grid = experiment.problem.grid(experiment.data.resolution)
    (samples,) = _test_pairs(experiment, [grid], operator.input_mean.device, Draws())
    return list(relative_errors(operator, samples).tolist())


def _calibration_pairs(experiment: Experiment, fresh: int | None, device: torch.device) -> Pairs:
    """The validation pairs, or as many as asked for after those of the tests."""
    data, problem = experiment.data, experiment.problem
    first, count = (data.train, data.validation) if fresh is None else (data.train + data.validation + data.test, fresh)
    if isinstance(problem, Imported):
        return _some(problem.pairs(), first, count, problem.folder).read().to(device)
    return Draws().sample(problem, count, data.resolution, data.seed, device, first)


def _trained(folder: Path) -> tuple[Experiment, Operator, torch.device]:
    """The experiment of a run, and its operator on the device that it was trained on."""
    experiment = read_experiment(folder)
    if not (folder / "operator").is_dir():
        raise DataError(f"{folder} has finished no epoch yet; train it first")
    device = training_device(experiment.training)
    return experiment, load(folder / "operator").to(device), device


def _tests(
    experiment: Experiment, operator: Operator, device: torch.device, draws: Draws
) -> Iterator[tuple[str, Samples]]:
    """The test pairs on the training grid and on all others that the operator takes, by label."""
    grids = evaluation_grids(experiment.problem, experiment.data.resolution)
    taken = {label: grid for label, grid in grids.items() if label == "1x" or _takes(operator, grid.to(device))}
    return zip(taken, _test_pairs(experiment, list(taken.values()), device, draws), strict=True)


def _test_pairs(experiment: Experiment, grids: Sequence[Grid], device: torch.device, draws: Draws) -> Iterator[Samples]:
    """The pairs after those of training and validation, on one grid after the other."""
    data, problem = experiment.data, experiment.problem
    first = data.train + data.validation
    if isinstance(problem, Imported):
        chosen = _some(problem.pairs(), first, data.test, problem.folder)
        whole = chosen.read().to(device)
        return (_restricted(whole, grid.to(device)) for grid in grids)
    if isinstance(problem, Darcy) and not problem.read_from:
        # The truth off uniform grids is read from a finer solution: it needs to be so much finer, and no more.
        n = data.resolution
        problem = replace(problem, fine=max(2 * n + 1, min(problem.fine, 4 * n + 1)))
    return draws.readings(problem, data.test, grids, data.seed, device, first)


def _restricted(samples: Samples, grid: Grid) -> Samples:
    """Pairs of an imported set on its own grid, or on one of those nested in it."""
    if grid.shape == samples.grid.shape:
        return samples
    u, z = (restrict(values, samples.grid, grid) for values in (samples.u, samples.z))
    return Samples(u, z, grid)


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
    if not isinstance(problem, Kolmogorov) or problem.moments != 1:
        return None
    followed, first = replace(problem, moments=ROLLOUT_STEPS), data.train + data.validation
    grid, count = problem.grid(data.resolution), min(data.test, ROLLOUT_DRAWS)
    try:
        (samples,) = draws.readings(followed, count, [grid], data.seed, device, first)
    except DivergedError:
        # Eddies get smaller as time goes on: what resolves the pairs may not resolve what follows.
        finer = replace(followed, n_modes=Kolmogorov.n_modes, step=Kolmogorov.step)
        (samples,) = draws.readings(finer, count, [grid], data.seed, device, first)
    times = [step * problem.lead for step in range(1, ROLLOUT_STEPS + 1)]
    return study_rollout(operator, samples.u, samples.z.unsqueeze(2), samples.grid, times, is_periodic=True)


def evaluation_grids(problem: Problem, resolution: int) -> dict[str, Grid]:
    """The grids of an evaluation by label: "0.5x" to "2x" are uniform, the others irregular.

    Of an imported set the truth is known on its own grid, and on coarser ones whose points are among its own.
    """
    if isinstance(problem, Imported):
        own = problem.grid(resolution)
        nested = {f"{1 / k:.3g}x": grid for k, grid in nested_grids(own).items()}
        return dict(reversed(nested.items())) | {"1x": own}
    grids = {f"{factor:g}x": problem.grid(max(1, round(factor * resolution))) for factor in FACTORS}
    if isinstance(problem, TimeProblem) and resolution % 4 == 0:
        grids["irregular"] = problem.irregular_grid(resolution)
        grids["graded"] = problem.graded_grid(resolution)
    if isinstance(problem, Darcy | Kolmogorov):
        grids["graded"] = graded_grid(problem.grid(resolution))
    return grids


def read_run(folder: Path) -> Run:
    """The record of a run that was trained and evaluated."""
    experiment = read_experiment(folder)
    if not (folder / "evaluation.json").is_file():
        raise DataError(f"{folder} is not evaluated; run: operformer evaluate {folder}")
    evaluations = read_evaluations(folder / "evaluation.json")
    parameters = count_parameters(load(folder / "operator"))
    # A link to nowhere is damage, too.
    rollout = read_rollout(folder / "rollout.json") if lexists(folder / "rollout.json") else None
    metrics, clock, made = read_metrics(folder / "metrics.jsonl"), read_seconds(folder), read_provenance(folder)
    return Run(experiment, parameters, metrics, evaluations, rollout, clock, made)


def read_experiment(folder: Path) -> Experiment:
    """The experiment of a run's folder."""
    if not (folder / "experiment.json").is_file():
        raise DataError(f"{folder} holds no run; train one with: operformer train EXPERIMENT --out {folder}")
    try:
        return parse(read_json(folder / "experiment.json"))
    except UsageError as error:
        raise DataError(f"{folder / 'experiment.json'}: {error}") from None


def is_trained(experiment: Experiment, folder: Path) -> bool:
    """Whether the folder holds this experiment, trained to its end; another one is an error."""
    _refuse_another(experiment, folder)
    return last_epoch(folder / "checkpoints") >= experiment.training.epochs


def is_evaluated(experiment: Experiment, folder: Path) -> bool:
    """The same, and evaluated."""
    return is_trained(experiment, folder) and (folder / "evaluation.json").is_file()


def _refuse_another(experiment: Experiment, folder: Path) -> None:
    """A folder holds one experiment."""
    if (folder / "experiment.json").is_file():
        # Through JSON, which turns tuples into lists.
        there, wanted = (json.loads(json.dumps(e.to_mapping())) for e in (read_experiment(folder), experiment))
        names = list(differing(there, wanted))
        if names:
            raise UsageError(f"{folder} holds another experiment ({names[0]} differs); give another --out")
