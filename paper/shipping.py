"""A trained run as a model that comes with the library: operformer/models/NAME, which `operformer.load` finds."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from operformer.errors import UsageError
from operformer.evaluation.errors import summarise
from operformer.files import write_bytes
from operformer.operators import Operator, load
from operformer.operators.pretrained import SHIPPED, weights_hash
from operformer.problems.problem import Draws
from operformer.runs import errors_on_tests, read_run
from operformer.runs.experiment import Experiment
from operformer.sharing.card import card
from operformer.training.recipe import training_device

MOST = 20 * 10**6  # bytes of all models together
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


def ship(folder: Path, name: str, models: Path = SHIPPED) -> Path:
    """Put the operator of an evaluated run, its settings and its card into models/NAME; on the device that trained it.

    Weights are stored in float16 if the errors on the test samples stay the same to three digits.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"a model's name has small letters, digits and dashes, such as lorenz-tno: got {name!r}")
    run = read_run(folder)
    operator = load(folder / "operator").to(training_device(run.experiment.training))
    weights = stored(run.experiment, operator)
    size = sum(t.numel() * t.element_size() for t in weights.values())
    others = sum(path.stat().st_size for path in models.glob("*/*") if path.parent.name != name)
    if others + size > MOST:
        raise UsageError(f"the models would have {(others + size) / 1e6:.1f} MB together; at most {MOST / 1e6:.0f} are")
    operator.save_pretrained(models / name, weights)
    text = card(run, name, licence="mit", loader="load", weights=weights_hash(models / name))
    write_bytes(models / name / "README.md", text.encode())
    return models / name


def stored(experiment: Experiment, operator: Operator) -> dict[str, Tensor]:
    """What is written of an operator: its parameters in float16 where that changes no error, else all as it is."""
    own = {key: t.clone() for key, t in operator.state_dict().items()}
    parameters = {key for key, _ in operator.named_parameters()}
    half = {key: t.to(torch.float16) if key in parameters else t for key, t in own.items()}
    if own["input_mean"].dtype != torch.float32:
        return own
    draws = Draws(kept=1)  # twice the same samples
    before = _digits(experiment, operator, draws)
    operator.load_state_dict(half)
    after = _digits(experiment, operator, draws)
    operator.load_state_dict(own)
    return half if before == after else own


def _digits(experiment: Experiment, operator: Operator, draws: Draws) -> list[str]:
    """Median, mean and worst error on the test samples, to three digits."""
    found = summarise(errors_on_tests(experiment, operator, draws))
    return [f"{error:.3g}" for error in (found.median, found.mean, found.worst)]
