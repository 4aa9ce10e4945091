"""The commands about trust: certify and calibrate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from operformer.commands.console import console, show

if TYPE_CHECKING:
    from operformer.domain import Grid
    from operformer.operators import Operator

MOST_SAMPLES = 10_000  # of a certificate, on each of its grids
Sizes = Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="")]
Texts = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")]


def certify(
    run: Path,
    *,
    inputs: Literal["smooth", "problem"] = "smooth",
    resolution: Sizes = (),
    grid: Texts = (),
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
    grid
        The grid that the operator is to be used on: points along each axis, a .csv, .npy or .npz file of points, or the
        folder of a set. The verdict then names the error there.
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
    if not 1 <= samples <= MOST_SAMPLES:
        raise UsageError(f"samples must be from 1 to {MOST_SAMPLES}: got {samples}")
    if not 0 <= seed < 2**32:
        raise UsageError(f"seed must be from 0 to 2^32 - 1: got {seed}")
    probes: Probes
    if inputs == "smooth":
        probes = smooth_probes(operator, samples, seed=seed, periodic=(kind or operator.usual_kind) == "periodic")
    elif is_run:
        experiment = read_experiment(run)
        data = experiment.data
        probes = problem_probes(experiment.problem, samples, data.seed, first=data.train + data.validation)
    else:
        raise UsageError(f"{run} is an operator without its problem; give the folder of its run, or --inputs smooth")
    own = _own_grid(grid, operator, kind) if grid else None
    found = certificate.certify(operator, probes, resolution or None, kind=kind, seed=seed, grid=own)
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
        The share of the domain that may lie outside; 0 allows none.
    spread
        The form of the band: the errors' root mean square at each point, which half of the samples are needed for, or
        the same width everywhere.
    draws
        So many fresh samples of the problem's law to calibrate with; the validation samples, which also chose the epoch
        that is kept, if not given.
    """
    from operformer.evaluation.conformal import sentences
    from operformer.runs import calibrate_run
    from operformer.runs.report.tables import coverage_table

    found, coverages = calibrate_run(run, alpha, delta, spread, draws)
    for line in sentences(found):
        console.print(line, soft_wrap=True)
    show(coverage_table(coverages))
    console.print(f"calibrated: {run / 'calibration.json'}", soft_wrap=True)


def _own_grid(given: tuple[str, ...], operator: Operator, kind: Literal["nodes", "periodic"] | None) -> Grid:
    """Sizes of a uniform grid, the points of a file, or the grid of a set."""
    import torch

    from operformer.data.manifest import MANIFEST
    from operformer.data.points import read_points
    from operformer.data.store import open_pairs
    from operformer.domain import Grid, voronoi_weights

    if all(text.isdecimal() for text in given):
        return Grid.uniform([int(text) for text in given], operator.bounds, kind or operator.usual_kind)
    path = Path(given[0])
    if (path / MANIFEST).is_file():
        return open_pairs(path).grid
    points = torch.from_numpy(read_points(path, operator.dim))
    return Grid.scattered(points, voronoi_weights(points, operator.bounds), operator.bounds)
