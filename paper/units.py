"""Errors of standardised outputs, of records that were kept without them.

With one output channel the deviation cancels: an error is ||G(u) - z|| / ||z - m||, the relative error in physical
units times ||z|| / ||z - m||. So the test samples are drawn again, and m is the mean over the training samples. Of
several channels a record does not hold enough: it has no errors of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

import torch

from operformer.domain import Samples, l2_norm
from operformer.domain.samples import Moments
from operformer.problems import Darcy, Kolmogorov, Problem
from operformer.runs.experiment import Data, parse
from paper.archive import amend, file_name, read_archive

COARSE = 52  # points an axis at which m is integrated in the plane; it moves m by at most 0.2 %
BLOCK = 20  # samples that are solved together


def standardise_records(folder: Path, tell: Callable[[str], None]) -> tuple[int, int]:
    """Add what is missing to the records of a folder; how many were added to, and how many hold too little."""
    done = left = 0
    records = [record for runs in read_archive(folder).values() for kept in runs.values() for record in kept]
    for record in (one for one in records if not one.trained.standardised_errors):
        experiment, name = parse(record.settings), f"{record.recipe}/{file_name(record)}"
        if experiment.problem.out_channels > 1:
            left += 1
            tell(f"{name}: not measured, since a record has no errors of each output channel")
            continue
        mean, factors = _factors(experiment.problem, replace(experiment.data, coarser=(), folder=""))
        errors = [error * factor for error, factor in zip(record.trained.errors, factors, strict=True)]
        amend(folder / f"{name}.json", {"mean": [mean]}, errors)
        done += 1
        tell(f"{name}: median {median(record.trained.errors):.3g}, standardised {median(errors):.3g}")
    return done, left


@cache
def _factors(problem: Problem, data: Data) -> tuple[float, list[float]]:
    """The mean over the training samples, and ||z|| / ||z - m|| of each test sample."""
    if isinstance(problem, Kolmogorov):  # a vorticity on a torus has mean zero, whatever the sample
        return 0.0, [1.0] * data.test
    mean = _training_mean(problem, data)
    law, first = problem.for_tests(data.resolution), data.train + data.validation
    found: list[float] = []
    for start in range(0, data.test, BLOCK):
        count = min(BLOCK, data.test - start)
        found += factors_of(law.sample(count, data.resolution, data.seed, first=first + start), mean).tolist()
    return mean, found


def _training_mean(problem: Problem, data: Data) -> float:
    if isinstance(problem, Darcy):  # its samples are the same at every resolution
        problem, resolution = replace(problem, read_from=0), min(COARSE, data.resolution)
    else:
        resolution = data.resolution
    moments = Moments(problem.out_channels)
    for start in range(0, data.train, BLOCK):
        samples = problem.sample(min(BLOCK, data.train - start), resolution, data.seed, first=start)
        moments.add(samples.z, samples.grid)
    return float(moments.mean)


def factors_of(samples: Samples, mean: float) -> torch.Tensor:
    """||z|| / ||z - m||, one for each sample."""
    return l2_norm(samples.z, samples.grid) / l2_norm(samples.z - mean, samples.grid)
