import pytest
import torch

from operformer import Grid
from operformer.domain.restriction import nested_grids, restrict
from operformer.errors import UsageError


@pytest.mark.parametrize(
    ("shape", "kind", "divisors"),
    [
        (13, "nodes", [2, 3, 4]),  # 12 intervals
        (12, "nodes", []),  # 11
        ((9, 13), "nodes", [2]),  # 8 and 12; three points are too few
        (12, "periodic", [2, 3]),
        ((8, 18), "periodic", [2]),
        (36, "cells", [3]),
        (16, "cells", []),
        ((9, 5, 7), "nodes", []),
    ],
)
def test_which_grids_are_nested(shape, kind, divisors):
    assert list(nested_grids(Grid.uniform(shape, kind=kind))) == divisors


@pytest.mark.parametrize("kind", ["nodes", "periodic", "cells"])
def test_restriction_is_the_function_on_the_coarser_grid(kind):
    bounds = [(-1.0, 2.0), (0.0, 0.7)]
    fine = Grid.uniform((25, 13) if kind == "nodes" else (24, 12), bounds, kind)
    found = nested_grids(fine)
    assert found.keys() >= {3}

    def f(grid):
        return torch.sin(3 * grid.points[..., 0]) * torch.exp(grid.points[..., 1])

    for coarse in found.values():
        torch.testing.assert_close(restrict(f(fine)[None, None], fine, coarse)[0, 0], f(coarse), rtol=0, atol=1e-14)


def test_what_is_not_nested_is_refused():
    grid = Grid.uniform(13)
    assert not nested_grids(Grid.scattered(torch.rand(13, 1)))
    assert not nested_grids(Grid.rectilinear(torch.linspace(0, 1, 13)))
    for other in (Grid.uniform(6), Grid.uniform(7, kind="periodic"), Grid.uniform(7, [(0, 2)])):
        with pytest.raises(UsageError, match="are not among those of"):
            restrict(torch.zeros(1, 13), grid, other)
