"""The runs of Section 6.1, problems in time: Lorenz 63 and the controlled ODE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from operformer.problems import LAWS
from operformer.runs.experiment import Data, Experiment, find_experiment
from operformer.training.recipe import Training
from paper.scales import Scales

# Paper: 8000 trajectories with T = 2 and dt = 0.01, 1000 to test; width 128, 6 layers. What it leaves open is as in the
# authors' scripts: 8 heads, batches of 64, Adam at 1e-3 with the plateau rule, at most 100 epochs.
DATA = Data(resolution=200, train=8000, validation=1000, test=1000)
TRAINING = Training(epochs=100, batch_size=64, learning_rate=1e-3, schedule="plateau")
ENCODER = {"hidden_channels": 128, "n_layers": 6, "n_heads": 8}

SMOKE_DATA = Data(resolution=100, train=2000, validation=100, test=200)
SMOKE_TRAINING = Training(epochs=14, batch_size=32, learning_rate=2e-3, schedule="cosine")
SMOKE_ENCODER = {"hidden_channels": 64, "n_layers": 4, "n_heads": 4}


def lorenz_y() -> Scales:
    """x to y, which exists by synchronisation only (Figures superresolution_1d and irregular)."""
    return _both("lorenz-y", "lorenz-y") | {"smoke": find_experiment("lorenz-y")}


def lorenz_y_transformer() -> Scales:
    """The same by the transformer of Vaswani et al., whose attention has no weights (Figure irregular_t)."""
    both = lorenz_y()
    return {"smoke": as_plain_transformer(both["smoke"]), "paper": as_plain_transformer(both["paper"])}


def lorenz_yz() -> Scales:
    """x, y(0) and z(0) to y and z (Figure xtoyz); a lift of its own for the initial values, as in the paper."""
    return _both("lorenz-yz", "lorenz-yz", initial_channels=2)


def lorenz_yz_invariant() -> Scales:
    """The same with the initial values as constant channels, which makes the operator resolution-free."""
    return _both("lorenz-yz-invariant", "lorenz-yz")


def controlled_ode() -> Scales:
    """The control u to the solution z (Figure superresolution_1d); fewer trajectories do at smoke scale."""
    both = _both("controlled-ode", "controlled-ode")
    smoke = both["smoke"]
    less = replace(smoke, data=replace(smoke.data, train=800), training=replace(smoke.training, epochs=10))
    return {"smoke": less, "paper": both["paper"]}


def as_plain_transformer(experiment: Experiment) -> Experiment:
    """The same experiment with the transformer of Vaswani et al. in place of the TNO."""
    settings = {key: value for key, value in experiment.operator.items() if key in ENCODER}
    return replace(experiment, name=f"{experiment.name}-transformer", operator={"name": "Transformer"} | settings)


def _both(name: str, law: str, **operator: Any) -> Scales:
    smoke, paper = ({"name": "TNO"} | encoder | operator for encoder in (SMOKE_ENCODER, ENCODER))
    return {
        "smoke": Experiment(name, LAWS[law], smoke, SMOKE_DATA, SMOKE_TRAINING),
        "paper": Experiment(name, LAWS[law], paper, DATA, TRAINING),
    }
