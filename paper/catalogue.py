"""The catalogue: one row for each run of Section 6, and for each run that this library adds to compare with them.

A row says to which table or figure of the paper a run belongs, what the paper prints of it, how the authors train it,
how it is made small enough for a laptop, and which recipes it has. `python -m paper experiments` prints the rows.

At smoke scale a square has 24 points a side where the paper has 64, and 48 where it has 416; half as many layers, a
quarter of the width, 4 x 4 patches in place of 13 x 13, and modes that a patch of 12 points resolves. Laws are the
paper's but for the Kolmogorov flow, which is looked at at T = 5 in place of 11 with |k| < 34: its eddies have begun to
grow and are still large, so a sample takes a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from operformer.problems import LAWS, Darcy, Kolmogorov, Problem
from operformer.runs.experiment import Data, Experiment
from operformer.settings import choose
from operformer.training.recipe import Training

# How a run is trained. "smoke": minutes on a laptop. "authors": the paper's own training at its size. The other two
# give records: "same-operator" has the paper's data and operator with our training, "best" anything that helps.
Recipe = Literal["smoke", "authors", "same-operator", "best"]
OF_THE_PAPER: tuple[Recipe, ...] = ("smoke", "authors", "same-operator")

PAPER = "Calvello, Kovachki, Levine and Stuart, Continuum Attention for Neural Operators, JMLR 26 (2025)"
LINE = "Lorenz 63 and a controlled ODE"
LOW = "Darcy flow, lognormal, 64 × 64"
LOGNORMAL = "Darcy flow, lognormal, 416 × 416"
PIECEWISE = "Darcy flow, piecewise, 416 × 416"
FLOW = "Kolmogorov flow, 416 × 416"
LI = "Darcy flow of Li et al., 85 × 85"

# Mean relative L2 errors on LI in physical units, by those who made them: the other table that people quote.
LI_ET_AL: Mapping[str, float] = {
    "FNO": 1.08e-2,
    "GNOT": 1.05e-2,
    "Galerkin transformer": 8.4e-3,
    "ONO": 7.6e-3,
    "LNO": 6.3e-3,
    "Transolver": 5.7e-3,
    "LinearNO": 5.0e-3,
    "Transolver++": 4.9e-3,
    "HNO": 4.46e-3,
    "LaMO": 3.9e-3,
}
LI_REMARK = (
    "HNO is of ICML 2026, LaMO of ICML 2025; HNO's authors ran Transolver++ again and found 0.560 %. "
    "LaMO reads the test samples at every epoch and prints one value; nobody prints seeds."
)


@dataclass(frozen=True)
class Printed:
    """What the paper prints of a run: relative L2 errors of its test samples, parameters; words where it has words."""

    median: float | str = ""
    worst: float | str | None = None
    parameters: float | None = None


@dataclass(frozen=True)
class Row:
    """A run.

    Args:
        name: of the run, of its folder and of its records.
        problem: what it learns, as a title.
        operator: the class of the operator.
        exhibits: labels of the tables and figures that show it; the paper's, where the paper has the run.
        authors: the run as the authors train it; of a run that the paper has not, what it is compared with.
        smoke: the same made small; None of a run that the paper has not.
        variant: what tells it from the run of the same problem and operator, such as "width-32".
        printed: what the paper prints of it.
        recipes: how it can be trained.
    """

    name: str
    problem: str
    operator: str
    exhibits: tuple[str, ...]
    authors: Experiment
    smoke: Experiment | None
    variant: str = ""
    printed: Printed = Printed()
    recipes: tuple[Recipe, ...] = OF_THE_PAPER

    @property
    def width(self) -> int:
        """Channels of the latent functions, as the authors have them."""
        return int(self.authors.operator["hidden_channels"])


def find_row(name: str) -> Row:
    """The row of a run, or an error that names the nearest."""
    return choose(CATALOGUE, name, "the run")


def rows(
    exhibit: str = "", problem: str = "", operator: str = "", variants: tuple[str, ...] = (), recipe: str = ""
) -> tuple[Row, ...]:
    """The rows of an exhibit, a problem, an operator, of these variants, with a recipe; all where nothing is asked."""
    return tuple(
        row
        for row in CATALOGUE.values()
        if exhibit in ("", *row.exhibits)
        and problem in ("", row.problem)
        and operator in ("", row.operator)
        and (not variants or row.variant in variants)
        and recipe in ("", *row.recipes)
    )


# Section 6.1: 8000 trajectories with T = 2 and dt = 0.01, 1000 to test; width 128, 6 layers. What it leaves open is as
# in the authors' scripts: 8 heads, batches of 64, Adam at 1e-3 with the plateau rule, at most 100 epochs.
_LINE_DATA = Data(resolution=200, train=8000, validation=1000, test=1000)
_LINE_TRAINING = Training(epochs=100, batch_size=64, learning_rate=1e-3, schedule="plateau")
_LINE_ENCODER = {"hidden_channels": 128, "n_layers": 6, "n_heads": 8}
_SMOKE_LINE_DATA = Data(resolution=100, train=2000, validation=100, test=200)
_SMOKE_LINE_TRAINING = Training(epochs=14, batch_size=32, learning_rate=2e-3, schedule="cosine")
_SMOKE_LINE_ENCODER = {"hidden_channels": 64, "n_layers": 4, "n_heads": 4}


def _line(
    name: str,
    law: str,
    exhibits: tuple[str, ...],
    operator: str = "TNO",
    printed: Printed = Printed(),
    recipes: tuple[Recipe, ...] = OF_THE_PAPER,
    **settings: Any,
) -> Row:
    """A run of Section 6.1 by the law's name; settings are further ones of the operator."""
    wide, small = ({"name": operator} | encoder | settings for encoder in (_LINE_ENCODER, _SMOKE_LINE_ENCODER))
    authors = Experiment(name, LAWS[law], wide, _LINE_DATA, _LINE_TRAINING)
    smoke = Experiment(name, LAWS[law], small, _SMOKE_LINE_DATA, _SMOKE_LINE_TRAINING)
    if law == "controlled-ode":  # fewer trajectories do
        smoke = replace(
            smoke, data=replace(smoke.data, train=800), training=replace(_SMOKE_LINE_TRAINING, epochs=10)
        )  # fmt: skip
    return Row(name, LINE, operator, exhibits, authors, smoke, printed=printed, recipes=recipes)


