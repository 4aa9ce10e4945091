"""Errors of standardised outputs, of records that were kept without them.

With one output channel the deviation cancels: an error is ||G(u) - z|| / ||z - m||, the relative error in physical
units times ||z|| / ||z - m||. So the test samples are drawn again, and m is the mean over the training samples. Of
several channels a record does not hold enough: it has no errors of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from operformer.domain import Samples, l2_norm
from operformer.domain.samples import Moments
from operformer.problems import Darcy, Kolmogorov, Problem
from operformer.runs.experiment import Data, parse_stored
from paper.archive import amend, file_name, read_archive
from paper.record import Record

# Points an axis at which Darcy flow is solved for m and for the norms: m moves by at most 0.2 %, a factor by 0.1 %.
COARSE, FINER = 52, 104
BLOCK = 20  # samples that are solved together


def standardise_records(folder: Path, tell: Callable[[str], None]) -> tuple[int, int]:
    """Add what is missing to the records of a folder; how many were added to, and how many hold too little."""
    done = left = 0
    records = [record for runs in read_archive(folder).values() for kept in runs.values() for record in kept]
    known = {_tests_of(record): _found(record) for record in records if record.trained.standardised_errors}
    missing = [record for record in records if not record.trained.standardised_errors]
    for record in sorted(missing, key=lambda record: _tests_of(record) not in known):  # first what needs no draw
        experiment, name = parse_stored(record.settings), f"{record.recipe}/{file_name(record)}"
        if experiment.problem.out_channels > 1:
            left += 1
            tell(f"{name}: not measured, since a record has no errors of each output channel")
            continue
        tests = _tests_of(record)
        mean, factors = known[tests] = known.get(tests) or _factors(*tests)
        errors = [error * factor for error, factor in zip(record.trained.errors, factors, strict=True)]
        amend(folder / f"{name}.json", {"mean": [mean]}, errors)
        done += 1
        tell(f"{name}: median {median(record.trained.errors):.3g}, standardised {median(errors):.3g}")
    return done, left


def _tests_of(record: Record) -> tuple[Problem, Data]:
    """What says which samples a run was tested on."""
    return record.problem, replace(parse_stored(record.settings).data, coarser=(), folder="")


def _found(record: Record) -> tuple[float, list[float]]:
    """The mean, and the factor of each test sample, of a record that has them."""
    pairs = zip(record.trained.standardised_errors, record.trained.errors, strict=True)
    return record.outputs["mean"][0], [one / other for one, other in pairs]


def _factors(problem: Problem, data: Data) -> tuple[float, list[float]]:
    """The mean over the training samples, and ||z|| / ||z - m|| of each test sample."""
    if isinstance(problem, Kolmogorov):  # a vorticity on a torus has mean zero, whatever the sample
        return 0.0, [1.0] * data.test
    coarse = finer = data.resolution
    if isinstance(problem, Darcy):  # its samples are the same at every resolution
        problem, coarse, finer = replace(problem, read_from=0), min(COARSE, coarse), min(FINER, finer)
    moments, found = Moments(problem.out_channels), []
    for samples in _blocks(problem, coarse, data.seed, 0, data.train):
        moments.add(samples.z, samples.grid)
    mean = float(moments.mean)
    for samples in _blocks(problem, finer, data.seed, data.train + data.validation, data.test):
        found += factors_of(samples, mean).tolist()
    return mean, found


def _blocks(problem: Problem, resolution: int, seed: int, first: int, count: int) -> Iterator[Samples]:
    """Samples first, ..., first + count - 1, a few at a time."""
    for start in range(first, first + count, BLOCK):
        yield problem.sample(min(BLOCK, first + count - start), resolution, seed, first=start)


def factors_of(samples: Samples, mean: float) -> torch.Tensor:
    """||z|| / ||z - m||, one for each sample."""
    return l2_norm(samples.z, samples.grid) / l2_norm(samples.z - mean, samples.grid)
