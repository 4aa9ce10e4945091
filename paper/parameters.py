"""The parameters of an experiment's operator, line by line: Appendix C's formula, then what it leaves out.

Nothing is built, so operators whose package is not installed are counted, too. A complex number counts once, as in the
paper's tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from operformer.runs.experiment import Experiment
from paper import complexity
from paper.complexity import Setting

FORMULA = "Appendix C"
# The column "Number of Parameters" of Table 2d_median_errors_low.
PRINTED = {
    "darcy-64-tno": 5.98e5,
    "darcy-64-fno": 5.70e6,
    "darcy-64-afno": 1.10e6,
    "darcy-64-galerkin": 6.04e5,
    "darcy-64-galerkin-layers-6": 6.04e5,
}


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
    s, name = setting_of(experiment), experiment.operator["name"]
    if name == "FNO":
        return _fno(s)
    if name == "AFNO":
        return _afno(s, experiment)
    if name == "GalerkinTransformer":
        return _galerkin(s, experiment.operator["n_heads"])
    return _encoder(s, experiment)


def _encoder(s: Setting, experiment: Experiment) -> list[Line]:
    """TNO, the plain transformer, ViTNO and FANO."""
    operator, d = experiment.operator, s.hidden_channels
    name = "TNO" if operator["name"] == "Transformer" else operator["name"]
    formula = {
        "TNO": complexity.parameters_tno,
        "ViTNO": complexity.parameters_vitno,
        "FANO": complexity.parameters_fano,
    }[name]
    ends = s.out_channels if name == "ViTNO" else d + s.out_channels
    maps, biases = ("W_MultiHead, feed-forward", 3) if name == "FANO" else ("Q, K, V, W_MultiHead, feed-forward", 6)
    lines = [
        Line(FORMULA, formula(s)),
        Line("bias of the head" if name == "ViTNO" else "biases of lift and head", ends),
        Line(f"biases of {maps}", s.n_layers * biases * d),
        Line("gain and shift of each layer's second LayerNorm", s.n_layers * 2 * d),
    ]
    if operator.get("initial_channels"):
        # W_in sees no initial values, W_in0 sees all.
        lines.append(Line("the second lift", (s.in_channels + s.dim + 1 - operator["initial_channels"]) * d))
    last = [layer for layer in operator.get("last", ()) if isinstance(layer, int)]
    return lines + [Line(f"last layer of {m} modes", (2 * m - 1) ** s.dim * s.out_channels**2) for m in last]


def _fno(s: Setting) -> list[Line]:
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


def _galerkin(s: Setting, n_heads: int) -> list[Line]:
    d, layers = s.hidden_channels, s.n_layers
    return [
        Line("lift and head", (s.in_channels + s.dim) * d + d * s.out_channels),
        Line("Q, K, V and feed-forward", layers * 5 * d**2),
        Line("W_MultiHead, coordinates in each head", layers * (d + n_heads * s.dim) * d),
        Line("biases", d + s.out_channels + layers * 6 * d),
        Line("gain and shift of LayerNorms of Q and K", layers * 4 * d),
    ]
