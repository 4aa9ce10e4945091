"""The commands about trust: certify and calibrate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from operformer.commands.console import console, show

if TYPE_CHECKING:
    from operformer.evaluation.conformal import Coverage
    from operformer.runs.report.tables import Table


Sizes = Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="")]


def certify(
    run: Path,
    *,
    inputs: Literal["smooth", "problem"] = "smooth",
    resolution: Sizes = (),
    kind: Literal["nodes", "periodic"] | None = None,
    samples: int = 3,
    seed: int = 0,
) -> int:
    """Is an operator the same map on every grid? Refine, coarsen, permute, rename and irregularise, in float64.

    The exit code is 0 if the certificate is passed and 1 if it is not.

    Parameters
    ----------
    run
        The folder of a run, or of a saved operator.
    inputs
        Random smooth fields in the operator's own units, or draws of the run's problem.
    resolution
        Intervals along each axis, from whose half to whose fourfold (sixteenfold in 1-d) the grids reach; what
        resolves the operator's modes if not given.
    kind
        Uniform grids with both ends, or one period; what suits the operator if not given.
    samples
        How many inputs.
    seed
        Of the inputs and of the scattered points.
    """
    from operformer.errors import UsageError
    from operformer.evaluation import certificate
    from operformer.evaluation.probes import Probes, problem_probes, smooth_probes
    from operformer.operators.pretrained import load_hashed
    from operformer.runs import read_experiment

    is_run = (run / "operator").is_dir()
    operator, weights = load_hashed(run / "operator" if is_run else run)
    operator = operator.double()
    if resolution and len(resolution) != operator.dim:
        raise UsageError(f"resolution must be one number for each of {operator.dim} axes: got {len(resolution)}")
    if samples < 1:
        raise UsageError(f"samples must be at least 1: got {samples}")
    probes: Probes
    if inputs == "smooth":
        probes = smooth_probes(operator, samples, seed=seed, periodic=(kind or operator.usual_kind) == "periodic")
    elif is_run:
        experiment = read_experiment(run)
        data = experiment.data
        probes = problem_probes(experiment.problem, samples, data.seed, first=data.train + data.validation)
    else:
        raise UsageError(f"{run} is an operator without its problem; give the folder of its run, or --inputs smooth")
    found = certificate.certify(operator, probes, resolution or None, kind=kind, seed=seed)
    for line in replace(found, weights=weights).lines():
        console.print(line, soft_wrap=True)
    return 0 if found.passed else 1


def calibrate(
    run: Path,
    *,
    alpha: float = 0.1,
    delta: float = 0.05,
    spread: Literal["rms", "constant"] = "rms",
    draws: int | None = None,
) -> None:
    """How far off may a prediction be? A conformal band around it, and a bound of its relative L2 error.

    With probability 1 - alpha the truth lies in the band on at least 1 - delta of the domain, by volume. What is found
    goes to calibration.json, with how often it holds on the test samples.

    Parameters
    ----------
    run
        The folder of the run.
    alpha
        The probability that a function leaves the band, or that an error exceeds the bound.
    delta
        The share of the domain that may lie outside; 0 is none.
    spread
        The form of the band: the errors' root mean square at each point, which half of the samples are needed for, or
        the same width everywhere.
    draws
        So many fresh samples of the problem's law to calibrate with; the validation samples, which also chose the epoch
        that is kept, if not given.
    """
    from operformer.runs import calibrate_run
    from operformer.runs.report.tables import percent

    found, coverages = calibrate_run(run, alpha, delta, spread, draws)
    half = found.half_width(found.grid)
    inside = "everywhere" if delta == 0 else f"on at least {1 - delta:.6g} of the domain"
    console.print(f"with probability {1 - alpha:.6g}, from the scores of {found.count} samples:", soft_wrap=True)
    widths = f"{float(half.min()):.3g} to {float(half.max()):.3g}"
    console.print(f"  the truth is within {widths} of the prediction {inside}", soft_wrap=True)
    console.print(f"  its relative L2 error is at most {percent(found.relative_error)}", soft_wrap=True)
    show(_coverage_table(coverages))
    console.print(f"calibrated: {run / 'calibration.json'}", soft_wrap=True)


def _coverage_table(coverages: dict[str, Coverage]) -> Table:
    from operformer.runs.report.tables import Table, grid_name

    rows = tuple(
        (grid_name(label), str(c.count), f"{c.functions:.1%}", f"{c.volume:.1%}", f"{c.relative_errors:.1%}")
        for label, c in coverages.items()
    )
    return Table("Test samples that it holds for", ("grid", "samples", "band", "volume inside", "error"), rows)
