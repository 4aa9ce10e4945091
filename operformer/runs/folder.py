"""The folder of a run: what it holds, and that it holds one experiment.

experiment.json  outputs.json  training.json  made.json  status.json  metrics.jsonl  checkpoints/  operator/
seconds.json  evaluation.json  gallery.npz  rollout.json (flows)  calibration.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os.path import lexists
from pathlib import Path
from typing import Any

from operformer.domain import Pairs
from operformer.errors import DataError, UsageError
from operformer.evaluation.conformal import Calibration, Coverage
from operformer.evaluation.errors import Evaluation
from operformer.evaluation.rollout import Rollout
from operformer.evaluation.standard import Outputs
from operformer.files import read_json, remove, write_json
from operformer.operators import Operator
from operformer.operators.pretrained import check_weights, load_hashed, weights_hash
from operformer.runs.experiment import Experiment, parse_stored
from operformer.runs.provenance import note_seconds, read_provenance, read_seconds, write_provenance
from operformer.runs.records import (
    read_calibration,
    read_coverages,
    read_evaluations,
    read_outputs,
    read_rollout,
    write_outputs,
)
from operformer.settings import differing
from operformer.training.checkpoint import last_epoch
from operformer.training.recipe import training_device
from operformer.training.status import read_metrics

CALIBRATED = ("calibration.json",)
EVALUATED = ("evaluation.json", "gallery.npz", "rollout.json")


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
    weights: str = ""  # the hash of those that there are, which the evaluation was made from
    is_hashed: bool = True  # whether the evaluation says so itself; those of earlier versions do not
    folder: str = ""  # its name, which is what its user calls the run
    calibration: Calibration | None = None
    coverages: Mapping[str, Coverage] = field(default_factory=dict)  # of the calibration, by grid
    outputs: Outputs | None = None  # the units of standardised errors

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


def read_run(folder: Path) -> Run:
    """The record of a run that was trained and evaluated."""
    experiment = read_experiment(folder)
    if not (folder / "evaluation.json").is_file():
        raise DataError(f"{folder} is not evaluated; run: operformer evaluate {folder}")
    evaluations = read_evaluations(folder / "evaluation.json")
    operator, weights = load_hashed(folder / "operator")
    # A link to nowhere is damage, too.
    rollout = read_rollout(folder / "rollout.json") if lexists(folder / "rollout.json") else None
    check_weights(evaluations[0].weights, folder / "evaluation.json", weights, f"operformer evaluate {folder}")
    if rollout is not None:
        check_weights(rollout.weights, folder / "rollout.json", weights, f"operformer evaluate {folder}")
    path = folder / "calibration.json"
    calibration, coverages = (read_calibration(path), read_coverages(path)) if lexists(path) else (None, {})
    metrics, clock, made = read_metrics(folder / "metrics.jsonl"), read_seconds(folder), read_provenance(folder)
    outputs = read_outputs(folder / "outputs.json") if lexists(folder / "outputs.json") else None
    is_hashed, parameters = bool(evaluations[0].weights), operator.n_parameters
    name = folder.resolve().name
    return Run(
        experiment, parameters, metrics, evaluations, rollout, clock, made, weights, is_hashed, name, calibration,
        coverages, outputs,
    )  # fmt: skip


def read_experiment(folder: Path) -> Experiment:
    """The experiment of a run's folder."""
    if not (folder / "experiment.json").is_file():
        if (folder / "training.json").is_file():
            raise DataError(
                f"{folder} was trained in Python, where the samples are; use operformer.evaluate(operator, samples) "
                "there, or train a set by operformer train; certify, predict and load take it as it is"
            )
        raise DataError(f"{folder} holds no run; train one with: operformer train EXPERIMENT --out {folder}")
    try:
        return parse_stored(read_json(folder / "experiment.json"))
    except UsageError as error:
        raise DataError(f"{folder / 'experiment.json'}: {error}") from None


def is_trained(experiment: Experiment, folder: Path) -> bool:
    """Whether the folder holds this experiment, trained to its end; another one is an error."""
    refuse_another(experiment, folder)
    return last_epoch(folder / "checkpoints") >= experiment.training.epochs


def is_evaluated(experiment: Experiment, folder: Path) -> bool:
    """The same, and evaluated with the weights that there are."""
    path = folder / "evaluation.json"
    if not is_trained(experiment, folder) or not path.is_file():
        return False
    return read_evaluations(path)[0].weights in ("", weights_hash(folder / "operator"))


def refuse_another(experiment: Experiment, folder: Path) -> None:
    """A folder holds one experiment."""
    if (folder / "experiment.json").is_file():
        # Through JSON, which turns tuples into lists.
        there, wanted = (json.loads(json.dumps(e.to_mapping())) for e in (read_experiment(folder), experiment))
        names = list(differing(there, wanted))
        if names:
            raise UsageError(f"{folder} holds another experiment ({names[0]} differs); give another --out")


def occupy(experiment: Experiment, folder: Path, train: Pairs, drawing: float) -> None:
    """From here on the folder belongs to this experiment, whose pairs took so many seconds."""
    write_json(folder / "experiment.json", experiment.to_mapping())
    if not lexists(folder / "outputs.json"):
        write_outputs(Outputs.of(train), folder / "outputs.json")
    if last_epoch(folder / "checkpoints") < experiment.training.epochs:
        drop_stale(folder)
        write_provenance(folder, training_device(experiment.training))
        note_seconds(folder, "data", drawing)


def drop_stale(folder: Path, is_unmarked_kept: bool = False) -> None:
    """Remove what was made from other weights than there are now; files of earlier versions do not say from which."""
    now = weights_now(folder)
    valid = (now, "") if is_unmarked_kept else (now,)
    for names, made in (
        (EVALUATED, lambda: read_evaluations(folder / "evaluation.json")[0].weights),
        (CALIBRATED, lambda: read_calibration(folder / "calibration.json").weights),
    ):
        try:
            is_valid = bool(now) and (folder / names[0]).is_file() and made() in valid
        except DataError:
            is_valid = False
        for name in () if is_valid else names:
            remove(folder / name)


def weights_now(folder: Path) -> str:
    """The hash of the best weights of a run, or nothing before its first epoch is done."""
    operator = folder / "operator"
    is_whole = all((operator / name).is_file() for name in ("config.json", "model.safetensors"))
    return weights_hash(operator) if is_whole else ""


def outputs_of(folder: Path, operator: Operator) -> Outputs | None:
    """Mean and deviation of the training samples' outputs; without the file the operator's own, where they are that."""
    if lexists(folder / "outputs.json"):
        return read_outputs(folder / "outputs.json")
    if operator.adds_input or operator.is_zero_at_boundary:  # which was normalised in another way
        return None
    return Outputs(tuple(operator.output_mean.tolist()), tuple(operator.output_scale.tolist()))
