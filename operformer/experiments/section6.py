"""Every run of Section 6.1 as a frozen value, at the paper's scale and at a scale that a laptop finishes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from operformer.experiments.experiment import Data, Experiment
from operformer.learning.recipe import Training
from operformer.problems import Problem
from operformer.problems.catalogue import LAWS

Scale = Literal["smoke", "paper"]


def _scales(name: str, problem: Problem, **operator: Any) -> dict[Scale, Experiment]:
    paper = Experiment(name, problem, {"name": "TNO"} | operator)
    small = {"hidden_channels": 64, "n_layers": 4, "n_heads": 4}
    smoke = replace(
        paper,
        operator={"name": "TNO"} | small | operator,
        data=Data(resolution=100, train=2000, validation=100, test=200),
        training=Training(epochs=14, batch_size=32, learning_rate=2e-3, schedule="cosine"),
    )
    return {"smoke": smoke, "paper": paper}


EXPERIMENTS: dict[str, dict[Scale, Experiment]] = {
    "lorenz-y": _scales("lorenz-y", LAWS["lorenz-y"]),
    "lorenz-yz": _scales("lorenz-yz", LAWS["lorenz-yz"], initial_channels=2),
    # Paper: a second lift for y(0) and z(0). As ordinary constant channels they make the operator resolution-free.
    "lorenz-yz-invariant": _scales("lorenz-yz-invariant", LAWS["lorenz-yz"]),
    "controlled-ode": _scales("controlled-ode", LAWS["controlled-ode"]),
}


def as_plain_transformer(experiment: Experiment) -> Experiment:
    """The same experiment with the transformer of Vaswani et al. in place of the TNO."""
    settings = {
        key: value for key, value in experiment.operator.items() if key in ("hidden_channels", "n_layers", "n_heads")
    }
    return replace(experiment, name=f"{experiment.name}-transformer", operator={"name": "Transformer"} | settings)
