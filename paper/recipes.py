"""How a run is trained: the experiment of a row of the catalogue under each recipe, and what a recipe may change.

"same-operator": the paper's data and operator, no augmentation; optimiser, schedule, epochs, batches and precision are
ours, since the authors' 80 to 100 epochs take days. "best": the same number of samples and the same tests; operator and
training are free.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from operformer.errors import ResourceError, UsageError
from operformer.files import read_json
from operformer.runs.experiment import Experiment, changed
from operformer.settings import differing
from operformer.training.recipe import Training
from paper.catalogue import FLOW, LI, LOGNORMAL, LOW, PIECEWISE, Recipe, Row, find_row

RECORDED: tuple[Recipe, ...] = ("same-operator", "best")  # those whose results are kept
# What may differ from the catalogue's row. Test samples follow those of training and validation in the same draw, so
# with law, seed and counts fixed nothing of a test can have been trained on.
_FREE: dict[Recipe, tuple[str, ...]] = {
    "same-operator": ("training.", "data.folder"),
    "best": ("training.", "operator.", "data.folder", "data.coarser"),
}


def find_run(name: str, recipe: Recipe = "smoke", overrides: Sequence[str] = ()) -> Experiment:
    """The run of a name in the catalogue by one of its recipes, changed by overrides such as "training.epochs=5"."""
    row = find_row(name)
    if recipe not in row.recipes:
        raise UsageError(f"{name} has no recipe {recipe}; it has {', '.join(row.recipes)}")
    return changed(train_as(row, recipe).to_mapping(), overrides)


def train_as(row: Row, recipe: Recipe) -> Experiment:
    """The row's run by a recipe that it has."""
    if recipe == "best":
        return _best(row)
    if recipe == "same-operator":
        return _ours(row)
    chosen = row.authors if recipe == "authors" else row.smoke
    if chosen is None:
        raise UsageError(f"{row.name} has no recipe {recipe}; it has {', '.join(row.recipes)}")
    return chosen


def check_recipe(experiment: Experiment, recipe: Recipe) -> dict[str, tuple[Any, Any]]:
    """What differs from the authors' run, as (there, here); refused if the recipe forbids it.

    "same-operator" fixes law, samples, resolution and operator, and knows no augmentation; "best" fixes law, samples
    and resolution of the tests.
    """
    row = find_row(experiment.name)
    if recipe not in row.recipes and row.recipes == ("best",):
        raise UsageError(f"{experiment.name} is no run of the paper; give --recipe best")
    found = differing(plain(row.authors), plain(experiment))
    for key, (there, here) in found.items():
        is_moved = key == "training.augment" and recipe == "same-operator"
        if is_moved or not key.startswith(_FREE[recipe]):
            said = f"{key} is {here!r} where the catalogue has {there!r}"
            raise UsageError(f"{experiment.name} does not follow the recipe {recipe}: {said}; train it again")
    return found


def plain(experiment: Experiment) -> dict[str, Any]:
    """The experiment as JSON has it, all settings of its operator among them."""
    values = experiment.to_mapping()
    try:
        with torch.device("meta"):
            operator = experiment.make_operator()
            values["operator"] = {"name": operator.kind, "wrappers": list(operator.wrappers), **operator.settings}
    except ResourceError:  # a package is not installed: settings as they were given
        pass
    return json.loads(json.dumps(values))


# The paper's operators with our training

# Epochs of one cycle in the plane; on a line as many as in the paper. At 416 points they are what about 20 minutes of
# one H200 hold: after 6 epochs a ViTNO had six times the error that it has after 40. Other widths than the paper's are
# compared with each other, so all operators have the same few.
_EPOCHS = {LOW: 20}
_AT_416 = {"ViTNO": 40, "FANO": 36, "FNO": 30, "AFNO": 18}
_ON_A_FLOW = {"ViTNO": 14, "FANO": 13, "FNO": 12, "AFNO": 6}  # which has 2.5 times the samples
_OF_A_WIDTH = {PIECEWISE: 10, FLOW: 4}
_WITH_ATTENTION = ("TNO", "Transformer", "ViTNO", "FANO")
# Rates in the plane that are not 1e-3, as the records have them; short trainings of less width liked more, ViTNO and
# FANO up to 8e-3 (docs/recipes.md).
_RATES = {"FNO": 3e-3, "AFNO": 2e-3, "ViTNO": 2e-3, "FANO": 2e-3}
# Operators whose matrices act at each point by themselves (docs/recipes.md).
_MUON = ("TNO", "Transformer", "ViTNO")


