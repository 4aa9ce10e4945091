import math
import random

import h5py
import numpy as np
import pytest
import torch

import operformer
from operformer import Grid
from operformer.domain import Samples
from operformer.domain.samples import is_point
from operformer.errors import ResourceError, UsageError

GRIDS = {
    "line": Grid.uniform(11, [(0, 2)]),
    "cells": Grid.uniform((5, 7), [(0, 1), (-1, 1)], "cells"),
    "box": Grid.uniform((5, 3, 7), kind="periodic"),
    "rectilinear": Grid.rectilinear([0.0, 0.1, 0.7, 1.0], [0.0, 2.0, 3.0]),
    "points": Grid.scattered(torch.rand(13, 2, generator=torch.Generator().manual_seed(0)), torch.rand(13) + 0.1),
}


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
@pytest.mark.parametrize("name", GRIDS)
def test_what_is_written_is_read_back(name, suffix, tmp_path):
    grid = GRIDS[name]
    u, z = torch.randn(6, 2, *grid.shape, dtype=torch.float64), torch.randn(6, 1, *grid.shape, dtype=torch.float64)
    operformer.write(Samples(u, z, grid), tmp_path / f"out{suffix}")
    back = operformer.read(tmp_path / f"out{suffix}", bounds=None)
    torch.testing.assert_close(back.u, u, rtol=0, atol=0)
    torch.testing.assert_close(back.z, z, rtol=0, atol=0)
    torch.testing.assert_close(back.grid.points, grid.points)
    torch.testing.assert_close(back.grid.weights, grid.weights)


KINDS = ("nodes", "cells", "periodic", "left", "rectilinear", "scattered", "ragged")
PRIMES = (2, 3, 5, 7)


def any_grid(draws):
    """A grid of any kind, dimension, bounds and weights."""
    kind, dim = draws.choice(KINDS), draws.randint(1, 3)
    lower = [draws.choice([0.0, -1.0, draws.uniform(-5, 5)]) for _ in range(dim)]
    bounds = [(a, a + draws.choice([1.0, 2 * math.pi, draws.uniform(0.01, 10)])) for a in lower]
    if kind in KINDS[:4]:
        return Grid.uniform([draws.choice(PRIMES) for _ in bounds], bounds, kind)
    if kind == "rectilinear":
        axes = [[draws.uniform(*ends) for _ in range(draws.choice(PRIMES[1:]))] for ends in bounds]
        return Grid.rectilinear(*axes, bounds=draws.choice([None, bounds]))
    counts = [draws.choice(PRIMES) for _ in range(3 if kind == "ragged" else 1)]
    points = [[[draws.uniform(*ends) for ends in bounds] for _ in range(n)] for n in counts]
    weights = draws.choice([None, [[draws.uniform(0.1, 1) for _ in range(n)] for n in counts]])
    if kind == "ragged":
        return Grid.ragged(points, weights, bounds)
    return Grid.scattered(points[0], weights and weights[0], bounds)


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_what_is_written_is_read_as_the_same_grid(suffix, tmp_path):
    for seed in range(40):
        draws, generator = random.Random(seed), torch.Generator().manual_seed(seed)
        grid, dtype = any_grid(draws), draws.choice([torch.float32, torch.float64])
        u, z = (torch.rand(3, draws.randint(1, 3), *grid.shape, generator=generator, dtype=dtype) for _ in "uz")
        if grid.counts:
            u, z = (values.where(is_point(grid), 0.0) for values in (u, z))
        operformer.write(Samples(u, z, grid), tmp_path / f"out{suffix}")
        letters = "n" if grid.axes is None else "xyz"[: grid.dim]
        back = operformer.read(tmp_path / f"out{suffix}", layout=f"b c {letters}")
        there = back.grid
        assert (there.kind, there.bounds, there.shape, there.counts) == (
            grid.kind,
            grid.bounds,
            grid.shape,
            grid.counts,
        )
        assert there.has_equal_weights == grid.has_equal_weights
        for one, other in ((there.points, grid.points), (there.weights, grid.weights), (back.u, u), (back.z, z)):
            assert one.dtype == other.dtype
            assert torch.equal(one, other), (seed, grid)


def test_points_of_their_own_are_told_by_their_counts(tmp_path):
    grid = Grid.ragged([torch.rand(5, 2), torch.rand(3, 2)])
    operformer.write(Samples(torch.ones(2, 1, 5), torch.ones(2, 1, 5), grid), tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["counts"][:].tolist() == [5, 3]
        np.testing.assert_array_equal(file["points"][1, :3], grid.of_sample(1).points)
        assert file["weights"][1, 3:].tolist() == [0, 0]
        assert file["bounds"].shape == (2, 2)


def test_other_names_and_places_are_refused(tmp_path):
    samples = Samples(torch.ones(2, 1, 11), torch.ones(2, 1, 11), GRIDS["line"])
    with pytest.raises(UsageError, match=r"must be an \.npz or \.h5 file"):
        operformer.write(samples, tmp_path / "a.csv")
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="cannot write"):
        operformer.write(samples, tmp_path / "file" / "a.npz")
