"""The command about functions of one's own: predict."""

from __future__ import annotations

from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from operformer import __version__
from operformer.commands.console import console
from operformer.commands.data import Names, Numbers, box_of, refuse_unfinished
from operformer.commands.trust import Sizes
from operformer.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from operformer.data.contents import WeightsName
    from operformer.domain import Grid, Samples
    from operformer.domain.grid import UniformKind
    from operformer.evaluation.conformal import Calibration
    from operformer.operators import Operator

MOST_ESTIMATED = 8  # functions that the error of sources is estimated on


def predict(
    run: Path,
    inputs: Path,
    *,
    out: Path,
    resolution: Sizes = (),
    points: Path | None = None,
    grid: Literal["nodes", "cells", "periodic", "left"] | None = None,
    bounds: Numbers = (),
    u: Names = (),
    parameters: Names = (),
    layout: str | None = None,
    weights: Literal["voronoi", "equal"] | None = None,
    analysis: Literal["quadrature", "least-squares"] | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    force: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Apply a trained operator to functions of your own; the output's file holds z, u, their grid and their names.

    Where z had points of its own in the training samples, it is predicted there.

    Parameters
    ----------
    run
        The folder of a run, or of a saved operator.
    inputs
        A file with the inputs: .npz, .npy, HDF5, MATLAB or torch.save's .pt, as for import, but it needs no outputs;
        or the folder of a set.
    out
        The file to write, .npz or .h5.
    resolution
        Points along each axis (one number for all, or one each) of a uniform grid of the same domain to predict on,
        in place of the input's.
    points
        A .csv, .npy or .npz file of points to predict at, in place of the input's.
    grid
        Where the values are known, if the file has no coordinates; the kind that the run was trained on if not given.
    bounds
        Lower and upper end of each axis; the domain that the operator was trained on if the file has no coordinates.
    u
        The names of the input's arrays; more than one become channels.
    parameters
        The names of arrays with numbers for each sample, as for import.
    layout
        What the axes are, such as "b x y c", where their number and the operator's channels do not tell.
    weights
        Of scattered points whose file has no array weights: the volumes of their Voronoi cells, or all equal. If not
        given, what the run was trained with, else Voronoi.
    analysis
        How a FANO or a SpectralOperator finds coefficients at scattered points: by their weights, or by least squares,
        which need fewer points. By weights if not given.
    device
        Where to compute.
    force
        Replace the output's file if it is there.
    """
    from operformer.data.exchange import check_name, write
    from operformer.evaluation import prediction

    check_name(out)
    if lexists(out) and not force:
        raise UsageError(f"{out} is there already; give another --out, or --force to replace it")
    is_run = (run / "operator").is_dir()
    operator = _operator(run / "operator" if is_run else run, device, analysis)
    trained = _trained_on(run) if is_run else None
    kind, trained_weights = (None, None) if trained is None else _told_by(trained)
    options = {"layout": layout, "parameters": parameters, "grid": grid, "bounds": box_of(bounds), "kind": kind}
    options |= {"weights": weights or trained_weights or "voronoi"}
    values, where, query = _inputs(inputs, operator, list(u) or None, options)
    if points is not None:
        query = _at(points, operator, where)
    elif resolution:
        query = None
    elif query is None and is_run:
        query = _trained_query(run)
    domain = _domain(trained, where)
    found = prediction.predict(operator, values, where, resolution=resolution or None, query=query, domain=domain)
    calibration = _calibration(run)
    more = {} if calibration is None else _band(calibration, found)
    write(found, out, not force, more | {"version": __version__} | (_names(run) if is_run else {}))
    there = f", predicted on {found.grid}" if resolution or query else ""
    lines = [f"{len(found)} functions on {where}{there}", *_in_words(calibration), *_sources(operator, values, where)]
    for line in (*lines, f"predicted: {out}"):
        console.print(line, soft_wrap=True, highlight=False)


def _operator(folder: Path, device: str, analysis: str | None) -> Operator:
    """The trained operator, where it computes and as it finds coefficients."""
    import torch

    from operformer.operators import load

    if device == "cuda" and not torch.cuda.is_available():
        raise ResourceError('the device is "cuda", but no CUDA device was found; leave it out for the CPU')
    operator = load(folder).to(device)
    if analysis is not None:
        if not hasattr(operator, "analysis"):
            raise UsageError(f"{operator.kind} finds no coefficients at scattered points; leave --analysis out")
        operator.analysis = analysis  # type: ignore[assignment]  # it has one
    return operator


def _in_words(calibration: Calibration | None) -> list[str]:
    """What a calibrated run promises of z."""
    from operformer.evaluation.conformal import sentences

    return [] if calibration is None else list(sentences(calibration, "z", "half_width"))


def _sources(operator: Operator, values: Tensor, where: Grid) -> list[str]:
    """What attention to averages costs in accuracy, on the first functions; nothing without them."""
    from operformer.evaluation.source_error import sentence, source_error

    if getattr(operator, "sources", None) is None:
        return []
    some = slice(0, MOST_ESTIMATED)
    grid = where.of_samples(some).to(operator.input_mean.device)
    return [sentence(operator, source_error(operator, values[some].to(operator.input_mean), grid))]


def _at(path: Path, operator: Operator, where: Grid) -> Grid:
    """The points of a file, in the domain of the inputs."""
    import torch

    from operformer.data.points import read_points
    from operformer.domain import Grid

    return Grid.scattered(torch.from_numpy(read_points(path, operator.dim)), bounds=where.bounds)


def _inputs(
    path: Path, operator: Operator, u: list[str] | None, options: dict[str, Any]
) -> tuple[Tensor, Grid, Grid | None]:
    """The functions of a set, with its query, or of a file that is read by `operformer.read_inputs`."""
    import torch

    from operformer.data.exchange import read_inputs
    from operformer.data.manifest import MANIFEST
    from operformer.data.store import open_pairs

    if (path / MANIFEST).is_file():
        pairs = open_pairs(path)
        return torch.cat([block.u for block in pairs.blocks(64)]), pairs.grid, pairs.query
    refuse_unfinished(path)
    return *read_inputs(path, operator, u, **options), None


def _names(run: Path) -> dict[str, Any]:
    """What the channels are called, and their units; nothing if the run's set was moved."""
    from operformer.errors import OperformerError
    from operformer.runs import read_experiment

    try:
        problem = read_experiment(run).problem
        named = {"u": problem.input_names, "z": problem.output_names}
    except OperformerError:
        return {}
    units = problem.units
    texts = {f"{one}_names": names for one, names in named.items()}
    return texts | {f"{one}_units": [units.get(name, "") for name in names] for one, names in named.items() if units}


def _calibration(run: Path) -> Calibration | None:
    """That of a run that was calibrated."""
    from operformer.runs.records import read_calibration

    path = run / "calibration.json"
    return read_calibration(path) if path.is_file() else None


def _band(calibration: Calibration, found: Samples) -> dict[str, Any]:
    """What a file says of how far off z may be: NaN where z is."""
    numbers = {name: getattr(calibration, name) for name in ("alpha", "delta", "relative_error")}
    if found.grid.counts is not None:
        return numbers
    half = calibration.half_width(found.grid).masked_fill(found.z[0, :1].isnan(), float("nan"))
    return {"half_width": half.numpy(), **numbers}


def _trained_query(run: Path) -> Grid | None:
    """Where z was known in the training samples, if that was a grid of its own and the set is still there."""
    from operformer.errors import OperformerError
    from operformer.runs import read_experiment

    try:
        return read_experiment(run).problem.query
    except OperformerError:
        return None


def _trained_on(run: Path) -> Grid | None:
    """The grid that a run was trained on; None if it is no longer known, such as that of a set that was moved."""
    from operformer.errors import OperformerError
    from operformer.runs import read_experiment

    try:
        experiment = read_experiment(run)
        return experiment.problem.grid(experiment.data.resolution)
    except OperformerError:
        return None


def _told_by(grid: Grid) -> tuple[UniformKind | None, WeightsName | None]:
    """The kind of a uniform grid, or the weights of scattered points, that a run was trained with."""
    from operformer.domain.grid import UNIFORM_KINDS

    if grid.kind == "scattered":
        return None, "equal" if grid.has_equal_weights else "voronoi"
    kinds: dict[str, UniformKind] = {kind: kind for kind in UNIFORM_KINDS}
    return kinds.get(grid.kind), None


def _domain(trained: Grid | None, where: Grid) -> Grid | None:
    """Points that stand for the domain where those of the inputs, which fill a box, do not tell."""
    return trained if trained is not None and trained.kind == "scattered" and where.axes is not None else None