def _ours(row: Row) -> Experiment:
    """One cycle, TF32 products, attention in half precision; compiled; batches of 4 in two dimensions."""
    operator, training = row.authors.operator["name"], row.authors.training
    epochs = _epochs(row)
    training = replace(training, epochs=epochs, schedule="one-cycle", products="tf32", compile=True)
    if operator in _WITH_ATTENTION:
        training = replace(training, averages="float16")
    if len(row.authors.problem.bounds) > 1:
        training = replace(training, batch_size=4, learning_rate=_RATES.get(operator, 1e-3))
    if operator in _MUON:
        training = replace(training, optimizer="muon")
    if row.problem in (LOGNORMAL, PIECEWISE, FLOW):
        training = replace(training, **chosen_by_sweep(operator))
    return replace(row.authors, training=training)


def _epochs(row: Row) -> int:
    operator = row.authors.operator["name"]
    if row.variant.startswith("width-"):
        return _OF_A_WIDTH[row.problem]
    if row.problem in (LOGNORMAL, PIECEWISE):
        return _AT_416[operator]
    return _ON_A_FLOW[operator] if row.problem == FLOW else _EPOCHS.get(row.problem, row.authors.training.epochs)


SWEEPS = Path(__file__).parents[1] / "results" / "sweeps"


def chosen_by_sweep(operator: str) -> dict[str, Any]:
    """Optimiser, rate and schedule that `python -m paper sweep` chose for an operator; nothing where it did not run."""
    path = SWEEPS / f"{operator}.json"
    return dict(read_json(path)["chosen"]) if path.is_file() else {}


# The best recipes

# An elliptic equation's own kernels, without a direction, learn from fewer updates of fewer samples than one matrix a
# mode, and have a hundredth of the weights. Cosines, since Fourier modes join two ends of D where a Darcy flow is
# not the same; an output that is smooth, and zero at the boundary, does the rest. That is small enough to be trained on
# one core of a CPU, in full precision (docs/recipes.md).
_ELLIPTIC: dict[str, Any] = {
    "name": "SpectralOperator",
    "n_modes": [32, 32],
    "basis": "isotropic-cosine",
    "last": ["dirichlet"],
    "hidden_channels": 32,
    "n_layers": 4,
    "waves": 8,
}
_PERIODIC = {"margin": 0.25, "continuation": "periodic"}  # the overlap of patches on a torus
# A flow over a short time is near the identity. Its waves are short, and it does not stop at the faces of patches:
# integral operators on all of D learn it best (docs/recipes.md).
_OF_A_FLOW: dict[str, Any] = {
    "name": "SpectralOperator",
    "n_modes": [32, 32],
    "hidden_channels": 32,
    "n_layers": 6,
    "waves": 8,
    "wrappers": ["Increment"],
}
# The spectral operators: fewer modes where the coarsest grid has few points, and as much width as it takes.
_SPECTRAL: dict[str, dict[str, Any]] = {
    LOW: _ELLIPTIC | {"n_modes": [24, 24]},
    LOGNORMAL: _ELLIPTIC,
    PIECEWISE: _ELLIPTIC,
    FLOW: _OF_A_FLOW,
    LI: _ELLIPTIC | {"n_modes": [24, 24], "hidden_channels": 48},
}
# Settings that depart from the paper's. FANO is trained on the Kolmogorov flow alone, without its last layer of 64
# modes: 2 x 2 patches have the waves of the spectral operator, extended ones half as far with as many modes.
# FNO and AFNO keep the paper's operator; on a flow they learn the increment, as ours do.
_BETTER: dict[str, dict[str, Any]] = {
    "FNO": {},
    "AFNO": {},
    "TNO": {"waves": 8},
    "ViTNO": {"waves": 8, "n_modes": 8},
    "FANO": {"waves": 8, "hidden_channels": 32, "n_patches": [2, 2], "n_modes": 16, "wrappers": ["Increment"]},
}
_BLENDED_EPOCHS = 0.7  # a part of those with hard patches, which take as many minutes
_EQUAL_UPDATES = {"batches": "pairs", "batch_size": 4, "learning_rate": 2e-3}
_ON_ONE_CORE: dict[str, Any] = {
    **_EQUAL_UPDATES,
    "learning_rate": 8e-3,
    "optimizer": "muon",
    "loss": "h1",
    "compile": False,
    "averages": "full",
    "products": "full",
}


@dataclass(frozen=True)
class _Coarse:
    """Coarser resolutions, the parts of the epochs of each and of the finest, in any unit, and how they are trained.

    Epochs on coarse grids cost less, so there may be more of them.
    """

    resolutions: tuple[int, ...]
    parts: tuple[float, ...]
    training: dict[str, Any] = field(default_factory=dict)


