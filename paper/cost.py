"""What operators cost at the paper's sizes, and what it costs to train a run.

The operators of Appendix C: its formulas, beside what is counted on this library's modules. A training is 3 evaluations
(forward, and twice backward) of every training sample in every epoch. Its operations are those that this library does:
FANO's in coefficient space, both products of an attention, FNO's d_FNO of twice the width. Divided by a rate they are
a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from operformer.domain import Grid
from operformer.errors import ResourceError
from operformer.runs.experiment import Experiment
from paper import complexity
from paper.catalogue import find_row
from paper.complexity import COMPLEXITY, Setting
from paper.counting import count_operations
from paper.parameters import parameters_of, setting_of


@dataclass(frozen=True)
class Size:
    """A row of Appendix C's tables: the run whose operator and grid it has, and where ours differs from the formula."""

    run: str
    parameters_differ: str
    cost_differs: str


_BIASES = "biases; gain and shift of the second LayerNorm of a layer"
_SCORES = "scores and averages are both counted, the formula has one of them"
SIZES: Mapping[str, Size] = {
    "FNO": Size(
        "darcy-416-fno",
        "skips, channel MLPs and biases; neuraloperator's d_FNO is 256, the formula has 128",
        "channel MLPs, skips, d_FNO = 256; transforms as products with small matrices, of the modes that are kept",
    ),
    "AFNO": Size(
        "darcy-416-afno",
        "biases and LayerNorm",
        "half of the spectrum goes through the MLP, in real numbers; 16 d² has the N that it lacks in print",
    ),
    "TNO": Size(
        "darcy-64-tno",
        _BIASES,
        _SCORES,
    ),
    "ViTNO": Size(
        "darcy-416-vitno",
        f"{_BIASES}; the last layer's 64 modes, (2 · 64 − 1)² numbers",
        f"{_SCORES}; transforms as products with small matrices",
    ),
    "FANO": Size(
        "darcy-416-fano",
        f"{_BIASES}; the last layer's 64 modes, (2 · 64 − 1)² numbers",
        "Q, K, V, scores and averages on coefficients of modes, not on points: the same function",
    ),
}


@dataclass(frozen=True)
class Cost:
    """Parameters and operations of one evaluation; None where the operator's package is not installed."""

    resolution: int
    parameters: int | None
    formula_parameters: int
    operations: int | None
    formula_operations: float
    operations_at_double: int | None  # twice as many points along each axis
    formula_at_double: float


def costs() -> dict[str, Cost]:
    """The operators of Tables evaluation_cost, evaluation_cost1 and parameter_complexity1 at the paper's sizes."""
    return {name: _cost(name, size) for name, size in SIZES.items()}


def _cost(name: str, size: Size) -> Cost:
    experiment, formula = find_row(size.run).authors, COMPLEXITY[name]
    setting, n = setting_of(experiment), experiment.data.resolution
    parameters, here, there = _counts(experiment)
    return Cost(
        n,
        parameters,
        formula.count_parameters(setting, n**2),
        here,
        formula.count_operations(setting, n**2),
        there,
        formula.count_operations(setting, 4 * n**2),
    )


def _counts(experiment: Experiment) -> tuple[int | None, int | None, int | None]:
    """Parameters, and operations on the grid of the run and on one of twice as many points along each axis."""
    n, operator = experiment.data.resolution, dict(experiment.operator)
    if "shape" in operator:  # AFNO at another resolution is another operator
        operator["shape"] = [2 * n, 2 * n]
    finer = replace(experiment, operator=operator)
    try:
        with torch.device("meta"):
            parameters = experiment.make_operator().n_parameters
        here = count_operations(experiment.make_operator, Grid.uniform((n, n), kind="cells"))
        there = count_operations(finer.make_operator, Grid.uniform((2 * n, 2 * n), kind="cells"))
    except ResourceError:
        return None, None, None
    return parameters, here, there


# Trainings

PASSES = 3
# Of the rate of a matrix product, what trainings at smoke scale reached: 0.1 to 0.35, on one core.
SHARE = 0.2


