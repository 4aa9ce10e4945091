"""The runs of Section 6.2, problems in the plane: Darcy flow and Kolmogorov flow.

At smoke scale a square has 24 points a side where the paper has 64, and 48 where it has 416; half as many layers, a
quarter of the width, 4 x 4 patches in place of 13 x 13, and modes that a patch of 12 points resolves. Laws are the
paper's but for the Kolmogorov flow, which is looked at at T = 5 in place of 11 with |k| < 34: its eddies have begun to
grow and are still large, so a pair takes a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from operformer.problems import Kolmogorov, Problem
from operformer.problems.catalogue import LAWS
from operformer.runs.experiment import Data, Experiment
from operformer.training.recipe import Training
from paper.scales import Scale, Scales

LOW = ("TNO", "FNO", "AFNO", "GalerkinTransformer")  # the rows of Table 2d_median_errors_low
HIGH = ("ViTNO", "FANO", "FNO", "AFNO")  # those of Table 2d_median_errors_high
WIDTHS = (32, 64, 96, 128)  # Figures parameter_accuracy and evaluation_cost_accuracy

# Layers, modes and patches (32 x 32 points at 416 x 416) are Section 6.2's; heads are those of the authors' scripts.
_ENCODER = {"n_layers": 6, "n_heads": 8}
PATCHES: dict[Scale, list[int]] = {"smoke": [4, 4], "paper": [13, 13]}
_PATCHED = _ENCODER | {"n_patches": PATCHES["paper"], "last": [64]}
_OPERATORS: dict[str, dict[str, Any]] = {
    "TNO": _ENCODER,
    "ViTNO": _PATCHED | {"n_modes": 12},
    "FANO": _PATCHED | {"n_modes": 9},
    "FNO": {"n_layers": 4, "n_modes": 12},
    "AFNO": {"n_layers": 4, "n_blocks": 8},
    "GalerkinTransformer": {"n_layers": 4, "n_heads": 4},
}
_SMOKE_PATCHED = {"n_heads": 4, "n_patches": PATCHES["smoke"]}
_SMOKE_OPERATORS: dict[str, dict[str, Any]] = {
    "TNO": {"n_heads": 2},
    "ViTNO": _SMOKE_PATCHED | {"n_modes": 6},
    "FANO": _SMOKE_PATCHED | {"n_modes": 4},
    "FNO": {"n_modes": 8},
    "AFNO": {"n_blocks": 4},
    "GalerkinTransformer": {"n_heads": 2},
}

# Batch sizes and learning rates of Section 6.2; at most 80 epochs and the plateau rule are the authors' scripts'.
_TRAINING = Training(epochs=80, schedule="plateau", loss="h1")
_LOW_STEPS = {"TNO": (2, 1e-3), "FNO": (8, 1e-4), "AFNO": (1, 1e-3), "GalerkinTransformer": (2, 1e-3)}
_DARCY_STEPS = {"ViTNO": (1, 1e-3), "FANO": (1, 1e-3), "FNO": (8, 1e-4), "AFNO": (1, 1e-3)}
_FLOW_STEPS = {"ViTNO": (2, 1e-3), "FANO": (2, 1e-3), "FNO": (4, 1e-3), "AFNO": (1, 1e-3)}
_SMOKE_TRAINING = Training(epochs=10, schedule="one-cycle", loss="h1")
_SMOKE_STEPS = {
    "TNO": (4, 8e-3),
    "ViTNO": (4, 8e-3),
    "FANO": (4, 8e-3),
    "FNO": (4, 4e-3),
    "AFNO": (4, 4e-3),
    "GalerkinTransformer": (4, 4e-3),
}

_DATA = Data(resolution=416, train=3600, validation=200, test=200)
_SMOKE_DATA = Data(resolution=48, train=160, validation=20, test=30)


@dataclass(frozen=True)
class Study:
    """A problem at one resolution and scale: its pairs, and the batch size and learning rate of each operator."""

    problem: Problem
    data: Data
    training: Training
    steps: Mapping[str, tuple[int, float]]

    def train(self, operator: str) -> Training:
        """How the operator is trained."""
        batch_size, learning_rate = self.steps[operator]
        return replace(self.training, batch_size=batch_size, learning_rate=learning_rate)


def _smoke(problem: Problem, resolution: int = 48) -> Study:
    return Study(problem, replace(_SMOKE_DATA, resolution=resolution), _SMOKE_TRAINING, _SMOKE_STEPS)


_LOGNORMAL, _PIECEWISE, _FLOW = (LAWS[name] for name in ("darcy-lognormal", "darcy-piecewise", "kolmogorov"))
STUDIES: dict[str, dict[Scale, Study]] = {
    "darcy-64": {
        "smoke": _smoke(_LOGNORMAL, 24),
        "paper": Study(_LOGNORMAL, replace(_DATA, resolution=64), _TRAINING, _LOW_STEPS),
    },
    "darcy-416": {"smoke": _smoke(_LOGNORMAL), "paper": Study(_LOGNORMAL, _DATA, _TRAINING, _DARCY_STEPS)},
    "piecewise-416": {"smoke": _smoke(_PIECEWISE), "paper": Study(_PIECEWISE, _DATA, _TRAINING, _DARCY_STEPS)},
    "kolmogorov-416": {
        "smoke": _smoke(Kolmogorov(start=5.0, n_modes=34, step=0.025)),
        "paper": Study(_FLOW, replace(_DATA, train=9000, validation=500, test=500), _TRAINING, _FLOW_STEPS),
    },
}


def run(study: str, operator: str, width: int = 128, variant: str = "", **changes: Any) -> dict[str, Scales]:
    """One run under its name: STUDY-OPERATOR, then a width other than 128, then the name of a variant.

    ``changes`` are settings of the operator at the paper's scale.
    """
    parts = [study, operator.removesuffix("Transformer").lower()]
    parts += [f"width-{width}"] if width != 128 else []
    name = "-".join([*parts, variant] if variant else parts)
    settings: dict[str, Any] = {"name": operator, "hidden_channels": width} | _OPERATORS[operator] | changes
    smaller = _SMOKE_OPERATORS[operator] | {"hidden_channels": width // 4, "n_layers": settings["n_layers"] // 2}
    if "last" in settings:
        smaller |= {"last": [8, *settings["last"][1:]]}
    return {
        name: {
            "smoke": _experiment(name, STUDIES[study]["smoke"], settings | smaller),
            "paper": _experiment(name, STUDIES[study]["paper"], settings),
        }
    }


def _experiment(name: str, study: Study, operator: dict[str, Any]) -> Experiment:
    if operator["name"] == "AFNO":
        operator = operator | {"shape": [study.data.resolution] * 2}
    return Experiment(name, study.problem, operator, study.data, study.train(operator["name"]))
