"""The studies of Section 6 and Appendix C, in the paper's order, and what goes beyond them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from operformer.errors import UsageError
from operformer.runs.report.tables import Table
from operformer.settings import check_name
from paper.catalogue import FLOW, LOGNORMAL, PIECEWISE, find_row, rows
from paper.figures import (
    growth,
    last_spectrum,
    resolutions,
    sample_pair,
    spectra,
    tradeoff,
    trained_spectrum,
)
from paper.record import Results, operator_name, problem_name
from paper.tables import (
    accuracy_table,
    cost_table,
    grid_table,
    jump_table,
    parameter_table,
    rollout_table,
    scaling_table,
)


@dataclass(frozen=True)
class TableOf:
    """A table; ``label`` is the paper's where it has one."""

    name: str  # of its files
    label: str
    make: Callable[[Results], Table]


@dataclass(frozen=True)
class FigureOf:
    """A figure and what it shows; None is drawn where none of its runs was made."""

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
    runs: tuple[str, ...]
    tables: tuple[TableOf, ...] = ()
    figures: tuple[FigureOf, ...] = ()


# The figures of samples, and the grid that each shows.
PICTURED: Mapping[str, str] = {
    "xtoyz": "1x",
    "irregular": "irregular",
    "irregular_t": "irregular",
    "FANO_lognormal_samples": "1x",
    "FANO_piecewise_samples": "1x",
    "FANO_NS_samples": "1x",
    "FANO_NS_samples_smoothing": "1x",
}


def pictured_grids(run: str) -> tuple[str, ...]:
    """The labels of the grids that a figure shows samples of this run on."""
    return tuple(dict.fromkeys(PICTURED[label] for label in find_row(run).exhibits if label in PICTURED))


def runs_of(exhibit: str, problem: str = "", of_the_paper: bool = False) -> tuple[str, ...]:
    """The runs that an exhibit shows, or those of them that the paper has."""
    return tuple(row.name for row in rows(exhibit, problem, recipe="authors" if of_the_paper else ""))


def _widths(problem: str) -> tuple[str, ...]:
    """The runs of the figures of costs, by operator and by width."""
    shown = rows("parameter_accuracy", problem)
    operators = list(dict.fromkeys(row.operator for row in shown))
    return tuple(row.name for row in sorted(shown, key=lambda row: (operators.index(row.operator), row.width)))


WIDTHS = (_widths(PIECEWISE), _widths(FLOW))
_XTOYZ, _TIME_RUNS = runs_of("xtoyz"), runs_of("superresolution_1d")
_IRREGULAR_RUNS = (*runs_of("irregular"), *runs_of("irregular_t"))
_LOW_RUNS, _HIGH_RUNS = runs_of("2d_median_errors_low"), runs_of("2d_median_errors_high")
_BY_PROBLEM = tuple(runs_of("2d_median_errors_high", problem) for problem in (LOGNORMAL, PIECEWISE, FLOW))
_FLOW_RUNS = _BY_PROBLEM[2]
_SMOOTHED = tuple(row.name for row in rows("", FLOW, "FANO", ("", "smoothing")))
_EXTENDED = runs_of("superresolution_KF_patching", of_the_paper=True)


def _accuracy(name: str, title: str, names: Sequence[str]) -> TableOf:
    return TableOf(name, f"tab:{name}", partial(accuracy_table, title=title, names=names))


def _grids(name: str, names: Sequence[str]) -> TableOf:
    title = "Median error by grid; in brackets as a multiple of that on the training grid"
    return TableOf(name, f"tab:{name}", partial(grid_table, title=title, names=names))


def _pair(name: str, shown: str) -> FigureOf:
    caption = f"The test samples of median and of worst error. {shown}"
    return FigureOf(name, f"fig:{name}", caption, partial(sample_pair, names=runs_of(name), label=PICTURED[name]))


def _resolutions(name: str, called: Callable[..., str] = operator_name) -> FigureOf:
    caption = "Median relative L2 error at resolutions that were not trained on; bands hold 80 % of the test samples."
    label = f"fig:{name.removesuffix('_left').removesuffix('_right')}"
    return FigureOf(name, label, caption, partial(resolutions, groups=(runs_of(name),), called=called))


def _spectra(name: str, groups: Sequence[Sequence[str]]) -> FigureOf:
    caption = "Beyond the paper: the energy of the errors by wave number."
    return FigureOf(name, f"fig:{name}", caption, partial(spectra, groups=groups, of=trained_spectrum))


def _tradeoff(name: str, what: str, cost: str) -> FigureOf:
    caption = f"Median error against {what}; the numbers are channel widths."
    return FigureOf(name, f"fig:{name}", caption, partial(tradeoff, groups=WIDTHS, cost=cost))


_DARCY = "Coefficient, pressure, predicted pressure, logarithm of the error."
_FLOW = "Vorticity, its change, the predicted change, logarithm of the error."

