"""Functions to question operators with."""

import pytest
import torch

from operformer import FANO, TNO, Grid, ViTNO
from operformer.evaluation.probes import problem_probes, resolution_for, smooth_probes
from operformer.operators.baselines import AFNO
from operformer.problems import ControlledODE


def operator(dim, channels=2):
    made = TNO(dim, channels, 1, hidden_channels=4, n_layers=1, n_heads=1)
    made.input_mean.copy_(torch.tensor([5.0, -3.0])[:channels])
    made.input_scale.copy_(torch.tensor([0.1, 7.0])[:channels])
    made.domain_lower.fill_(-1.0)
    made.domain_extent.fill_(3.0)
    return made


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_smooth_probes_are_functions_in_the_operators_units(dim, periodic):
    made = operator(dim)
    probes = smooth_probes(made, count=200, periodic=periodic)
    coarse, fine = (Grid.uniform((n,) * dim, made.bounds, kind="periodic") for n in (6, 12))
    u = probes(fine)
    assert u.shape == (200, 2, *fine.shape)
    assert u.dtype == torch.float64
    torch.testing.assert_close(probes(coarse), u[(..., *[slice(None, None, 2)] * dim)])
    axes = (0, *range(2, 2 + dim))
    torch.testing.assert_close(u.mean(axes), torch.tensor([5.0, -3.0], dtype=torch.float64), rtol=0.3, atol=0.02)
    torch.testing.assert_close(u.std(axes), torch.tensor([0.1, 7.0], dtype=torch.float64), rtol=0.2, atol=0)


def test_periodic_probes_are_periodic_and_the_others_are_not():
    made = operator(1)
    ends = Grid.scattered([[-1.0], [2.0]], bounds=[(-1.0, 2.0)])
    apart = {p: smooth_probes(made, periodic=p)(ends).diff(dim=-1).abs().max() for p in (False, True)}
    assert apart[True] < 1e-12
    assert apart[False] > 1e-2


def test_problem_probes_are_the_problems_draws():
    problem = ControlledODE()
    grid = problem.grid(12)
    torch.testing.assert_close(problem_probes(problem, 2, seed=3, first=5)(grid), problem.sample(2, grid, 3, first=5).u)


def test_resolutions_resolve_the_operators_modes():
    assert resolution_for(operator(1)) == (64,)
    assert resolution_for(operator(3)) == (6, 6, 6)
    widths = {"hidden_channels": 4, "n_layers": 1, "n_heads": 1}
    assert resolution_for(FANO((3, 2), (2, 3), 1, 1, **widths)) == (24, 24)
    assert resolution_for(FANO((2,), 2, 1, 1, **widths, last=16)) == (64,)
    assert resolution_for(ViTNO((5,), 4, 1, 1, **widths)) == (80,)
    bound = AFNO((10, 14), 1, 1, hidden_channels=8)
    assert resolution_for(bound) == (10, 14)
    assert bound.usual_kind == "periodic"
    assert operator(1).usual_kind == "nodes"
