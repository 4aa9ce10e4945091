"""An experiment carried out in a folder: drawn, trained, evaluated, each step leaving its file.

experiment.json  metrics.jsonl  checkpoints/  operator/  evaluation.json
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from operformer.domain import Grid
from operformer.errors import DataError, UsageError
from operformer.experiments import Experiment, parse
from operformer.files import read_bytes, read_json, write_json
from operformer.learning.evaluation import Curves, Evaluation, evaluate
from operformer.learning.samples import split
from operformer.learning.training import train
from operformer.operators import Operator, load
from operformer.problems import Problem
from operformer.problems.time_domain import TimeProblem

FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class Run:
    """What a folder holds once its experiment is trained and evaluated."""

    experiment: Experiment
    parameters: int
    metrics: list[dict[str, Any]]
    evaluations: list[Evaluation]

    def evaluation(self, label: str) -> Evaluation:
        """The evaluation of that label."""
        return next(e for e in self.evaluations if e.label == label)


def train_run(experiment: Experiment, folder: Path) -> Operator:
    """Draw the data and train; the same folder again goes on where it stopped."""
    _claim(experiment, folder)
    data = experiment.data
    samples = experiment.problem.sample(data.train + data.validation, data.resolution, data.seed)
    parts = split(samples.to(dtype=torch.float32), validation=data.validation, test=0)
    return train(
        experiment.make_operator(), parts.train, parts.validation, experiment.training, folder, experiment.name
    )


def evaluate_run(folder: Path) -> list[Evaluation]:
    """Errors on test pairs, the same draws on every grid: half to double the training resolution, irregular ones."""
    experiment, operator = read_experiment(folder), load(folder / "operator")
    data = experiment.data
    first = data.train + data.validation
    evaluations = [
        evaluate(operator, experiment.problem.sample(data.test, grid, data.seed, first=first), label)
        for label, grid in evaluation_grids(experiment.problem, data.resolution).items()
    ]
    write_json(folder / "evaluation.json", [asdict(e) for e in evaluations])
    return evaluations


def evaluation_grids(problem: Problem, resolution: int) -> dict[str, Grid]:
    """The grids of an evaluation by label: "0.5x" to "2x" are uniform, the others irregular."""
    grids = {f"{factor:g}x": problem.grid(max(1, round(factor * resolution))) for factor in FACTORS}
    if isinstance(problem, TimeProblem) and resolution % 4 == 0:
        grids["irregular"] = problem.irregular_grid(resolution)
        grids["graded"] = problem.graded_grid(resolution)
    return grids


def read_run(folder: Path) -> Run:
    """The record of a run that was trained and evaluated."""
    experiment = read_experiment(folder)
    evaluations = [_evaluation(values, folder) for values in read_json(folder / "evaluation.json")]
    lines = read_bytes(folder / "metrics.jsonl").decode().splitlines()
    parameters = sum(p.numel() for p in load(folder / "operator").parameters())
    return Run(experiment, parameters, [json.loads(line) for line in lines], evaluations)


def read_experiment(folder: Path) -> Experiment:
    """The experiment of a run's folder."""
    if not (folder / "experiment.json").is_file():
        raise DataError(f"{folder} holds no run; train one with: operformer train EXPERIMENT --out {folder}")
    try:
        return parse(read_json(folder / "experiment.json"))
    except UsageError as error:
        raise DataError(f"{folder / 'experiment.json'}: {error}") from None


def _claim(experiment: Experiment, folder: Path) -> None:
    """Write the experiment into the folder, unless another one is there."""
    wanted = experiment.to_mapping()
    if (folder / "experiment.json").is_file():
        there = read_experiment(folder).to_mapping()
        # Through JSON, which turns tuples into lists.
        differing = _differences(json.loads(json.dumps(there)), json.loads(json.dumps(wanted)))
        if differing:
            raise UsageError(f"{folder} holds another experiment ({differing[0]} differs); give another --out")
    write_json(folder / "experiment.json", wanted)


def _differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    found = []
    for key in one.keys() | other.keys():
        a, b = one.get(key), other.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += [f"{key}.{inner}" for inner in _differences(a, b)]
        elif a != b:
            found.append(key)
    return sorted(found)


def _evaluation(values: dict[str, Any], folder: Path) -> Evaluation:
    try:
        samples = {name: Curves(**values[name]) for name in ("median_sample", "worst_sample")}
        return Evaluation(**{**values, "errors": tuple(values["errors"]), **samples})
    except (TypeError, KeyError) as error:
        raise DataError(
            f"{folder / 'evaluation.json'} is damaged ({error}); run: operformer evaluate {folder}"
        ) from None
