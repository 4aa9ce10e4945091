"""Which pairs a run is trained, validated, calibrated and tested on: parts of one draw, or of one set on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from operformer.data.store import StoredPairs, open_pairs
from operformer.domain import Grid, Pairs, Samples
from operformer.domain.interpolation import restrict
from operformer.errors import UsageError
from operformer.problems import describe
from operformer.problems.problem import Draws
from operformer.runs.experiment import Experiment
from operformer.training.recipe import training_device

PARTS = "lower data.train, data.validation or data.test, which it is cut into"


def training_pairs(experiment: Experiment, draws: Draws) -> tuple[Pairs, list[Pairs]]:
    """The training and validation pairs, and those to train on at the coarser resolutions.

    They are drawn on the device that trains, of all resolutions together, or the first ones of a set on disk.
    """
    data, problem = experiment.data, experiment.problem
    count, device = data.train + data.validation, training_device(experiment.training)
    grids = [problem.grid(n) for n in data.coarser]
    if not problem.has_law:  # the test pairs are asked for now, not after hours of training
        stored = _some(problem.stored, 0, count + data.test, PARTS)[:count]
    elif data.folder:
        stored = open_pairs(data.folder)
        _refuse_other_draws(stored.manifest.header.origin, experiment)
        stored = _some(stored, 0, count, "lower data.train or data.validation")
    else:
        grids.append(problem.grid(data.resolution))
        *coarser, finest = draws.readings(problem, count, grids, data.seed, device, dtype=torch.float32)
        return finest, [pairs[: data.train] for pairs in coarser]
    return stored, list(draws.readings(problem, data.train, grids, data.seed, device, dtype=torch.float32))


def _some(pairs: StoredPairs, first: int, count: int, remedy: str) -> StoredPairs:
    """So many pairs of a set, from the first one on."""
    if len(pairs) < first + count:
        raise UsageError(f"{pairs.folder} holds {len(pairs)} pairs, and {first + count} are asked for; {remedy}")
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
    if not problem.has_law:
        remedy = "calibrate with the validation pairs, or with fewer draws"
        return _some(problem.stored, first, count, remedy).read().to(device)
    return Draws().sample(problem, count, data.resolution, data.seed, device, first)


def test_pairs(experiment: Experiment, grids: Sequence[Grid], device: torch.device, draws: Draws) -> Iterator[Samples]:
    """The pairs after those of training and validation, on one grid after the other."""
    data, problem = experiment.data, experiment.problem
    first = data.train + data.validation
    if not problem.has_law:
        chosen = _some(problem.stored, first, data.test, PARTS)
        whole = chosen.read().to(device)
        return (_restricted(whole, grid.to(device)) for grid in grids)
    return draws.readings(problem.for_tests(data.resolution), data.test, grids, data.seed, device, first)


def _restricted(samples: Samples, grid: Grid) -> Samples:
    """Pairs of an imported set on its own grid, or on one of those nested in it."""
    if grid.shape == samples.grid.shape:
        return samples
    u, z = (restrict(values, samples.grid, grid) for values in (samples.u, samples.z))
    return Samples(u, z, grid)
