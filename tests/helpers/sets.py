"""Pairs and grids of every kind, in sizes that are distinct primes, and the bytes of a folder."""

import torch

from operformer.domain import Grid, Samples

GRIDS = {
    "nodes 1d": Grid.uniform(7, [(-1.0, 2.0)]),
    "nodes 3d": Grid.uniform((3, 5, 7), [(0.0, 1.0), (-2.0, 0.5), (1.0, 3.0)]),
    "cells 2d": Grid.uniform((5, 7), [(0.0, 2.0), (1.0, 4.0)], "cells"),
    "periodic 1d": Grid.uniform(11, [(0.0, 6.5)], "periodic"),
    "periodic 2d": Grid.uniform((5, 3), kind="periodic"),
    "rectilinear 1d": Grid.rectilinear([0.1, 0.2, 0.7, 0.75, 1.9], bounds=[(0.0, 2.0)]),
    "rectilinear 2d": Grid.rectilinear([0.1, 0.2, 0.7], [3.0, 1.0, 2.0, 5.0, 4.5], bounds=[(0.0, 1.0), (0.0, 6.0)]),
    "scattered 1d": Grid.scattered(torch.linspace(0.03, 0.97, 13).unsqueeze(1)),
    "scattered 2d": Grid.scattered(
        torch.rand(17, 2, generator=torch.Generator().manual_seed(1)), torch.linspace(0.0, 0.2, 17)
    ),
    "scattered 3d": Grid.scattered(
        3 * torch.rand(11, 3, generator=torch.Generator().manual_seed(2)).double(), bounds=[(0.0, 3.0)] * 3
    ),
}


def pairs(grid, count=13, channels=(2, 3), dtype=torch.float32, seed=0):
    """Values without any order in them, so that one in a wrong place shows."""
    generator = torch.Generator().manual_seed(seed)
    u, z = (torch.randn(count, n, *grid.shape, generator=generator, dtype=torch.float64) for n in channels)
    return Samples(u.to(dtype), z.to(dtype), grid, checks={"residual": torch.rand(count, generator=generator).double()})


def assert_same_pairs(one, other):
    assert one.u.dtype == other.u.dtype
    assert torch.equal(one.u, other.u)
    assert torch.equal(one.z, other.z)


def assert_same_grid(one, other):
    assert (one.kind, one.shape, one.bounds) == (other.kind, other.shape, other.bounds)
    assert torch.equal(one.points, other.points)
    assert torch.equal(one.weights, other.weights)
    assert one.has_equal_weights == other.has_equal_weights


def content(folder):
    """Every file of a folder, hidden ones too, byte for byte."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
