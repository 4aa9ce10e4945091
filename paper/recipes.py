"""How runs at the paper's scale are trained here: a frozen value for each run and protocol.

"paper": its data and operators, no augmentation; optimiser, schedule, epochs, batches and precision are ours, since the
authors' 80 to 100 epochs take days. "best": the same pairs and the same tests; operator and training are free.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from operformer.errors import UsageError
from operformer.problems import Darcy, Kolmogorov
from operformer.runs.experiment import Data, Experiment
from operformer.settings import choose
from operformer.training.recipe import Training
from paper.scales import Protocol
from paper.section6 import EXPERIMENTS

# Epochs of one cycle in the plane, by how a run's name begins, the first that fits; problems in time have as many as in
# the paper, if nothing is said below. Epochs of an AFNO at 416 points take more than a minute, so Darcy flow has five.
_EPOCHS = {
    **dict.fromkeys(("darcy-416-afno", "piecewise-416-afno"), 5),
    "darcy-64": 20,
    "darcy-416": 6,
    "piecewise-416": 6,
    "kolmogorov-416": 2,
}
_ATTENTIVE = ("TNO", "Transformer", "ViTNO", "FANO")
# Not lorenz-yz, whose initial values at one point have a weight that depends on the grid: lorenz-yz-invariant has not.
_BEST = (
    "lorenz-y",
    "lorenz-yz-invariant",
    "darcy-64-tno",
    *(f"{study}-416-vitno" for study in ("darcy", "piecewise", "kolmogorov")),
    "kolmogorov-416-fano-smoothing",
    "kolmogorov-416-fano-extension",
)
# Rates in the plane that are not 1e-3, as the records have them; short trainings of less width liked more, ViTNO and
# FANO up to 8e-3 (docs/recipes.md).
_RATES = {"FNO": 3e-3, "AFNO": 2e-3, "ViTNO": 2e-3, "FANO": 2e-3}
# Operators whose matrices act at each point by themselves (docs/recipes.md).
_MUON = ("TNO", "Transformer", "ViTNO")
# Settings that depart from the paper's.
_BETTER: dict[str, dict[str, Any]] = {
    "TNO": {"waves": 8},
    "ViTNO": {"waves": 8, "n_modes": 8},
    "FANO": {"waves": 8},
}
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
_AS_MANY_PAIRS = {"batches": "pairs", "batch_size": 4, "learning_rate": 2e-3}
_ON_ONE_CORE: dict[str, Any] = {
    **_AS_MANY_PAIRS,
    "learning_rate": 8e-3,
    "optimizer": "muon",
    "loss": "h1",
    "compile": False,
    "averages": "full",
    "products": "full",
}
# A flow over a short time is near the identity. Its waves are short, and it does not stop at the faces of patches:
# integral operators on all of D learn it best (docs/recipes.md).
_FLOW: dict[str, Any] = {
    "name": "SpectralOperator",
    "n_modes": [32, 32],
    "hidden_channels": 32,
    "n_layers": 6,
    "waves": 8,
    "wrappers": ["Increment"],
}
# Of patches of a FANO something is learned where they learn a flow at all: the waves of the spectral operator on 2 x 2
# patches, as they are, smoothed, and extended; these last reach half as far with as many modes.
_BETTER_FLOW: dict[str, dict[str, Any]] = {
    "ViTNO": {"wrappers": ["Increment"]},
    "FANO": {"wrappers": ["Increment"], "hidden_channels": 32, "n_patches": [2, 2], "n_modes": 16},
}
_PATCHED_FLOW = tuple(f"kolmogorov-416-fano-{variant}" for variant in ("patches", "smoothing", "extension"))
# The operators without attention: fewer functions where the coarsest grid has few points, and as much width as it takes.
_SPECTRAL: dict[str, dict[str, Any]] = {
    "darcy-416-spectral": _ELLIPTIC,
    "piecewise-416-spectral": _ELLIPTIC,
    "kolmogorov-416-spectral": _FLOW,
    "darcy-64-spectral": _ELLIPTIC | {"n_modes": [24, 24]},
    "darcy-li-85": _ELLIPTIC | {"n_modes": [24, 24], "hidden_channels": 48},
}


@dataclass(frozen=True)
class _Coarse:
    """Coarser resolutions, the parts of the epochs of each and of the finest, in any unit, and how they are trained.

    Epochs on coarse grids cost less, so there may be more of them.
    """

    resolutions: tuple[int, ...]
    parts: tuple[float, ...]
    training: dict[str, Any] = field(default_factory=dict)


# Of an operator or a run.
_COARSE = {
    "ViTNO": _Coarse((208,), (0.8, 0.2), {"epochs": 20, "batch_size": 2, "learning_rate": 1e-3}),
    "kolmogorov-416-vitno": _Coarse((208,), (0.8, 0.2), {"epochs": 10, "batch_size": 2, "learning_rate": 1e-3}),
    **dict.fromkeys(
        ("darcy-416-spectral", "piecewise-416-spectral"), _Coarse((104,), (10.0, 1.0), {"epochs": 11, **_ON_ONE_CORE})
    ),
    "kolmogorov-416-spectral": _Coarse((104, 208), (20.0, 4.0, 3.0), {"epochs": 27, **_AS_MANY_PAIRS}),
    **dict.fromkeys(
        _PATCHED_FLOW,
        _Coarse((104,), (8.0, 2.0), {"epochs": 10, **_AS_MANY_PAIRS, "learning_rate": 4e-3, "optimizer": "muon"}),
    ),
    "darcy-64-tno": _Coarse((32,), (0.7, 0.3), {"batches": "pairs"}),
    # Solutions on grids as coarse as these differ, and so does what thinned out coefficients leave open: to see each to
    # the end helps on all of them.
    "darcy-64-spectral": _Coarse((32, 48), (4.0, 3.0, 17.0), {"epochs": 24, "resolutions": "growing", **_ON_ONE_CORE}),
    "darcy-li-85": _Coarse(
        (43, 61, 71), (4.0, 3.0, 3.0, 50.0), {"epochs": 60, "resolutions": "growing", **_ON_ONE_CORE}
    ),
    **dict.fromkeys(
        ("lorenz-y", "lorenz-yz-invariant"),
        _Coarse((100,), (0.5, 0.5), {"resolutions": "growing", "batches": "pairs", "epochs": 150}),
    ),
}

# Runs that the paper has not, each with what it is compared with. Spectral operators, with the paper's FANO. Few patches
# on Kolmogorov flow, to compare smoothing and extension with. Darcy flow of Li et al.: solved on 421 x 421 nodes, every fifth of them kept, 1000 pairs to train on
# and 200 to test; every sixth, seventh and tenth node are readings of the same pairs. Its table has no validation
# pairs; ours are further draws.
OTHERS = {
    "kolmogorov-416-fano-patches": replace(
        EXPERIMENTS["kolmogorov-416-fano"]["paper"], name="kolmogorov-416-fano-patches"
    ),
    **{
        f"{study}-416-spectral": replace(EXPERIMENTS[f"{study}-416-fano"]["paper"], name=f"{study}-416-spectral")
        for study in ("darcy", "piecewise", "kolmogorov")
    },
    "darcy-64-spectral": replace(
        EXPERIMENTS["darcy-64-tno"]["paper"],
        name="darcy-64-spectral",
        operator=EXPERIMENTS["darcy-416-fano"]["paper"].operator,
    ),
    "darcy-li-85": Experiment(
        "darcy-li-85",
        replace(Darcy.of_li_et_al(), read_from=421),
        EXPERIMENTS["darcy-416-fano"]["paper"].operator,
        Data(resolution=85, train=1000, validation=200, test=200),
        Training(epochs=80, batch_size=2, learning_rate=1e-3, schedule="plateau", loss="l2"),
    ),
}


def reference(name: str) -> Experiment:
    """The run as the catalogue has it at the paper's scale, or what one that the paper has not is compared with."""
    known = {run: scales["paper"] for run, scales in EXPERIMENTS.items()} | OTHERS
    return choose(known, name, "the experiment")