# Section 6.2. Layers, modes and patches (32 x 32 points at 416 x 416) are the paper's; heads are those of the authors'
# scripts.
_ENCODER = {"n_layers": 6, "n_heads": 8}
PATCHES: Mapping[str, list[int]] = {"smoke": [4, 4], "authors": [13, 13]}
_PATCHED = _ENCODER | {"n_patches": PATCHES["authors"], "last": [64], "overlap": 0}
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
_SMOKE_TRAINING = Training(epochs=10, batch_size=4, schedule="one-cycle", loss="h1")
_SMOKE_RATES = {"TNO": 8e-3, "ViTNO": 8e-3, "FANO": 8e-3}  # of the others 4e-3
_DATA = Data(resolution=416, train=3600, validation=200, test=200)
_SMOKE_DATA = Data(resolution=48, train=160, validation=20, test=30)


@dataclass(frozen=True)
class _Plane:
    """A problem of Section 6.2 at one resolution: its law and samples, and each operator's batch size and rate."""

    name: str
    law: Problem
    data: Data
    steps: Mapping[str, tuple[int, float]]
    smoke_law: Problem
    smoke_resolution: int = 48

    def authors(self, operator: str) -> tuple[Problem, Data, Training]:
        """Law, samples and training of the paper."""
        batch_size, rate = self.steps[operator]
        return self.law, self.data, replace(_TRAINING, batch_size=batch_size, learning_rate=rate)

    def smoke(self, operator: str) -> tuple[Problem, Data, Training]:
        """The same made small."""
        training = replace(_SMOKE_TRAINING, learning_rate=_SMOKE_RATES.get(operator, 4e-3))
        return self.smoke_law, replace(_SMOKE_DATA, resolution=self.smoke_resolution), training


_SMALL_FLOW = Kolmogorov(start=5.0, n_modes=34, step=0.025)
_LAW, _JUMPS = LAWS["darcy-lognormal"], LAWS["darcy-piecewise"]
_FLOW_DATA = replace(_DATA, train=9000, validation=500, test=500)
_PLANES = {
    LOW: _Plane("darcy-64", _LAW, replace(_DATA, resolution=64), _LOW_STEPS, _LAW, 24),
    LOGNORMAL: _Plane("darcy-416", _LAW, _DATA, _DARCY_STEPS, _LAW),
    PIECEWISE: _Plane("piecewise-416", _JUMPS, _DATA, _DARCY_STEPS, _JUMPS),
    FLOW: _Plane("kolmogorov-416", LAWS["kolmogorov"], _FLOW_DATA, _FLOW_STEPS, _SMALL_FLOW),
}


