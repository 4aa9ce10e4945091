"""The studies of Section 6 and Appendix C, in the paper's order, and what goes beyond them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from operformer.errors import UsageError
from operformer.settings import check_name
from paper.figures import (
    growth,
    last_spectrum,
    resolutions,
    sample_pair,
    spectra,
    tradeoff,
    trained_spectrum,
)
from paper.record import operator_name, problem_name
from paper.study import FigureOf, Study, TableOf
from paper.tables import (
    accuracy_table,
    cost_table,
    grid_table,
    jump_table,
    parameter_table,
    rollout_table,
    scaling_table,
)

LORENZ = ("lorenz-yz", "lorenz-yz-invariant")
TIME = ("lorenz-y", "controlled-ode")
IRREGULAR = ("lorenz-y", "lorenz-y-transformer")
LOW = tuple(f"darcy-64-{operator}" for operator in ("tno", "fno", "afno", "galerkin"))
DEEPER = "darcy-64-galerkin-layers-6"
LOW_SPECTRAL = "darcy-64-spectral"  # which the paper has not, like those of 416 points
LOGNORMAL, PIECEWISE, KOLMOGOROV = (
    tuple(f"{problem}-416-{operator}" for operator in ("vitno", "fano", "fno", "afno"))
    for problem in ("darcy", "piecewise", "kolmogorov")
)
SPECTRAL = {problem: f"{problem}-416-spectral" for problem in ("darcy", "piecewise", "kolmogorov")}
HIGH = (*LOGNORMAL, *PIECEWISE, *KOLMOGOROV)
FANO = "kolmogorov-416-fano"
SMOOTHED, EXTENDED, PATCHED = (f"{FANO}-{variant}" for variant in ("smoothing", "extension", "patches"))
# The figures of samples: the run, or where it has none another one, and the grid.
PICTURED: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "xtoyz": (LORENZ, "1x"),
        "irregular": (IRREGULAR[:1], "irregular"),
        "irregular_t": (IRREGULAR[1:], "irregular"),
        "FANO_lognormal_samples": ((LOGNORMAL[1], SPECTRAL["darcy"]), "1x"),
        "FANO_piecewise_samples": ((PIECEWISE[1], SPECTRAL["piecewise"]), "1x"),
        "FANO_NS_samples": ((FANO, PATCHED), "1x"),
        "FANO_NS_samples_smoothing": ((SMOOTHED,), "1x"),
    }
)
NARROW = (32, 64, 96)  # widths beside the experiments' own, 128
WIDTHS = tuple(
    tuple(run for name in names for run in (*(f"{name}-width-{n}" for n in NARROW), name))
    for names in (PIECEWISE, KOLMOGOROV)
)


def _accuracy(name: str, title: str, names: Sequence[str]) -> TableOf:
    return TableOf(name, f"tab:{name}", partial(accuracy_table, title=title, names=names))


def _grids(name: str, names: Sequence[str]) -> TableOf:
    title = "Median error by grid; in brackets as a multiple of that on the training grid"
    return TableOf(name, f"tab:{name}", partial(grid_table, title=title, names=names))


def pictured_grids(run: str) -> tuple[str, ...]:
    """The labels of the grids that a figure shows samples of this run on."""
    return tuple(dict.fromkeys(label for runs, label in PICTURED.values() if run in runs))


def _pair(name: str, shown: str) -> FigureOf:
    runs, label = PICTURED[name]
    caption = f"The test samples of median and of worst error. {shown}"
    return FigureOf(name, f"fig:{name}", caption, partial(sample_pair, names=runs, label=label))


def _resolutions(name: str, names: Sequence[str], called: Callable[..., str] = operator_name) -> FigureOf:
    caption = "Median relative L2 error at resolutions that were not trained on; bands hold 80 % of the test samples."
    label = f"fig:{name.removesuffix('_left').removesuffix('_right')}"
    return FigureOf(name, label, caption, partial(resolutions, groups=(names,), called=called))


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
    LORENZ,
    (_accuracy("lorenz", "x(t), y(0), z(0) to y(t), z(t): relative L2 error", LORENZ), _grids("lorenz_grids", LORENZ)),
    (_pair("xtoyz", "Input, both outputs, error."),),
)
_TIME = Study(
    "time-resolution",
    "One dimension: other resolutions",
    "Lorenz 63, from x(t) to y(t), and the controlled ODE, at time steps that were not trained on.",
    TIME,
    (_grids("superresolution_1d", TIME),),
    (_resolutions("superresolution_1d", TIME, problem_name),),
)
_IRREGULAR = Study(
    "irregular",
    "One dimension: an irregular grid",
    "Trained on equal time steps, tested where those of the second half are twice as long (equation irregular_set). "
    "The transformer of Vaswani et al. is the same network without the weights of the grid.",
    IRREGULAR,
    (_grids("irregular", IRREGULAR),),
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
    (*LOW, DEEPER),
    (
        _accuracy("2d_median_errors_low", "Low resolution: relative L2 error", (*LOW, DEEPER)),
        _grids("low_resolution_grids", (*LOW, DEEPER)),
    ),
    (_resolutions("superresolution_lognormal_left", (*LOW, LOW_SPECTRAL)),),
)
_HIGH = Study(
    "high-resolution",
    "Darcy and Kolmogorov flow at 416 × 416",
    "The patched operators against FNO and AFNO on three problems.",
    HIGH,
    (
        _accuracy("2d_median_errors_high", "High resolution: relative L2 error", HIGH),
        _grids("high_resolution_grids", HIGH),
    ),
    (
        _pair("FANO_lognormal_samples", _DARCY),
        _pair("FANO_piecewise_samples", _DARCY),
        _pair("FANO_NS_samples", _FLOW),
        _resolutions("superresolution_lognormal_right", (*LOGNORMAL, SPECTRAL["darcy"])),
        _resolutions("superresolution_piecewise", (*PIECEWISE, SPECTRAL["piecewise"])),
        _resolutions("superresolution_KF", (*KOLMOGOROV, SPECTRAL["kolmogorov"])),
        _spectra("error_spectra", (LOGNORMAL, PIECEWISE, KOLMOGOROV)),
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
    (FANO, SMOOTHED),
    (
        _accuracy("smoothing", "Smoothing: relative L2 error", (FANO, SMOOTHED)),
        TableOf("face_jumps", "tab:face_jumps", partial(jump_table, title="Jumps", names=(FANO, SMOOTHED))),
    ),
    (_pair("FANO_NS_samples_smoothing", _FLOW), _spectra("smoothing_spectra", ((FANO, SMOOTHED),))),
)
_EXTENSION = Study(
    "periodic-extension",
    "Periodic extension of patches",
    "FANO whose patches are continued periodically before its integral operators, at other resolutions.",
    (FANO, EXTENDED),
    (_grids("superresolution_KF_patching", (FANO, EXTENDED)),),
    (_resolutions("superresolution_KF_patching", (FANO, PATCHED, EXTENDED)),),
)
_ROLLOUTS = Study(
    "rollouts",
    "Rollouts of Kolmogorov flow",
    "Beyond the paper: the learned map applied to its own output, against the flow itself.",
    KOLMOGOROV,
    (
        TableOf(
            "rollouts",
            "tab:rollouts",
            partial(rollout_table, title="Rollouts: median relative L2 error by time", names=KOLMOGOROV),
        ),
    ),
    (
        FigureOf(
            "rollouts",
            "fig:rollouts",
            "Median errors of rollouts; the dashed line is the forecast of no change.",
            partial(growth, names=KOLMOGOROV),
        ),
        FigureOf(
            "rollout_spectra",
            "fig:rollout_spectra",
            "The energy of the errors by wave number after the last step.",
            partial(spectra, groups=(KOLMOGOROV,), of=last_spectrum),
        ),
    ),
)
_ALL = (_LORENZ, _TIME, _IRREGULAR, _LOW, _HIGH, _COST, _SMOOTHING, _EXTENSION, _ROLLOUTS)
STUDIES: Mapping[str, Study] = MappingProxyType({study.name: study for study in _ALL})


def choose_studies(names: Sequence[str]) -> tuple[Study, ...]:
    """The studies of these names, or all of them, in the paper's order."""
    if not names:
        raise UsageError(f"name a study, or all: {', '.join(STUDIES)}")
    for name in names:
        check_name(name, [*STUDIES, "all"], f"unknown study {name}")
    return tuple(study for study in _ALL if "all" in names or study.name in names)
