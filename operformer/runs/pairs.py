"""Which pairs a run is trained, validated, calibrated and tested on: parts of one draw, or of one set on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from operformer.data.store import Imported, StoredPairs, open_pairs
from operformer.domain import Grid, Pairs, Samples
from operformer.domain.grading import graded_grid
from operformer.domain.restriction import nested_grids, restrict
from operformer.errors import UsageError
from operformer.problems import Darcy, Kolmogorov, Problem
from operformer.problems.catalogue import describe
from operformer.problems.draws import Draws
from operformer.problems.time_domain import TimeProblem
from operformer.runs.experiment import Experiment
from operformer.training.recipe import training_device

FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
PARTS = "lower data.train, data.validation or data.test, which it is cut into"


def training_pairs(experiment: Experiment, draws: Draws) -> tuple[Pairs, list[Pairs]]:
    """The training and validation pairs, and those to train on at the coarser resolutions.

    They are drawn on the device that trains, of all resolutions together, or the first ones of a set on disk.
    """
    data, problem = experiment.data, experiment.problem
    count, device = data.train + data.validation, training_device(experiment.training)
    grids = [problem.grid(n) for n in data.coarser]
    if isinstance(problem, Imported):  # the test pairs are asked for now, not after hours of training
        stored = _some(problem.pairs(), 0, count + data.test, problem.folder, PARTS)[:count]
    elif data.folder:
        stored = open_pairs(data.folder)
        _refuse_other_draws(stored.manifest.header.origin, experiment)
        stored = _some(stored, 0, count, data.folder, "lower data.train or data.validation")
    else:
        grids.append(problem.grid(data.resolution))
        *coarser, finest = draws.readings(problem, count, grids, data.seed, device, dtype=torch.float32)
        return finest, [pairs[: data.train] for pairs in coarser]
    return stored, list(draws.readings(problem, data.train, grids, data.seed, device, dtype=torch.float32))


def _some(pairs: StoredPairs, first: int, count: int, folder: str, remedy: str) -> StoredPairs:
    """So many pairs of a set, from the first one on."""
    if len(pairs) < first + count:
        raise UsageError(f"{folder} holds {len(pairs)} pairs, and {first + count} are asked for; {remedy}")
    return pairs[first : first + count]


def _refuse_other_draws(origin: Mapping[str, Any], experiment: Experiment) -> None:
    """A set to train on is of the experiment's law, resolution and seed."""
    data, problem = experiment.data, experiment.problem
    wanted = {"problem": describe(problem), "resolution": data.resolution, "seed": data.seed, "first": 0}
    if "problem" not in origin:
        raise UsageError(f"{data.folder} was imported; set problem.name=Imported and problem.folder={data.folder}")
    others = [key for key, value in json.loads(json.dumps(wanted)).items() if origin.get(key) != value]
    if others:
        key = others[0]
        values = "" if key == "problem" else f": {origin.get(key)} there, {wanted[key]} asked for"
        raise UsageError(f"{data.folder} holds other pairs than the experiment's ({key} differs{values})")


def calibration_pairs(experiment: Experiment, fresh: int | None, device: torch.device) -> Pairs:
    """The validation pairs, or as many as asked for after those of the tests."""
    data, problem = experiment.data, experiment.problem
    first, count = (data.train, data.validation) if fresh is None else (data.train + data.validation + data.test, fresh)
    if isinstance(problem, Imported):
        remedy = "calibrate with the validation pairs, or with fewer draws"
        return _some(problem.pairs(), first, count, problem.folder, remedy).read().to(device)
    return Draws().sample(problem, count, data.resolution, data.seed, device, first)


def test_pairs(experiment: Experiment, grids: Sequence[Grid], device: torch.device, draws: Draws) -> Iterator[Samples]:
    """The pairs after those of training and validation, on one grid after the other."""
    data, problem = experiment.data, experiment.problem
    first = data.train + data.validation
    if isinstance(problem, Imported):
        chosen = _some(problem.pairs(), first, data.test, problem.folder, PARTS)
        whole = chosen.read().to(device)
        return (_restricted(whole, grid.to(device)) for grid in grids)
    if isinstance(problem, Darcy) and not problem.read_from:
        # The truth off uniform grids is read from a finer solution: it needs to be so much finer, and no more.
        n = data.resolution
        problem = replace(problem, fine=max(2 * n + 1, min(problem.fine, 4 * n + 1)))
    return draws.readings(problem, data.test, grids, data.seed, device, first)


def _restricted(samples: Samples, grid: Grid) -> Samples:
    """Pairs of an imported set on its own grid, or on one of those nested in it."""
    if grid.shape == samples.grid.shape:
        return samples
    u, z = (restrict(values, samples.grid, grid) for values in (samples.u, samples.z))
    return Samples(u, z, grid)


def evaluation_grids(problem: Problem, resolution: int) -> dict[str, Grid]:
    """The grids of an evaluation by label: "0.5x" to "2x" are uniform, the others irregular.

    Of an imported set the truth is known on its own grid, and on coarser ones whose points are among its own.
    """
    if isinstance(problem, Imported):
        own = problem.grid(resolution)
        nested = {f"{1 / k:.3g}x": grid for k, grid in nested_grids(own).items()}
        return dict(reversed(nested.items())) | {"1x": own}
    grids = {f"{factor:g}x": problem.grid(max(1, round(factor * resolution))) for factor in FACTORS}
    if isinstance(problem, TimeProblem) and resolution % 4 == 0:
        grids["irregular"] = problem.irregular_grid(resolution)
        grids["graded"] = problem.graded_grid(resolution)
    if isinstance(problem, Darcy | Kolmogorov):
        grids["graded"] = graded_grid(problem.grid(resolution))
    return grids
