"""The studies of a reproduction: which experiments each needs, and the tables and figures that it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from matplotlib.figure import Figure

from operformer.errors import UsageError
from operformer.report.tables import Table
from operformer.reproduction.figures import growth, resolutions, sample_pair, spectra, tradeoff
from operformer.reproduction.record import Results, problem_name
from operformer.reproduction.tables import (
    accuracy_table,
    cost_table,
    grid_table,
    jump_table,
    parameter_table,
    rollout_table,
    scaling_table,
)
from operformer.settings import check_name


@dataclass(frozen=True)
class TableOf:
    """A table, under the paper's label where it has one."""

    name: str  # of its files
    label: str
    make: Callable[[Results], Table]


@dataclass(frozen=True)
class FigureOf:
    """A figure and what it shows."""

    name: str
    label: str
    caption: str
    draw: Callable[[Results], Figure | None]


@dataclass(frozen=True)
class Study:
    """A part of Section 6, or of what goes beyond it."""

    name: str
    title: str
    text: str
    experiments: tuple[str, ...]
    tables: tuple[TableOf, ...] = ()
    figures: tuple[FigureOf, ...] = ()


OPERATORS = ("vitno", "fano", "fno", "afno")
WIDTHS = (32, 64, 96)  # beside the experiments' own, 128
LOW = tuple(f"darcy-64-{name}" for name in ("tno", "fno", "afno", "galerkin"))
LOGNORMAL, PIECEWISE, KOLMOGOROV = (
    tuple(f"{problem}-416-{name}" for name in OPERATORS) for problem in ("darcy", "piecewise", "kolmogorov")
)
EXTENDED, SMOOTHED = "kolmogorov-416-fano-extension", "kolmogorov-416-fano-smoothing"
FANO = "kolmogorov-416-fano"
WIDE = tuple(
    tuple(f"{name}-width-{width}" for name in names for width in WIDTHS) + names for names in (PIECEWISE, KOLMOGOROV)
)
_ROWS = "The test samples of median (above) and of worst error (below): "
_BANDS = "Median relative L2 error at resolutions that were not trained on; bands hold 80 % of the test samples."


def _accuracy(name: str, label: str, title: str, names: Sequence[str]) -> TableOf:
    return TableOf(name, label, partial(accuracy_table, title=title, names=names))


def _grids(name: str, names: Sequence[str]) -> TableOf:
    title = "Median error by grid; in brackets as a multiple of that on the training grid"
    return TableOf(name, f"tab:{name}", partial(grid_table, title=title, names=names))


LORENZ = ("lorenz-yz", "lorenz-yz-invariant")
TIME = ("lorenz-y", "controlled-ode")
IRREGULAR = ("lorenz-y", "lorenz-y-transformer")

