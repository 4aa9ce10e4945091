"""The command about discretization invariance: certify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from operformer.commands.console import console

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
    """Is an operator the same map on every grid? Refine, coarsen, permute and irregularise, in float64.

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
    from operformer.evaluation.probes import problem_probes, smooth_probes
    from operformer.operators import load
    from operformer.runs import read_experiment

    is_run = (run / "operator").is_dir()
    operator = load(run / "operator" if is_run else run).double()
    if resolution and len(resolution) != operator.dim:
        raise UsageError(f"resolution must be one number for each of {operator.dim} axes: got {len(resolution)}")
    if samples < 1:
        raise UsageError(f"samples must be at least 1: got {samples}")
    if inputs == "smooth":
        probes = smooth_probes(operator, samples, seed=seed, periodic=(kind or operator.usual_kind) == "periodic")
    elif is_run:
        experiment = read_experiment(run)
        data = experiment.data
        probes = problem_probes(experiment.problem, samples, data.seed, first=data.train + data.validation)
    else:
        raise UsageError(f"{run} is an operator without its problem; give the folder of its run, or --inputs smooth")
    found = certificate.certify(operator, probes, resolution or None, kind=kind, seed=seed)
    for line in found.lines():
        console.print(line, soft_wrap=True)
    return 0 if found.passed else 1
