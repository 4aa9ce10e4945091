"""Graded meshes by hand."""

import pytest
import torch

from operformer import Grid
from operformer.domain.grading import grade, graded_grid
from operformer.errors import UsageError


def test_spacings_grow_from_half_to_one_and_a_half_times_the_mean():
    grid = graded_grid(Grid.uniform((5, 3), bounds=[(0, 1), (2, 6)], kind="cells"))
    assert grid.axes[0].tolist() == pytest.approx([0, 0.15625, 0.375, 0.65625, 1])
    assert grid.axes[1].tolist() == pytest.approx([2, 3.5, 6])  # s - s (1 - s) / 2 = 3/8 at s = 1/2
    assert (grid.kind, grid.shape, grid.bounds) == ("rectilinear", (5, 3), ((0.0, 1.0), (2.0, 6.0)))
    assert grid.weights.sum().item() == pytest.approx(4, rel=1e-12)


def test_the_grading_is_the_slope_at_the_ends():
    s = torch.tensor([0.0, 1e-6, 1 - 1e-6, 1.0], dtype=torch.float64)
    slopes = grade(s, 0.3).diff() / s.diff()
    assert slopes[[0, 2]].tolist() == pytest.approx([0.7, 1.3], abs=1e-5)


def test_scattered_points_are_refused():
    with pytest.raises(UsageError, match="has axes"):
        graded_grid(Grid.scattered([[0.1], [0.2]]))