_ALL = (
    Study(
        "lorenz",
        "Lorenz 63: both unobserved trajectories",
        "From x(t), y(0), z(0) to y(t) and z(t) (Section 6.1). The paper: median error below 1 %, worst just below 10 %. "
        "The first run has the paper's second lift for the initial values; the second run has them as constant "
        "channels, which mean the same at every resolution.",
        LORENZ,
        (_accuracy("lorenz", "tab:lorenz", "Lorenz 63, x(t), y(0), z(0) to y(t), z(t): relative L2 error", LORENZ),
         _grids("lorenz_grids", LORENZ)),
        (FigureOf("xtoyz", "fig:xtoyz", "The test samples of median (left) and of worst error (right).",
                  partial(sample_pair, name="lorenz-yz")),),
    ),
    Study(
        "time-resolution",
        "One dimension: other resolutions",
        "Lorenz 63, from x(t) to y(t), and the controlled ODE, at time steps that were not trained on.",
        TIME,
        (_grids("time_grids", TIME),),
        (FigureOf("superresolution_1d", "fig:superresolution_1d", _BANDS,
                  partial(resolutions, groups=(TIME,), called=problem_name)),),
    ),
    Study(
        "irregular",
        "One dimension: an irregular grid",
        "Trained on equal time steps, tested where the second half of the steps is twice as long (equation "
        "irregular_set). The transformer of Vaswani et al. is the same network without the weights of the grid.",
        IRREGULAR,
        (_grids("irregular_grids", IRREGULAR),),
        tuple(
            FigureOf(figure, f"fig:{figure}", f"{who} on the irregular grid: median (left) and worst error (right).",
                     partial(sample_pair, name=name, label="irregular"))
            for figure, who, name in (("irregular", "TNO", IRREGULAR[0]), ("irregular_t", "Transformer", IRREGULAR[1]))
        ),
    ),
    Study(
        "low-resolution",
        "Darcy flow at 64 × 64",
        "Attention between points against FNO, AFNO and the Galerkin transformer, lognormal coefficient. AFNO belongs to "
        "one resolution.",
        LOW,
        (_accuracy("2d_median_errors_low", "tab:2d_median_errors_low", "Low resolution: relative L2 error", LOW),
         _grids("low_grids", LOW)),
        (FigureOf("superresolution_lognormal_left", "fig:superresolution_lognormal", _BANDS,
                  partial(resolutions, groups=(LOW,))),),
    ),
    Study(
        "high-resolution",
        "Darcy and Kolmogorov flow at 416 × 416",
        "The patched operators against FNO and AFNO on three problems.",
        (*LOGNORMAL, *PIECEWISE, *KOLMOGOROV),
        (_accuracy("2d_median_errors_high", "tab:2d_median_errors_high", "High resolution: relative L2 error",
                   (*LOGNORMAL, *PIECEWISE, *KOLMOGOROV)),
         _grids("high_grids", (*LOGNORMAL, *PIECEWISE, *KOLMOGOROV))),
        (
            *(FigureOf(f"FANO_{figure}_samples", f"fig:FANO_{figure}_samples", _ROWS + shown, partial(sample_pair, name=name))
              for figure, name, shown in (
                  ("lognormal", LOGNORMAL[1], "coefficient, pressure, FANO's pressure, logarithm of the error."),
                  ("piecewise", PIECEWISE[1], "coefficient, pressure, FANO's pressure, logarithm of the error."),
                  ("NS", KOLMOGOROV[1], "vorticity, its change, FANO's change, logarithm of the error."))),
            *(FigureOf(f"superresolution_{figure}", f"fig:superresolution_{label}", _BANDS,
                       partial(resolutions, groups=(names,)))
              for figure, label, names in (("lognormal_right", "lognormal", LOGNORMAL),
                                           ("piecewise", "piecewise", PIECEWISE), ("KF", "KF", KOLMOGOROV))),
            FigureOf("error_spectra", "fig:error_spectra", "Beyond the paper: where in wave number the errors are.",
                     partial(spectra, groups=(LOGNORMAL, PIECEWISE, KOLMOGOROV))),
        ),
    ),
    Study(
        "cost",
        "Cost against accuracy",
        "Parameters and operations by the formulas of Appendix C and counted on the modules of this library; then errors "
        "of several widths over both. A complex parameter counts once. Counted are products of matrices and FFTs.",
        (*WIDE[0], *WIDE[1]),
        (
            TableOf("evaluation_cost", "tab:evaluation_cost", scaling_table),
            TableOf("evaluation_cost1", "tab:evaluation_cost1", cost_table),
            TableOf("parameter_complexity1", "tab:parameter_complexity1", parameter_table),
            _accuracy("widths", "tab:widths", "Widths: relative L2 error", (*WIDE[0], *WIDE[1])),
        ),
        tuple(
            FigureOf(figure, f"fig:{figure}", f"Median error against {what}; the numbers are channel widths.",
                     partial(tradeoff, groups=WIDE, cost=cost))
            for figure, what, cost in (
                ("parameter_accuracy", "the number of parameters", "parameters"),
                ("evaluation_cost_accuracy", "the operations of one evaluation", "operations"))
        ),
    ),
    Study(
        "smoothing",
        "A smoothing last layer",
        "(I - ε Laplace)^-α after FANO, ε = 0.001, α = 1.001 (Remark on smoothing). Differences of the error between "
        "neighbouring points, root mean square in units of the truth's, across faces of patches and inside them: a ratio "
        "of 1 means that faces are like any other place.",
        (FANO, SMOOTHED),
        (
            _accuracy("smoothing", "tab:smoothing", "Smoothing: relative L2 error", (FANO, SMOOTHED)),
            TableOf("face_jumps", "tab:face_jumps",
                    partial(jump_table, title="Jumps between patches", names=(FANO, SMOOTHED))),
        ),
        (
            FigureOf("FANO_NS_samples_smoothing", "fig:FANO_NS_samples_smoothing",
                     _ROWS + "vorticity, its change, the smoothed FANO's change, logarithm of the error.",
                     partial(sample_pair, name=SMOOTHED)),
            FigureOf("smoothing_spectra", "fig:smoothing_spectra", "Beyond the paper: where in wave number the errors are.",
                     partial(spectra, groups=((FANO, SMOOTHED),))),
        ),
    ),
    Study(
        "periodic-extension",
        "Periodic extension of patches",
        "FANO whose patches are continued periodically before the Fourier integral operator, at other resolutions.",
        (FANO, EXTENDED),
        (_grids("extension_grids", (FANO, EXTENDED)),),
        (FigureOf("superresolution_KF_patching", "fig:superresolution_KF_patching", _BANDS,
                  partial(resolutions, groups=((FANO, EXTENDED),))),),
    ),
    Study(
        "rollouts",
        "Rollouts of Kolmogorov flow",
        "Beyond the paper: the learned map applied to its own output, against the flow itself.",
        KOLMOGOROV,
        (TableOf("rollouts", "tab:rollouts",
                 partial(rollout_table, title="Rollouts: median relative L2 error by time", names=KOLMOGOROV)),),
        (FigureOf("rollouts", "fig:rollouts", "Median errors of rollouts; the dashed line is the forecast of no change.",
                  partial(growth, names=KOLMOGOROV)),),
    ),
)  # fmt: skip
STUDIES: Mapping[str, Study] = MappingProxyType({study.name: study for study in _ALL})


def choose_studies(names: Sequence[str]) -> tuple[Study, ...]:
    """The studies of these names, "all" among them, in the paper's order."""
    if not names:
        raise UsageError(f"name a study, or all: {', '.join(STUDIES)}")
    for name in names:
        check_name(name, [*STUDIES, "all"], f"unknown study {name}")
    return tuple(study for study in _ALL if "all" in names or study.name in names)