# By problem and operator; on a line one for all.
_LINE_COARSE = _Coarse((100,), (0.5, 0.5), {"resolutions": "growing", "batches": "pairs", "epochs": 150})
_SMALL_BATCHES = {"batch_size": 2, "learning_rate": 1e-3}
_ELLIPTIC_COARSE = _Coarse((104,), (10.0, 1.0), {"epochs": 11, **_ON_ONE_CORE})
_COARSE: dict[tuple[str, str], _Coarse] = {
    (LOW, "TNO"): _Coarse((32,), (0.7, 0.3), {"batches": "pairs"}),
    # Solutions on grids as coarse as these differ, and so does what thinned out coefficients leave open: to see each to
    # the end helps on all of them.
    (LOW, "SpectralOperator"): _Coarse(
        (32, 48), (4.0, 3.0, 17.0), {"epochs": 24, "resolutions": "growing", **_ON_ONE_CORE}
    ),
    (LI, "SpectralOperator"): _Coarse(
        (43, 61, 71), (4.0, 3.0, 3.0, 50.0), {"epochs": 60, "resolutions": "growing", **_ON_ONE_CORE}
    ),
    (LOGNORMAL, "ViTNO"): _Coarse((208,), (0.8, 0.2), {"epochs": 20, **_SMALL_BATCHES}),
    (PIECEWISE, "ViTNO"): _Coarse((208,), (0.8, 0.2), {"epochs": 20, **_SMALL_BATCHES}),
    (FLOW, "ViTNO"): _Coarse((208,), (0.8, 0.2), {"epochs": 10, **_SMALL_BATCHES}),
    # What is due to the recipe and what to the operator: baselines have the same. An AFNO has one resolution.
    (LOGNORMAL, "FNO"): _Coarse((208,), (0.8, 0.2), {"epochs": 60, "batches": "pairs"}),
    (PIECEWISE, "FNO"): _Coarse((208,), (0.8, 0.2), {"epochs": 60, "batches": "pairs"}),
    (FLOW, "FNO"): _Coarse((208,), (0.8, 0.2), {"epochs": 24, "batches": "pairs"}),
    **{(problem, "AFNO"): _Coarse((), ()) for problem in (LOGNORMAL, PIECEWISE, FLOW)},
    (LI, "FNO"): _Coarse((), (), {"epochs": 100, "batch_size": 4, "learning_rate": 3e-3, "loss": "h1"}),
    (LOGNORMAL, "SpectralOperator"): _ELLIPTIC_COARSE,
    (PIECEWISE, "SpectralOperator"): _ELLIPTIC_COARSE,
    (FLOW, "SpectralOperator"): _Coarse((104, 208), (20.0, 4.0, 3.0), {"epochs": 27, **_EQUAL_UPDATES}),
    (FLOW, "FANO"): _Coarse(
        (104,), (8.0, 2.0), {"epochs": 10, **_EQUAL_UPDATES, "learning_rate": 4e-3, "optimizer": "muon"}
    ),
}


def _best(row: Row) -> Experiment:
    """Symmetries, averaged weights, what is better in an operator, and coarse grids where they help.

    The latter have optimiser, rate and loss of their own, where these are better.
    """
    ours = _ours(row)
    if row.variant == "blended":  # patches that overlap: nothing else than in the paper's operator, and its minutes
        overlap = _PERIODIC if row.problem == FLOW else 0.25
        training: Training = replace(ours.training, epochs=round(_BLENDED_EPOCHS * ours.training.epochs))
        return replace(ours, operator={**ours.operator, "overlap": overlap}, training=training)
    coarse = _COARSE.get((row.problem, row.operator), _LINE_COARSE)
    if row.variant == "alone":
        coarse = _Coarse((), (), {**coarse.training, "resolutions": "staged"})
    training = replace(ours.training, augment=bool(ours.problem.symmetries), ema=0.999)
    training = replace(training, stages=coarse.parts, **coarse.training)
    data = replace(ours.data, coarser=coarse.resolutions)
    return replace(ours, operator=_better_operator(row), data=data, training=training)


def _better_operator(row: Row) -> dict[str, Any]:
    if row.operator == "SpectralOperator":
        return _SPECTRAL[row.problem]
    if row.problem == LI:
        return dict(row.authors.operator)
    operator = {**row.authors.operator, **_BETTER[row.operator]}
    if row.operator == "FANO":
        operator["last"] = [layer for layer in operator["last"] if isinstance(layer, str)]
    if row.problem == FLOW and row.operator != "FANO":
        operator["wrappers"] = ["Increment"]
    return operator
