"""The records in results/: their samples are test pairs of their laws, drawn again here."""

from pathlib import Path

import numpy as np
import pytest

from operformer.experiments import parse
from operformer.problems import Kolmogorov
from operformer.reproduction.archive import read_archive

RESULTS = Path(__file__).parents[2] / "results"
# A pair of Kolmogorov flow takes seconds, and those of a trajectory follow each other.
PICTURED = [
    pytest.param(record, label, which, id=f"{protocol}-{name}-{label}-{('median', 'worst')[which]}")
    for protocol, runs in read_archive(RESULTS).items()
    for name, records in runs.items()
    for record in records
    for label in record.looks
    for which in (0, 1)
    if not isinstance(record.problem, Kolmogorov)
]


def at(function, axes, found):
    """Values of (channels, *shape) at the points of the grid's axes that are nearest to those found."""
    for axis, given in enumerate(found, start=1):
        nearest = np.abs(axes[axis - 1][:, None] - np.asarray(given)).argmin(0)
        function = function.take(nearest, axis)
    return function


def distance(one, other):
    return np.linalg.norm(one - other) / np.linalg.norm(other)


def test_there_are_such_samples():
    assert len(PICTURED) >= 14


@pytest.mark.parametrize(("record", "label", "which"), PICTURED)
def test_a_sample_of_a_record_is_a_test_pair_of_its_law(record, label, which):
    experiment, look = parse(record.settings), record.looks[label][which]
    data, errors = experiment.data, np.array(record.on(label).errors)
    alike = np.flatnonzero(np.abs(errors / look.error - 1) < 1e-3)  # errors of four digits
    assert 1 <= len(alike) <= 8
    found = [np.asarray(getattr(look, name)) for name in ("u", "z")]
    axes = [look.x] if found[0].ndim == 2 else [look.x, look.y]
    far = []
    for k in alike:
        # An irregular grid of time leaves out points of the uniform one.
        pair = experiment.problem.sample(1, data.resolution, data.seed, first=data.train + data.validation + int(k))
        grid = [axis.numpy() for axis in pair.grid.axes]
        far.append([distance(f, at(v[0].numpy(), grid, axes)) for f, v in zip(found, (pair.u, pair.z), strict=True)])
    assert min(map(max, far)) < 1e-6  # records hold float32
