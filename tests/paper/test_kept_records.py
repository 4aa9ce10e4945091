"""The records in results/, not the code that keeps them: their samples are test pairs of their laws, drawn again."""

from pathlib import Path

import numpy as np
import pytest

from operformer.runs.experiment import parse
from paper.archive import read_record

RESULTS = Path(__file__).parents[2] / "results"
# With samples, but for Kolmogorov flow, a pair of which takes seconds.
PICTURED = [
    path
    for path in sorted(RESULTS.glob("*/*.json"))
    if '"prediction"' in path.read_text() and not path.stem.startswith("kolmogorov")
]


def at(function, axes, found):
    """Values of (channels, *shape) at the points of the grid's axes that are nearest to those found."""
    for axis, given in enumerate(found, start=1):
        nearest = np.abs(axes[axis - 1][:, None] - np.asarray(given)).argmin(0)
        function = function.take(nearest, axis)
    return function


def distance(one, other):
    return np.linalg.norm(one - other) / np.linalg.norm(other)


def test_there_are_such_records():
    assert len(PICTURED) >= 7


@pytest.mark.parametrize("path", PICTURED, ids=[f"{path.parent.name}-{path.stem}" for path in PICTURED])
def test_samples_of_a_record_are_test_pairs_of_its_law(path):
    record = read_record(path)
    experiment = parse(record.settings)
    assert record.looks
    assert record.looks.keys() <= {"1x", "irregular"}  # an irregular grid leaves out points of the uniform one
    data = experiment.data
    for label, looks in record.looks.items():
        for look in looks:
            u, z, prediction = (np.asarray(getattr(look, name)) for name in ("u", "z", "prediction"))
            axes = [look.x] if u.ndim == 2 else [look.x, look.y]
            errors = np.array(record.on(label).errors)
            alike = np.flatnonzero(np.abs(errors / look.error - 1) < 1e-3)  # records have four digits of an error
            far = []
            for k in alike:
                first = data.train + data.validation + int(k)
                pair = experiment.problem.sample(1, data.resolution, data.seed, first=first)
                grid = [axis.numpy() for axis in pair.grid.axes]
                expected = [at(values[0].numpy(), grid, axes) for values in (pair.u, pair.z)]
                far.append(max(map(distance, (u, z), expected)))
            assert min(far) < 1e-6  # in float32
            # The error by weights of the grid, of all its points: here of some, and without weights.
            assert 0.8 < distance(prediction, z) / look.error < 1.25
