"""What an experiment costs: operations of one evaluation by Appendix C, and of its training.

A training is 3 evaluations (forth, and twice back) of every training pair in every epoch. Its operations are those that
this library does: FANO's in coefficient space, both products of an attention, FNO's d_FNO of twice the width. Divided
by a rate they are a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from operformer.runs.experiment import Experiment
from paper import complexity
from paper.complexity import Setting
from paper.parameters import parameters_of, setting_of

PASSES = 3
# Of the rate of a matrix product, what trainings at smoke scale reached: 0.1 to 0.35, on one core.
SHARE = 0.2


@dataclass(frozen=True)
class Cost:
    """Parameters, operations of one evaluation (Appendix C) and of the whole training (this library)."""

    parameters: int
    evaluation: float
    training: float

    def seconds(self, rate: float) -> float:
        """How long the training takes at so many operations a second."""
        return self.training / rate


def cost_of(experiment: Experiment) -> Cost:
    """What the experiment costs."""
    data = experiment.data
    passes = PASSES * data.train * experiment.training.epochs
    evaluation, done = _operations(experiment)
    return Cost(parameters_of(experiment), evaluation, passes * done)


def _operations(experiment: Experiment) -> tuple[float, float]:
    """Of one evaluation: by Appendix C, and by what is done here."""
    s, operator = setting_of(experiment), experiment.operator
    n = experiment.data.resolution**s.dim
    if s.dim == 1:
        n += 1  # problems in time have nodes at both ends
    attention = 2 * s.n_layers * n * s.hidden_channels  # with one key: the table has one product, of two
    match operator["name"]:
        case "FNO":
            wider = complexity.cost_fno(s, n, d_fno=2 * s.hidden_channels, n_layers=s.n_layers)
            return complexity.cost_fno(s, n, n_layers=s.n_layers), wider
        case "AFNO":
            cost = complexity.cost_afno(s, n, operator["n_blocks"], s.n_layers)
        case "GalerkinTransformer":
            cost = cost_galerkin(s, n, operator["n_heads"])
        case "ViTNO":
            cost = complexity.cost_vitno(s, n)
            return cost, cost + attention * s.patches
        case "FANO":
            return complexity.cost_fano(s, n), complexity.cost_fano_in_coefficients(s, n)
        case _:
            cost = complexity.cost_tno(s, n)
            return cost, cost + attention * n
    return cost, cost


def cost_galerkin(s: Setting, n_points: int, n_heads: int) -> float:
    """2 N (d_u + d) d_model + 2 N d_model d_z + L (12 N d_model^2 + 4 N h (d_model / h + d)^2), h heads.

    Not in Appendix C, counted in the same way; the sum over the points is taken first, as in `operators.baselines`.
    """
    n, d = n_points, s.hidden_channels
    attention = 4 * n * n_heads * (d / n_heads + s.dim) ** 2
    merge = 2 * n * (d + n_heads * s.dim) * d
    ends = 2 * n * (s.in_channels + s.dim) * d + 2 * n * d * s.out_channels
    return ends + s.n_layers * (10 * n * d**2 + merge + attention)


def machine_rate(size: int = 512, repeats: int = 5) -> float:
    """Operations a second of a training on this machine's CPU: SHARE of a product of matrices, the best of a few."""
    a = torch.ones(size, size)
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - started)
    return SHARE * 2 * size**3 / best
