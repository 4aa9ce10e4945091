"""What operators cost at the paper's sizes: Appendix C's formulas beside what is counted on this library's modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from operformer.domain import Grid
from operformer.errors import ResourceError
from operformer.operators import Operator
from operformer.operators.counting import count_operations
from operformer.operators.pretrained import OPERATORS
from paper import complexity
from paper.complexity import Setting

SMALL, LARGE = 64, 416  # points along an axis: of the TNO's experiments, and of the others'


@dataclass(frozen=True)
class Size:
    """An operator of Section 6.2 as the paper has it: constructor's settings, points along an axis, what to mind."""

    operator: Mapping[str, Any]
    resolution: int
    parameters_differ: str
    cost_differs: str

    def make(self) -> Operator:
        """The operator itself."""
        settings = {"in_channels": 1, "out_channels": 1} | dict(self.operator)
        return OPERATORS[settings.pop("name")](**settings)


_BIASES = "biases; gain and shift of the second LayerNorm of a layer"
_SCORES = "scores and averages are both counted, the formula has one of them"
SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "FNO": Size(
            {"name": "FNO", "dim": 2},
            LARGE,
            "skips, channel MLPs and biases; neuraloperator's d_FNO is 256, the formula has 128",
            "channel MLPs, skips, d_FNO = 256; transforms as products with small matrices, of the modes that are kept",
        ),
        "AFNO": Size(
            {"name": "AFNO", "shape": (LARGE, LARGE)},
            LARGE,
            "biases and LayerNorm",
            "half of the spectrum goes through the MLP, in real numbers; 16 d² has the N that it lacks in print",
        ),
        "TNO": Size(
            {"name": "TNO", "dim": 2},
            SMALL,
            _BIASES,
            _SCORES,
        ),
        "ViTNO": Size(
            {"name": "ViTNO", "n_patches": (13, 13), "n_modes": 12, "last": 64},
            LARGE,
            f"{_BIASES}; the last layer's 64 modes, (2 · 64 − 1)² numbers",
            f"{_SCORES}; transforms as products with small matrices",
        ),
        "FANO": Size(
            {"name": "FANO", "n_patches": (13, 13), "n_modes": 9, "last": 64},
            LARGE,
            f"{_BIASES}; the last layer's 64 modes, (2 · 64 − 1)² numbers",
            "Q, K, V, scores and averages on coefficients of modes, not on points: the same function",
        ),
    }
)


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
    n = size.resolution
    modes = {"FNO": (12, 12), "ViTNO": (12, 12), "FANO": (9, 9)}.get(name, ())
    setting = Setting(1, 1, 2, 128, modes, (13, 13))
    parameters, operations = _FORMULAS[name]
    counted, here, there = _counts(size)
    return Cost(
        n, counted, parameters(setting, n**2), here, operations(setting, n**2), there, operations(setting, 4 * n**2)
    )  # fmt: skip


def _counts(size: Size) -> tuple[int | None, int | None, int | None]:
    try:
        with torch.device("meta"):
            parameters = size.make().n_parameters
        here = count_operations(size.make, Grid.uniform((size.resolution,) * 2, kind="cells"))
        if "shape" in size.operator:  # AFNO at another resolution is another operator
            other = Size(dict(size.operator) | {"shape": (2 * size.resolution,) * 2}, size.resolution, "", "")
        else:
            other = size
        there = count_operations(other.make, Grid.uniform((2 * size.resolution,) * 2, kind="cells"))
    except ResourceError:
        return None, None, None
    return parameters, here, there


_Formula = Callable[[Setting, int], float]
_FORMULAS: Mapping[str, tuple[Callable[[Setting, int], int], _Formula]] = MappingProxyType(
    {
        "FNO": (lambda s, n: complexity.parameters_fno(s), complexity.cost_fno),
        "AFNO": (complexity.parameters_afno, complexity.cost_afno),
        "TNO": (lambda s, n: complexity.parameters_tno(s), complexity.cost_tno),
        "ViTNO": (lambda s, n: complexity.parameters_vitno(s), complexity.cost_vitno),
        "FANO": (lambda s, n: complexity.parameters_fano(s), complexity.cost_fano),
    }
)
