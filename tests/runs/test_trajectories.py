"""Rollouts along the trajectories of an imported set, against powers of a map written out; and their pictures."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from operformer import Grid
from operformer.data.importing import import_pairs
from operformer.data.store import open_pairs
from operformer.evaluation.rollout import study_rollout
from operformer.operators import Operator
from operformer.runs.report.figures import rollout_figure, to_svg
from operformer.runs.report.tables import rollout_table
from operformer.runs.trajectories import follow

STEPS, POINTS, LEAD = 8, 11, 2


class Moved(Operator):
    """Two steps to the right and a tenth too large."""

    def __init__(self):
        super().__init__(1, 1, 1, 1, 1)

    def transform(self, u, grid, query):
        return 1.1 * u.roll(LEAD, -1)


@pytest.fixture
def stored(tmp_path):
    """Three trajectories, each step a shift by one point."""
    x = np.arange(POINTS) / POINTS
    waves = np.stack([2 + k + np.sin(2 * np.pi * (x + 0.1 * k)) for k in range(3)])
    moving = np.stack([np.roll(waves, t, -1) for t in range(STEPS)], 1)
    np.savez(tmp_path / "moving.npz", v=moving)
    options = {"layout": "b t x", "lead": LEAD, "grid": "periodic"}
    return import_pairs(tmp_path / "moving.npz", tmp_path / "set", "v", "v", **options)


def test_errors_grow_as_the_powers_do(stored):
    assert (len(stored), stored.trajectory) == (18, (6, LEAD))
    operator = Moved().double()
    found = follow(operator, open_pairs(stored.folder), is_periodic=True)
    assert found.times == (2, 4, 6)
    assert len(found.errors[0]) == 3
    for step, errors in enumerate(found.errors, 1):
        assert errors == pytest.approx([1.1**step - 1] * 3, rel=1e-12)
    ratio = [np.sqrt((m**2 + 0.5) / 0.5) for m in (2, 3, 4)]  # of the norm of m + sin to that of sin
    assert found.variance_errors[2] == pytest.approx([0.331 * one for one in ratio], rel=1e-12)
    assert (found.means[1], found.variance_means[2]) == pytest.approx((0.21, 0.331 * sum(ratio) / 3))
    assert found.film.times == [2, 4, 6]
    assert np.allclose(np.array(found.film.rollout) / found.film.truth, 1.1 ** np.array([[1], [2], [3]]))
    rows = rollout_table(found, "here").rows
    assert [row[0] for row in rows] == ["2", "4", "6"]
    assert rows[1][1] == "21.00%"


def test_a_part_has_its_whole_trajectories_and_other_sets_none(stored, tmp_path):
    operator = Moved().double()
    assert len(follow(operator, stored[1:], False).errors[0]) == 2
    assert len(follow(operator, stored[6:17], False).errors[0]) == 1
    assert follow(operator, stored[1:11], False) is None
    assert follow(operator, stored[::2], False) is None
    whole = {"layout": "b t x", "grid": "periodic"}
    for name, more in (("ends", {}), ("skipped", {"lead": LEAD, "skip": [3]})):
        other = import_pairs(tmp_path / "moving.npz", tmp_path / name, "v", "v", **whole, **more)
        assert other.trajectory is None
        assert follow(operator, other, False) is None


def test_pictures_over_time(stored):
    line = follow(Moved().double(), stored, False)
    u0 = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    truth = torch.stack([u0 + k for k in range(1, 8)], 1)
    plane_operator = Moved().double()
    plane_operator.dim = 2
    plane = study_rollout(plane_operator, u0, truth, Grid.uniform((5, 7)), [float(k) for k in range(7)])
    assert plane.film.times == [0, 2, 3, 4, 6]
    for found, panels in ((line, 1 + 3 * 2), (plane, 1 + 3 * 6), (replace(line, film=None), 1)):
        figure = rollout_figure(found)
        assert len(figure.axes) == panels
        assert len(figure.axes[0].lines) == 4
        assert to_svg(figure).startswith("<?xml")
