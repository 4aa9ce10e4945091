"""Fixtures of several rooms: small data, small operators, and records of runs with numbers made up by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from operformer import TNO
from operformer.evaluation.errors import Curves, Evaluation
from operformer.problems import ControlledODE
from operformer.runs import Run, find_experiment
from operformer.runs.report.explorer import Exhibit, Shown

LABELS = {"0.5x": 6, "1x": 11, "2x": 21, "irregular": 9, "graded": 11}
OTHERS = {
    "controlled-ode": ["problem.name=ControlledODE"],
    "lorenz-yz": ["problem.recover=['y', 'z']", "problem.initial=true"],
}
PROBLEM = ControlledODE(n_terms=2, decay=1.0)


@pytest.fixture
def pairs():
    """Draws of a smooth controlled ODE on [0, 2]."""

    def draw(count, resolution=10, dtype=torch.float32, first=0):
        return PROBLEM.sample(count, resolution, first=first).to(dtype=dtype)

    return draw


@pytest.fixture
def make_operator():
    """A small TNO whose first weights follow from the seed."""

    def make(seed=0, dtype=torch.float32, hidden_channels=6, n_layers=1):
        torch.manual_seed(seed)
        return TNO(1, 1, 1, hidden_channels, n_layers=n_layers, n_heads=2).to(dtype)

    return make


@pytest.fixture
def make_run():
    """A run whose errors are 1 %, 2 %, 3 % and 6 %, times ``factor``, and 1.5 times as much off the training grid."""

    def make(factor=1.0, name="lorenz-y", plain=False, labels=tuple(LABELS), **changes):
        experiment = find_experiment("lorenz-y-transformer" if plain else "lorenz-y", [*OTHERS.get(name, ())])
        experiment = replace(experiment, name=experiment.name if plain else name, **changes)
        channels = experiment.problem.out_channels
        evaluations = [_evaluation(label, factor * (1.0 if label == "1x" else 1.5), channels) for label in labels]
        metrics = [
            {
                "epoch": k,
                "loss": factor / k,
                "validation_error": factor / (2 * k),
                "learning_rate": 1e-3,
                "seconds": 1.0,
            }
            for k in (1, 2, 3)
        ]
        return Run(experiment, 12345, metrics, evaluations)

    return make


@pytest.fixture(scope="session")
def make_exhibit():
    """An operator whose prediction is the truth and an error of 1e-5 to 1 times ``off``, on some grids."""

    def make(problem, operator, off, shapes, draws=(5, 11, 2), inputs=("a",), outputs=("p", "q"), absent=None):
        views = {label: _shown(shape, draws, len(inputs), len(outputs), off) for label, shape in shapes.items()}
        return Exhibit(problem, operator, inputs, outputs, views, shapes, absent or {})

    return make


def _evaluation(label, factor, channels):
    errors = tuple(factor * error for error in (0.06, 0.01, 0.03, 0.02))
    median, worst = (_curves(error, LABELS[label], channels) for error in (errors[3], errors[0]))
    return Evaluation(label, LABELS[label], errors, median, worst)


def _curves(error, points, channels):
    x = [2.0 * k / (points - 1) for k in range(points)]
    z = [[(row + 1) * t**2 - 1 for t in x] for row in range(channels)]
    prediction = [[value * (1 + error) for value in row] for row in z]
    return Curves(error, x, [[3 * t - 1 for t in x], [7.0] * points], z, prediction)


def _shown(shape, draws, inputs, outputs, off):
    axes = [np.linspace(0.0, 1.0 + d, n) ** (1 if n % 2 else 2) for d, n in enumerate(shape)]  # even sizes are graded
    mesh = np.stack(np.meshgrid(*axes, indexing="ij")).sum(0)
    u = np.stack([[mesh * (1 + k) + draw for k in range(inputs)] for draw in draws])
    z = np.stack([[np.sin(3 * mesh + draw + k) for k in range(outputs)] for draw in draws])
    signs = np.where(np.arange(mesh.size).reshape(shape) % 3, 1.0, -1.0)
    error = off * signs * 10.0 ** (-5 * mesh / mesh.max())
    errors = off * (1 + np.arange(len(draws))) / 7
    x, y = (*axes, None)[:2]
    return Shown(x, y, u, z, z + error, errors, np.array(draws))