@dataclass(frozen=True)
class TrainingCost:
    """Of a run: parameters, operations of one evaluation (Appendix C) and of its training (this library)."""

    parameters: int
    evaluation: float
    training: float

    def seconds(self, rate: float) -> float:
        """How long the training takes at a rate in operations a second."""
        return self.training / rate


def cost_of(experiment: Experiment) -> TrainingCost:
    """What the experiment costs."""
    data = experiment.data
    passes = PASSES * data.train * experiment.training.epochs
    evaluation, done = _operations(experiment)
    return TrainingCost(parameters_of(experiment), evaluation, passes * done)


def _operations(experiment: Experiment) -> tuple[float, float]:
    """Of one evaluation: by Appendix C, and by what is done here."""
    s, operator = setting_of(experiment), experiment.operator
    n = experiment.data.resolution**s.dim
    if s.dim == 1:
        n += 1  # problems in time have nodes at both ends
    by_paper = _BY_PAPER[operator["name"]](s, n, operator)
    return by_paper, by_paper + _MORE.get(operator["name"], _nothing)(s, n)


def cost_galerkin(s: Setting, n_points: int, n_heads: int) -> float:
    """2 N (d_u + d) d_model + 2 N d_model d_z + L (12 N d_model^2 + 4 N h (d_model / h + d)^2), h heads.

    Not in Appendix C, counted in the same way; the sum over the points is taken first, as in `operators.baselines`.
    """
    n, d = n_points, s.hidden_channels
    attention = 4 * n * n_heads * (d / n_heads + s.dim) ** 2
    merge = 2 * n * (d + n_heads * s.dim) * d
    ends = 2 * n * (s.in_channels + s.dim) * d + 2 * n * d * s.out_channels
    return ends + s.n_layers * (10 * n * d**2 + merge + attention)


_Operations = Callable[[Setting, int, Mapping[str, Any]], float]
_BY_PAPER: Mapping[str, _Operations] = {
    "TNO": lambda s, n, _: complexity.cost_tno(s, n),
    "Transformer": lambda s, n, _: complexity.cost_tno(s, n),
    "ViTNO": lambda s, n, _: complexity.cost_vitno(s, n),
    "FANO": lambda s, n, _: complexity.cost_fano(s, n),
    "FNO": lambda s, n, _: complexity.cost_fno(s, n, n_layers=s.n_layers),
    "AFNO": lambda s, n, operator: complexity.cost_afno(s, n, operator["n_blocks"], s.n_layers),
    "GalerkinTransformer": lambda s, n, operator: cost_galerkin(s, n, operator["n_heads"]),
}


def _attention(s: Setting, n: int, keys: int) -> float:
    """The product of an attention that the table leaves out, of two."""
    return 2 * s.n_layers * n * keys * s.hidden_channels


def _wider(s: Setting, n: int) -> float:
    """FNO's d_FNO is twice the width here, and 128 in the formula."""
    wide = complexity.cost_fno(s, n, d_fno=2 * s.hidden_channels, n_layers=s.n_layers)
    return wide - complexity.cost_fno(s, n, n_layers=s.n_layers)


def _nothing(s: Setting, n: int) -> float:
    return 0.0


# What this library does beyond the formula, or with a minus sign less.
_MORE: Mapping[str, Callable[[Setting, int], float]] = {
    "TNO": lambda s, n: _attention(s, n, n),
    "Transformer": lambda s, n: _attention(s, n, n),
    "ViTNO": lambda s, n: _attention(s, n, s.patches),
    "FANO": lambda s, n: complexity.cost_fano_in_coefficients(s, n) - complexity.cost_fano(s, n),
    "FNO": _wider,
}


def machine_rate(size: int = 512, repeats: int = 5) -> float:
    """Operations a second of a training on this machine's CPU: SHARE of a product of matrices, the best of a few."""
    a = torch.ones(size, size)
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - started)
    return SHARE * 2 * size**3 / best