def recipe(name: str, protocol: Protocol) -> Experiment:
    """The run as it is trained here."""
    reference(name)  # which tells a name that is none
    if name not in RECIPES[protocol]:
        raise UsageError(f"{name} has no recipe of the protocol {protocol}; it has {', '.join(RECIPES[protocol])}")
    return RECIPES[protocol][name]


def _ours(experiment: Experiment) -> Experiment:
    """One cycle, TF32 products, averages of attention in half precision; compiled; batches of 4 in two dimensions."""
    name, training = experiment.name, experiment.training
    epochs = next((count for study, count in _EPOCHS.items() if name.startswith(study)), training.epochs)
    training = replace(training, epochs=epochs, schedule="one-cycle", products="tf32", compile=True)
    if experiment.operator["name"] in _ATTENTIVE:
        training = replace(training, averages="float16")
    if len(experiment.problem.bounds) > 1:
        training = replace(training, batch_size=4, learning_rate=_RATES.get(experiment.operator["name"], 1e-3))
    if experiment.operator["name"] in _MUON:
        training = replace(training, optimizer="muon")
    return replace(experiment, training=training)


def _best(experiment: Experiment) -> Experiment:
    """Symmetries, averaged weights, what is better in an operator, and coarse grids where they help.

    The latter have optimiser, rate and loss of their own, where these are better.
    """
    ours = _ours(experiment)
    data, operator = ours.data, _better_operator(experiment)
    training = replace(ours.training, augment=bool(experiment.problem.symmetries), ema=0.999)
    coarse = _COARSE.get(ours.name) or _COARSE.get(operator["name"])
    if coarse is not None:
        data = replace(data, coarser=coarse.resolutions)
        training = replace(training, stages=coarse.parts, **coarse.training)
    return replace(ours, operator=operator, data=data, training=training)


def _better_operator(experiment: Experiment) -> dict[str, Any]:
    """Its settings: the paper's without FANO's last layer of 64 modes, or those of a spectral operator."""
    if experiment.name in _SPECTRAL:
        return _SPECTRAL[experiment.name]
    operator = {**experiment.operator, **_BETTER[experiment.operator["name"]]}
    if operator["name"] == "FANO":
        operator["last"] = [layer for layer in operator["last"] if isinstance(layer, str)]
    return operator | (_BETTER_FLOW[operator["name"]] if isinstance(experiment.problem, Kolmogorov) else {})


RECIPES: dict[Protocol, dict[str, Experiment]] = {
    "paper": {name: _ours(scales["paper"]) for name, scales in EXPERIMENTS.items()},
    "best": {name: _best(reference(name)) for name in (*_BEST, *OTHERS)},
}
