"""Grids that are parts of one fine uniform grid."""

import pytest
import torch

from operformer import Grid
from operformer.errors import UsageError
from operformer.evaluation.nested_grids import GRADINGS, NestedGrids


def family(kind="nodes"):
    return NestedGrids((6, 10), [(-1.0, 1.0), (0.0, 3.0)], kind, doublings=3)


def some_grids(grids):
    generator = torch.Generator().manual_seed(0)
    yield from (grids.uniform(level) for level in (-1, 0, 1, 3))
    yield from (grids.graded(level, a) for level in (0, 1) for a in GRADINGS)
    yield from (grids.scattered(level, generator) for level in (-1, 0, 1))


@pytest.mark.parametrize("kind", ["nodes", "periodic"])
def test_values_of_the_finest_grid_are_read_at_the_points_of_every_other(kind):
    grids = family(kind)
    x, y = grids.finest.points.unbind(-1)
    for grid in some_grids(grids):
        a, b = grid.points.unbind(-1)
        found = grids.restrict((torch.sin(x) * y)[None, None], grid)
        torch.testing.assert_close(found[0, 0], torch.sin(a) * b, rtol=1e-12, atol=1e-12)
        assert float(grid.weights.sum()) == pytest.approx(6.0)


def test_sizes():
    grids = family()
    assert [grids.uniform(level).shape for level in (-1, 0, 3)] == [(4, 6), (7, 11), (49, 81)]
    assert all(grids.graded(1, a).shape == grids.uniform(1).shape for a in GRADINGS)
    assert family("periodic").uniform(-1).shape == (3, 5)


def test_graded_axes_are_dense_at_the_lower_end():
    steps = torch.diff(NestedGrids((64,), doublings=3).graded(0, 0.5).axes[0]) * 64
    torch.testing.assert_close(steps[[0, -1]], torch.tensor([0.5, 1.5], dtype=torch.float64), rtol=0, atol=0.13)


def test_scattered_points_are_odd_points_in_no_order():
    grids = NestedGrids((8, 8), doublings=2)
    scattered = grids.scattered(0, torch.Generator().manual_seed(1))
    indices = (scattered.points * 32).round().long()
    assert bool((indices % 2 == 1).all())
    assert len(torch.unique(indices, dim=0)) == len(indices) > 60
    assert bool((indices[1:, 0] < indices[:-1, 0]).any())
    general = grids.in_general_position(0, torch.Generator().manual_seed(1))
    assert not bool(((general.points * 32) == (general.points * 32).round()).any())
    assert isinstance(general, Grid)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"resolution": (7,)}, "resolution must be even"),
        ({"resolution": (2,)}, "resolution must be even and at least 4"),
        ({"resolution": ()}, "along each axis"),
        ({"kind": "cells"}, "whose points stay when doubled"),
        ({"doublings": 1}, "at least 2 doublings"),
    ],
)
def test_wrong_settings(change, complaint):
    with pytest.raises(UsageError, match=complaint):
        NestedGrids(**({"resolution": (8,)} | change))
