import h5py
import numpy as np
import pytest
import torch

import operformer
from operformer import Grid
from operformer.domain import Samples
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
