"""Trainings that begin with trained weights: further cycles of a run, and fine-tuning on other samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from operformer.errors import UsageError
from operformer.files import write_json
from operformer.operators import Operator, load
from operformer.runs.experiment import Experiment, trained_place
from operformer.runs.folder import is_trained, read_experiment, weights_now
from operformer.training.checkpoint import last_epoch
from operformer.training.lock import locked
from operformer.training.status import read_metrics


def is_run(source: str) -> bool:
    """Whether it is the folder of a run."""
    return (Path(source) / "experiment.json").is_file()


def continued(folder: Path, more: int | None) -> Experiment:
    """The experiment of a run, with so many epochs more in a fresh cycle from its best weights, if any are asked for.

    A cycle of that many epochs that has begun is not added again.
    """
    experiment = read_experiment(folder)
    if more is None:
        return experiment
    if more < 1:
        raise UsageError(f"--more must be at least one epoch: got {more}")
    training = experiment.training
    begin, end = training.cycle(training.epochs - 1)
    if not is_trained(experiment, folder):
        if begin and end - begin == more:
            return experiment
        raise UsageError(f"{folder} is not trained to its end; resume it first: operformer train {folder}")
    longer = replace(training, epochs=end + more, restarts=(*training.restarts, end))
    found = replace(experiment, training=longer)
    with locked(folder):
        write_json(folder / "experiment.json", found.to_mapping())
    return found


def standing(folder: Path) -> tuple[int, str]:
    """How many epochs of a run are done, and the hash of its best weights; zero and nothing of a new one."""
    return last_epoch(folder / "checkpoints"), weights_now(folder)


def outcome(folder: Path, epochs: int, weights: str) -> str:
    """What a training came to, beginning after so many epochs with these best weights, in words."""
    if epochs and last_epoch(folder / "checkpoints") == epochs:
        count = f"{epochs} epoch{'s' if epochs > 1 else ''}"
        return f"was trained before ({count}); operformer train {folder} --more N trains longer"
    if weights and weights == weights_now(folder):
        best = min(read_metrics(folder / "metrics.jsonl"), key=lambda record: record["validation_error"])
        return f"trained: {folder}; no better epoch: the best stays epoch {best['epoch']}"
    return f"trained: {folder}; next: operformer evaluate {folder}"


def first_weights(experiment: Experiment, folder: Path) -> Operator:
    """The operator that a training begins with; a trained one is copied into the run, which then needs nothing else."""
    operator = experiment.make_operator()
    if not experiment.start:
        return operator
    kept = folder / "start"
    found = load(kept if (kept / "config.json").is_file() else trained_place(experiment.start))
    if found.description != operator.description:
        raise UsageError(
            f"{experiment.start} takes other channels or has other settings than the experiment's operator; leave its "
            "settings out, and train on samples with as many channels"
        )
    return found