_LORENZ = Study(
    "lorenz",
    "Lorenz 63: both unobserved trajectories",
    "From x(t), y(0), z(0) to y(t) and z(t) (Section 6.1). The first run has the paper's second lift for the initial "
    "values; the other one has them as constant channels, which mean the same at every resolution.",
    _XTOYZ,
    (_accuracy("lorenz", "x(t), y(0), z(0) to y(t), z(t): relative L2 error", _XTOYZ), _grids("lorenz_grids", _XTOYZ)),
    (_pair("xtoyz", "Input, both outputs, error."),),
)
_TIME = Study(
    "time-resolution",
    "One dimension: other resolutions",
    "Lorenz 63, from x(t) to y(t), and the controlled ODE, at time steps that were not trained on.",
    _TIME_RUNS,
    (_grids("superresolution_1d", _TIME_RUNS),),
    (_resolutions("superresolution_1d", problem_name),),
)
_IRREGULAR = Study(
    "irregular",
    "One dimension: an irregular grid",
    "Trained on equal time steps, tested where those of the second half are twice as long (equation irregular_set). "
    "The transformer of Vaswani et al. is the same network without the weights of the grid.",
    _IRREGULAR_RUNS,
    (_grids("irregular", _IRREGULAR_RUNS),),
    (
        _pair("irregular", "TNO on the irregular grid."),
        _pair("irregular_t", "Transformer on the irregular grid."),
    ),
)
_LOW = Study(
    "low-resolution",
    "Darcy flow at 64 × 64",
    "Attention between points against FNO, AFNO and the Galerkin transformer, lognormal coefficient. AFNO belongs to "
    "one resolution. The paper's text has four layers of the Galerkin transformer, its table the parameters of six.",
    _LOW_RUNS,
    (
        _accuracy("2d_median_errors_low", "Low resolution: relative L2 error", _LOW_RUNS),
        _grids("low_resolution_grids", _LOW_RUNS),
    ),
    (_resolutions("superresolution_lognormal_left"),),
)
_HIGH = Study(
    "high-resolution",
    "Darcy and Kolmogorov flow at 416 × 416",
    "The patched operators against FNO and AFNO on three problems.",
    _HIGH_RUNS,
    (
        _accuracy("2d_median_errors_high", "High resolution: relative L2 error", _HIGH_RUNS),
        _grids("high_resolution_grids", _HIGH_RUNS),
    ),
    (
        _pair("FANO_lognormal_samples", _DARCY),
        _pair("FANO_piecewise_samples", _DARCY),
        _pair("FANO_NS_samples", _FLOW),
        _resolutions("superresolution_lognormal_right"),
        _resolutions("superresolution_piecewise"),
        _resolutions("superresolution_KF"),
        _spectra("error_spectra", _BY_PROBLEM),
    ),
)
_COST = Study(
    "cost",
    "Cost against accuracy",
    "Parameters and operations by the formulas of Appendix C and counted on the modules of this library; then the "
    "errors of several widths over both. A complex parameter counts once. Products of matrices and FFTs are counted, "
    "in Appendix C's way.",
    (*WIDTHS[0], *WIDTHS[1]),
    (
        TableOf("evaluation_cost", "tab:evaluation_cost", scaling_table),
        TableOf("evaluation_cost1", "tab:evaluation_cost1", cost_table),
        TableOf("parameter_complexity1", "tab:parameter_complexity1", parameter_table),
        _accuracy("widths", "Widths: relative L2 error", (*WIDTHS[0], *WIDTHS[1])),
    ),
    (
        _tradeoff("parameter_accuracy", "the number of parameters", "parameters"),
        _tradeoff("evaluation_cost_accuracy", "the operations of one evaluation", "operations"),
    ),
)
_SMOOTHING = Study(
    "smoothing",
    "A smoothing last layer",
    "(I - ε Laplace)^-α after FANO, ε = 0.001, α = 1.001. Jumps are differences of the error between neighbouring "
    "points, root mean square in units of the truth's: across faces of patches, and inside patches. Their ratio is to "
    "be seen beside that of the truth, which knows no patches: it is not 1 where faces and waves of the flow align.",
    _SMOOTHED,
    (
        _accuracy("smoothing", "Smoothing: relative L2 error", _SMOOTHED),
        TableOf("face_jumps", "tab:face_jumps", partial(jump_table, title="Jumps", names=_SMOOTHED)),
    ),
    (_pair("FANO_NS_samples_smoothing", _FLOW), _spectra("smoothing_spectra", (_SMOOTHED,))),
)
_EXTENSION = Study(
    "periodic-extension",
    "Periodic extension of patches",
    "FANO whose patches are continued periodically before its integral operators, at other resolutions.",
    _EXTENDED,
    (_grids("superresolution_KF_patching", _EXTENDED),),
    (_resolutions("superresolution_KF_patching"),),
)
_ROLLOUTS = Study(
    "rollouts",
    "Rollouts of Kolmogorov flow",
    "Beyond the paper: the learned map applied to its own output, against the flow itself.",
    _FLOW_RUNS,
    (
        TableOf(
            "rollouts",
            "tab:rollouts",
            partial(rollout_table, title="Rollouts: median relative L2 error by time", names=_FLOW_RUNS),
        ),
    ),
    (
        FigureOf(
            "rollouts",
            "fig:rollouts",
            "Median errors of rollouts; the dashed line is the forecast of no change.",
            partial(growth, names=_FLOW_RUNS),
        ),
        FigureOf(
            "rollout_spectra",
            "fig:rollout_spectra",
            "The energy of the errors by wave number after the last step.",
            partial(spectra, groups=(_FLOW_RUNS,), of=last_spectrum),
        ),
    ),
)
_ALL = (_LORENZ, _TIME, _IRREGULAR, _LOW, _HIGH, _COST, _SMOOTHING, _EXTENSION, _ROLLOUTS)
STUDIES: Mapping[str, Study] = {study.name: study for study in _ALL}


def choose_studies(names: Sequence[str]) -> tuple[Study, ...]:
    """The studies of these names, or all of them, in the paper's order."""
    if not names:
        raise UsageError(f"name a study, or all: {', '.join(STUDIES)}")
    for name in names:
        check_name(name, [*STUDIES, "all"], f"unknown study {name}")
    return tuple(study for study in _ALL if "all" in names or study.name in names)
