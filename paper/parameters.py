"""The parameters of an experiment's operator, line by line: Appendix C's formula, then what it leaves out.

Nothing is built, so operators whose package is not installed are counted, too. A complex number counts once, as in the
paper's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from operformer.runs.experiment import Experiment
from paper import complexity
from paper.complexity import Setting

FORMULA = "Appendix C"


@dataclass(frozen=True)
class Line:
    """So many parameters, and where they are."""

    what: str
    count: int


def setting_of(experiment: Experiment) -> Setting:
    """What Appendix C's formulas speak of."""
    operator, problem = experiment.operator, experiment.problem
    dim, patches = len(problem.bounds), tuple(operator.get("n_patches", ()))
    modes = operator.get("n_modes", ())
    return Setting(
        problem.in_channels,
        problem.out_channels,
        dim,
        operator["hidden_channels"],
        (modes,) * dim if isinstance(modes, int) else tuple(modes),
        patches,
        operator["n_layers"],
    )


def parameters_of(experiment: Experiment) -> int:
    """How many parameters the operator has."""
    return sum(line.count for line in parameter_lines(experiment))


def formula_parameters(experiment: Experiment) -> int | None:
    """What Appendix C says of it; None for the Galerkin transformer, of which it says nothing."""
    first = parameter_lines(experiment)[0]
    return first.count if first.what == FORMULA else None


def parameter_lines(experiment: Experiment) -> list[Line]:
    """The formula first, if there is one, then the rest; the sum is what the operator has."""
    return _LINES[experiment.operator["name"]](setting_of(experiment), experiment)


@dataclass(frozen=True)
class _Encoder:
    """What tells TNO, ViTNO and FANO apart: Appendix C's formula, whether the lift has a bias, biases of a layer."""

    formula: Callable[[Setting], int]
    has_lift_bias: bool
    maps: str
    biases: int  # of a layer, as multiples of d_model


_ALL_MAPS = "Q, K, V, W_MultiHead, feed-forward"
_ENCODERS = {
    "TNO": _Encoder(complexity.parameters_tno, True, _ALL_MAPS, 6),
    "Transformer": _Encoder(complexity.parameters_tno, True, _ALL_MAPS, 6),
    "ViTNO": _Encoder(complexity.parameters_vitno, False, _ALL_MAPS, 6),
    "FANO": _Encoder(complexity.parameters_fano, True, "W_MultiHead, feed-forward", 3),
}


def _encoder(s: Setting, experiment: Experiment) -> list[Line]:
    operator, d = experiment.operator, s.hidden_channels
    known = _ENCODERS[operator["name"]]
    ends, said = (d + s.out_channels, "biases of lift and head") if known.has_lift_bias else (
        s.out_channels, "bias of the head"
    )  # fmt: skip
    lines = [
        Line(FORMULA, known.formula(s)),
        Line(said, ends),
        Line(f"biases of {known.maps}", s.n_layers * known.biases * d),
        Line("gain and shift of each layer's second LayerNorm", s.n_layers * 2 * d),
    ]
    if operator.get("initial_channels"):
        # W_in sees no initial values, W_in0 sees all.
        lines.append(Line("the second lift", (s.in_channels + s.dim + 1 - operator["initial_channels"]) * d))
    last = [layer for layer in operator.get("last", ()) if isinstance(layer, int)]
    return lines + [Line(f"last layer of {m} modes", (2 * m - 1) ** s.dim * s.out_channels**2) for m in last]


def _fno(s: Setting, experiment: Experiment) -> list[Line]:
    d, layers = s.hidden_channels, s.n_layers
    formula = complexity.parameters_fno(s, n_layers=layers)
    wider = complexity.parameters_fno(s, d_fno=2 * d, n_layers=layers) - formula
    return [
        Line(FORMULA, formula),
        Line("d_FNO of twice the width, neuraloperator's own, not 128", wider),
        Line("skips: a matrix beside each convolution, a gate beside each MLP", layers * (d**2 + d)),
        Line("biases of convolutions and MLPs", layers * (d + d // 2 + d)),
        Line("biases of lift and projection", 2 * d + d + 2 * d + s.out_channels),
    ]


def _afno(s: Setting, experiment: Experiment) -> list[Line]:
    d, layers, blocks = s.hidden_channels, s.n_layers, experiment.operator["n_blocks"]
    n_points = experiment.data.resolution**s.dim
    return [
        Line(FORMULA, complexity.parameters_afno(s, n_points, blocks, layers)),
        Line("bias of the lift", d),
        Line("biases of MLPs, four times as wide inside", layers * 5 * d),
        Line("biases of spectral MLPs, complex, two each", layers * 4 * d),
        Line("gain and shift of two LayerNorms a layer", layers * 4 * d),
    ]


def _galerkin(s: Setting, experiment: Experiment) -> list[Line]:
    d, layers, n_heads = s.hidden_channels, s.n_layers, experiment.operator["n_heads"]
    return [
        Line("lift and head", (s.in_channels + s.dim) * d + d * s.out_channels),
        Line("Q, K, V and feed-forward", layers * 5 * d**2),
        Line("W_MultiHead, coordinates in each head", layers * (d + n_heads * s.dim) * d),
        Line("biases", d + s.out_channels + layers * 6 * d),
        Line("gain and shift of LayerNorms of Q and K", layers * 4 * d),
    ]


_LINES: Mapping[str, Callable[[Setting, Experiment], list[Line]]] = {
    "FNO": _fno,
    "AFNO": _afno,
    "GalerkinTransformer": _galerkin,
    **dict.fromkeys(_ENCODERS, _encoder),
}
