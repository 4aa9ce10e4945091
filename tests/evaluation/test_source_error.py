"""The estimated error of sources bounds the true one in 95 % of random trials, on every kind of grid."""

import math

import numpy as np
import pytest
import torch

from operformer import FANO, TNO, Grid, Increment
from operformer.errors import UsageError
from operformer.evaluation.loss import relative_l2
from operformer.evaluation.source_error import source_error

SMALL = {"hidden_channels": 8, "n_heads": 2}
KINDS = ("nodes", "cells", "periodic", "graded", "scattered")


def trial(seed):
    """The estimated bound and the true difference: random weights, sharp attention, smooth and rough functions."""
    random, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    dim, kind = int(random.integers(1, 3)), KINDS[random.integers(5)]
    n = int(random.integers(60, 200) if dim == 1 else random.integers(10, 17))
    if kind == "graded":
        grid = Grid.rectilinear(*[torch.linspace(0, 1, n, dtype=torch.float64) ** 1.3] * dim)
    elif kind == "scattered":
        grid = Grid.scattered(torch.rand(n**dim, dim, generator=generator, dtype=torch.float64))
    else:
        grid = Grid.uniform((n,) * dim, kind=kind)
    waves = torch.from_numpy(random.integers(0, 24, size=(40, dim))).double()
    sizes = torch.from_numpy(random.normal(size=40)) * (1 + waves.norm(dim=1)) ** -random.uniform(0.3, 3)
    u = torch.sin(math.pi * grid.points.flatten(0, -2) @ waves.T + 6.3 * torch.rand(40, generator=generator)) @ sizes
    u = (torch.where(u > 0, 2.0, -1.0).double() if random.integers(2) else u / u.std()).reshape(1, 1, *grid.shape)
    torch.manual_seed(seed)
    operator = TNO(dim, 1, 1, n_layers=int(random.integers(1, 4)), **SMALL).double()
    with torch.no_grad():
        for layer in operator.network.layers:
            layer.attention.query.weight *= random.uniform(1, 6)
            layer.attention.value.weight *= random.uniform(1, 3)
        full = operator(u, grid)
        operator.sources = max(2**dim, int(n**dim * random.uniform(1 / 60, 1 / 3)))
        return float(source_error(operator, u, grid)), float(relative_l2(operator(u, grid), full, grid))


def test_it_bounds_the_true_error_in_95_percent_of_200_trials():
    bounds, errors = np.array([trial(seed) for seed in range(200)]).T
    ratios = bounds / errors
    print(
        f"sources: bounded {np.mean(ratios >= 1):.3f}, ratios {np.quantile(ratios, [0.01, 0.05, 0.5, 0.95]).round(2)}"
    )
    assert np.mean(ratios >= 1) >= 0.95
    assert np.median(ratios) < 8  # and says something


def test_one_layer_at_points_is_exact_up_to_the_draw():
    """One layer has no errors elsewhere: with 256 of 300 points the second difference alone is the true error."""
    torch.manual_seed(1)
    operator, grid = TNO(1, 1, 1, n_layers=1, sources=2, **SMALL).double(), Grid.uniform(300, kind="cells")
    u = torch.randn(3, 1, 300, generator=torch.Generator().manual_seed(2)).double()
    few, estimate = operator(u, grid), source_error(operator, u, grid)
    operator.sources = 1
    fewer, operator.sources = relative_l2(operator(u, grid), few, grid), None
    true = (operator(u, grid) - few).flatten(1).norm(dim=1) / few.flatten(1).norm(dim=1)
    torch.testing.assert_close(estimate / 2 - fewer, true.detach(), rtol=0.1, atol=0)
    assert operator.sources is None


def test_wrappers_units_and_samples_on_points_of_their_own():
    torch.manual_seed(3)
    operator = TNO(2, 1, 1, n_layers=2, sources=4, **SMALL).double()
    points = [torch.rand(90, 2, dtype=torch.float64) for _ in range(2)]
    ragged, u = Grid.ragged(points), torch.randn(2, 1, 90).double()
    alone = [source_error(operator, u[k : k + 1], Grid.scattered(points[k])) for k in range(2)]
    torch.testing.assert_close(source_error(operator, u, ragged), torch.cat(alone), rtol=0.2, atol=0)
    grid = Grid.scattered(points[0])
    error, size = source_error(operator, u, grid), operator(u, grid).flatten(1).norm(dim=1)
    wrapped = Increment(operator)
    larger = wrapped(u, grid).flatten(1).norm(dim=1)
    torch.testing.assert_close(source_error(wrapped, u, grid), error * size / larger, rtol=1e-10, atol=0)
    operator.output_scale.fill_(1e3)  # a relative error has no units
    torch.testing.assert_close(source_error(operator, u, grid), error, rtol=1e-10, atol=0)


def test_no_sources_no_error():
    operator, u = TNO(2, 1, 1, **SMALL), torch.rand(3, 1, 9, 11)
    assert source_error(operator, u).tolist() == [0, 0, 0]
    operator.sources = 99
    assert source_error(operator, u).tolist() == [0, 0, 0]
    operator.sources = 98
    assert float(source_error(operator, u).min()) > 0
    with pytest.raises(UsageError, match="needs a TNO"):
        source_error(FANO((2, 2), 2, 1, 1, **SMALL), u)
