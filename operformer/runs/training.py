"""An experiment trained in a folder."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

from operformer.domain.samples import split
from operformer.operators import Operator
from operformer.problems.problem import Draws
from operformer.runs.experiment import Experiment
from operformer.runs.folder import occupy, refuse_another
from operformer.runs.pairs import training_pairs
from operformer.training.lock import locked
from operformer.training.loop import check_device, train
from operformer.training.ranks import is_first


def train_run(experiment: Experiment, folder: Path, draws: Draws | None = None) -> Operator:
    """Draw the data and train; the same folder again goes on where it stopped. Draws may be remembered ones."""
    draws = draws or Draws()
    refuse_another(experiment, folder)
    check_device(experiment.training)
    operator = experiment.make_operator()  # before the draw, which may take long: its package may be missing
    data, problem = experiment.data, experiment.problem
    started = time.monotonic()
    pairs, coarser = training_pairs(experiment, draws)
    parts = split(pairs, validation=data.validation, test=0)
    drawing = time.monotonic() - started
    with locked(folder) if is_first() else nullcontext():
        if is_first():
            occupy(experiment, folder, drawing)
        return train(
            operator,
            [*coarser, parts.train] if coarser else parts.train,
            parts.validation,
            experiment.training,
            folder,
            experiment.name,
            problem.symmetries if experiment.training.augment else (),
        )
