"""A trained run as a model that comes with the library: operformer/models/NAME, which `operformer.load` finds."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from operformer.errors import DataError, UsageError
from operformer.experiments import Experiment
from operformer.files import write_bytes
from operformer.learning.evaluation import summarise
from operformer.learning.recipe import training_device
from operformer.operators import Operator, load
from operformer.operators.pretrained import SHIPPED
from operformer.problems.draws import Draws
from operformer.report.card import card, read_front_matter
from operformer.report.tables import Table, percent
from operformer.run import errors_on_tests, read_run

MOST = 20 * 10**6  # bytes of all models together
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


def ship(folder: Path, name: str, models: Path = SHIPPED) -> Path:
    """Put the operator of an evaluated run, its settings and its card into models/NAME; on the device that trained it.

    Weights are stored in float16 if the errors on the test pairs stay the same to three digits.
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
    write_bytes(models / name / "README.md", card(run, name, loader="load").encode())
    return models / name


def stored(experiment: Experiment, operator: Operator) -> dict[str, Tensor]:
    """What is written of an operator: its parameters in float16 where that changes no error, else all as it is."""
    own = {key: t.clone() for key, t in operator.state_dict().items()}
    parameters = {key for key, _ in operator.named_parameters()}
    half = {key: t.to(torch.float16) if key in parameters else t for key, t in own.items()}
    if own["input_mean"].dtype != torch.float32:
        return own
    draws = Draws(kept=1)  # twice the same pairs
    before = _digits(experiment, operator, draws)
    operator.load_state_dict(half)
    after = _digits(experiment, operator, draws)
    operator.load_state_dict(own)
    return half if before == after else own


def _digits(experiment: Experiment, operator: Operator, draws: Draws) -> list[str]:
    """Median, mean and worst error on the test pairs, to three digits."""
    found = summarise(errors_on_tests(experiment, operator, draws))
    return [f"{error:.3g}" for error in (found.median, found.mean, found.worst)]


def model_table(models: Path = SHIPPED) -> Table:
    """The models that come with the library: what they map, what they were trained on, their errors and sizes."""
    header = ("model", "maps", "operator", "parameters", "trained on", "median", "worst", "size")
    rows = []
    for path in sorted(models.glob("*/README.md")):
        try:
            said = read_front_matter(path)["operformer"]
            errors = (percent(said["median"]), percent(said["worst"]))
            what = (said["maps"], said["operator"], f"{said['parameters']:,}", said["trained"])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path} says too little of its model ({error!r}); ship it again") from None
        size = sum(file.stat().st_size for file in path.parent.iterdir())
        rows.append((path.parent.name, *what, *errors, f"{size / 1e6:.2f} MB"))
    return Table('Models: operformer.load("NAME")', header, tuple(rows))