def _plane(
    problem: str,
    operator: str,
    exhibits: tuple[str, ...],
    variant: str = "",
    width: int = 128,
    printed: Printed = Printed(),
    recipes: tuple[Recipe, ...] = OF_THE_PAPER,
    **changes: Any,
) -> Row:
    """A run of Section 6.2 under its name, PROBLEM-OPERATOR[-VARIANT]; changes are settings of the paper's operator."""
    plane = _PLANES[problem]
    name = "-".join(filter(None, (plane.name, operator.removesuffix("Transformer").lower(), variant)))
    settings: dict[str, Any] = {"name": operator, "hidden_channels": width} | _OPERATORS[operator] | changes
    smaller = _SMOKE_OPERATORS[operator] | {"hidden_channels": width // 4, "n_layers": settings["n_layers"] // 2}
    if "last" in settings:
        smaller |= {"last": [8, *settings["last"][1:]]}
    authors, smoke = (
        _experiment(name, given, *values)
        for given, values in ((settings, plane.authors(operator)), (settings | smaller, plane.smoke(operator)))
    )
    return Row(name, problem, operator, exhibits, authors, smoke, variant, printed, recipes)


def _experiment(name: str, operator: dict[str, Any], law: Problem, data: Data, training: Training) -> Experiment:
    if operator["name"] == "AFNO":
        operator = operator | {"shape": [data.resolution] * 2}
    return Experiment(name, law, operator, data, training)


def _added(name: str, operator: str, compared: Row, exhibits: tuple[str, ...] = (), variant: str = "") -> Row:
    """A run that the paper has not: a best recipe, beside the paper's run that it is compared with."""
    authors = replace(compared.authors, name=name)
    return Row(name, compared.problem, operator, exhibits, authors, None, variant, recipes=("best",))


_WITH_BEST: tuple[Recipe, ...] = (*OF_THE_PAPER, "best")
_TABLE_LOW, _TABLE_HIGH = "2d_median_errors_low", "2d_median_errors_high"
_LEFT, _RIGHT = "superresolution_lognormal_left", "superresolution_lognormal_right"
_WIDTHS = ("parameter_accuracy", "evaluation_cost_accuracy")
_HIGH: tuple[tuple[str, tuple[str, ...], str, Mapping[str, float]], ...] = (
    # The problem, its figures, that of FANO's samples, and the median of each operator in Table 2d_median_errors_high.
    (
        LOGNORMAL,
        (_RIGHT,),
        "FANO_lognormal_samples",
        {"ViTNO": 7.68e-3, "FANO": 8.39e-3, "FNO": 2.38e-2, "AFNO": 2.66e-2},
    ),
    (
        PIECEWISE,
        ("superresolution_piecewise", *_WIDTHS),
        "FANO_piecewise_samples",
        {"ViTNO": 9.72e-3, "FANO": 1.38e-2, "FNO": 3.78e-2, "AFNO": 3.09e-2},
    ),
    (
        FLOW,
        ("superresolution_KF", *_WIDTHS),
        "FANO_NS_samples",
        {"ViTNO": 1.07e-2, "FANO": 6.34e-3, "FNO": 1.52e-2, "AFNO": 3.99e-3},
    ),
)


def _low() -> list[Row]:
    found = [
        _plane(LOW, operator, (_TABLE_LOW, _LEFT), printed=printed, recipes=recipes)
        for operator, printed, recipes in (
            ("TNO", Printed(1.19e-2, parameters=5.98e5), _WITH_BEST),
            ("FNO", Printed(1.96e-2, parameters=5.70e6), OF_THE_PAPER),
            ("AFNO", Printed(2.57e-2, parameters=1.10e6), OF_THE_PAPER),
            ("GalerkinTransformer", Printed(7.30e-2, parameters=6.04e5), OF_THE_PAPER),
        )
    ]
    # Paper: four layers in the text, the parameters of six in the table.
    found.append(
        _plane(LOW, "GalerkinTransformer", (_TABLE_LOW,), "layers-6", printed=found[-1].printed, n_layers=6)
    )  # fmt: skip
    compared = replace(found[0], authors=replace(found[0].authors, operator=_OF_FANO))
    return [*found, _added("darcy-64-spectral", "SpectralOperator", compared, (_LEFT,))]


def _high(problem: str, figures: tuple[str, ...], samples: str, medians: Mapping[str, float]) -> list[Row]:
    """The four operators on one problem, a spectral operator, and both patched operators with patches that overlap."""
    found = {}
    for operator, median in medians.items():
        exhibits = (_TABLE_HIGH, *figures) + ((samples,) if operator == "FANO" else ())
        if problem == FLOW and operator == "FANO":
            exhibits += ("superresolution_KF_patching",)
        recipes = OF_THE_PAPER if operator == "FANO" else _WITH_BEST
        found[operator] = _plane(problem, operator, exhibits, printed=Printed(median), recipes=recipes)
    shown = (figures[0],) + (() if problem == FLOW else (samples,))
    name = f"{_PLANES[problem].name}-spectral"
    blended = [
        _added(f"{found[operator].name}-blended", operator, found[operator], variant="blended")
        for operator in ("ViTNO", "FANO")
    ]
    return [*found.values(), _added(name, "SpectralOperator", found["FANO"], shown), *blended]


def _patched_flow() -> list[Row]:
    """Smoothing and periodic extension, and the same few patches without either, to compare them with."""
    plain = _plane(FLOW, "FANO", ())
    shown = ("FANO_NS_samples", "superresolution_KF_patching")
    return [
        _plane(
            FLOW, "FANO", ("FANO_NS_samples_smoothing",), "smoothing", recipes=_WITH_BEST, last=[64, "periodic"]
        ),
        _plane(
            FLOW, "FANO", ("superresolution_KF_patching",), "extension", recipes=_WITH_BEST, basis="extended-fourier"
        ),
        _added("kolmogorov-416-fano-patches", "FANO", plain, shown, "patches"),
    ]  # fmt: skip


def _widths() -> list[Row]:
    """Figures parameter_accuracy and evaluation_cost_accuracy; their width 128 is above."""
    return [
        _plane(problem, operator, _WIDTHS, f"width-{width}", width)
        for problem in (PIECEWISE, FLOW)
        for operator in _DARCY_STEPS
        for width in (32, 64, 96)
    ]


def _li() -> list[Row]:
    """Solved on 421 x 421 nodes, every fifth of them kept, 1000 samples to train on and 200 to test.

    Every sixth, seventh and tenth node are readings of the same samples. The table of Li et al. has no validation
    samples; ours are further draws. "alone" reads nothing but the 85 nodes of 1000 samples, validation among them.
    """
    law, data = replace(Darcy.of_li_et_al(), read_from=421), Data(resolution=85, train=1000, validation=200, test=200)
    training = Training(epochs=80, batch_size=2, learning_rate=1e-3, schedule="plateau", loss="l2")
    fno = {"name": "FNO", "hidden_channels": 128} | _OPERATORS["FNO"]
    found = []
    for variant, operator, settings in (
        ("", "SpectralOperator", _OF_FANO), ("alone", "SpectralOperator", _OF_FANO), ("fno", "FNO", fno),
    ):  # fmt: skip
        name = "-".join(filter(None, ("darcy-li-85", variant)))
        some = replace(data, train=900, validation=100) if variant == "alone" else data
        compared = Experiment(name, law, settings, some, training)
        found.append(Row(name, LI, operator, (), compared, None, variant, recipes=("best",)))
    return found


_OF_FANO = _plane(LOGNORMAL, "FANO", ()).authors.operator
CATALOGUE: dict[str, Row] = {
    row.name: row
    for row in (
        _line("lorenz-yz", "lorenz-yz", ("xtoyz",), printed=Printed("< 1 %", "just below 10 %"), initial_channels=2),
        # Initial values as constant channels: in the lift of the paper they have a weight that depends on the grid.
        _line("lorenz-yz-invariant", "lorenz-yz", ("xtoyz",), recipes=_WITH_BEST),
        _line("lorenz-y", "lorenz-y", ("superresolution_1d", "irregular"), recipes=_WITH_BEST),
        _line("lorenz-y-transformer", "lorenz-y", ("irregular_t",), "Transformer"),
        _line("controlled-ode", "controlled-ode", ("superresolution_1d",)),
        *_low(),
        *(row for given in _HIGH for row in _high(*given)),
        *_patched_flow(),
        *_li(),
        *_widths(),
    )
}
