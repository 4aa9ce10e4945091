"""Files whose u and z are known on different points: coordinates by name, by what `write` leaves, and questions."""

import numpy as np
import pytest
import torch
from scipy.io import savemat

from operformer import Grid, Samples, read, write
from operformer.domain.interpolation import graded_grid
from operformer.errors import DataError, UsageError

FINE, FEW = Grid.uniform(29, [(0, 2)]), graded_grid(Grid.uniform(13, [(0, 2)]))
PLANE = Grid.uniform((7, 11), kind="cells")
CLOUD = Grid.scattered(torch.rand(17, 2, generator=torch.Generator().manual_seed(0)))


def waves(count, grid):
    """sin(k x + s) of the first coordinate, other k and s for each sample: smooth in space alone."""
    k, s = torch.rand(2, count, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3
    return torch.sin(k * grid.points.reshape(-1, grid.dim)[:, 0] + s).unflatten(-1, grid.shape)


@pytest.fixture
def columns(tmp_path):
    """A .mat file of the kind that GreenLearning has: samples in columns, coordinates under names of its own."""
    arrays = {"F": waves(20, FINE).T, "U": waves(20, FEW).T, "Y": FINE.points, "X": FEW.points, "other": torch.eye(3)}
    path = tmp_path / "columns.mat"
    savemat(path, {name: values.numpy() for name, values in arrays.items()})
    return path


@pytest.mark.parametrize("layout", [None, ("x b", "x b")])
def test_coordinates_by_name(columns, layout):
    found = read(columns, "F", "U", axes=["Y"], query="X", layout=layout)
    assert (found.grid.kind, found.grid.bounds, found.query.kind) == ("nodes", ((0, 2),), "rectilinear")
    torch.testing.assert_close(found.query.axes[0], FEW.axes[0])
    torch.testing.assert_close(found.query.weights, FEW.weights)
    torch.testing.assert_close(found.u[:, 0], waves(20, FINE))
    torch.testing.assert_close(found.z[:, 0], waves(20, FEW))
    assert len(read(columns, "F", "U", axes=["Y"], query="X", first=3, count=4)) == 4


def test_points_by_name_and_kinds(tmp_path):
    path, points = tmp_path / "pairs.npz", CLOUD.points.numpy()
    np.savez(path, u=waves(5, PLANE), z=waves(5, CLOUD), sensors=points, w=waves(5, Grid.uniform((4, 5))))
    options = {"grid": "cells", "layout": ("b x y", "b n")}
    found = read(path, query="sensors", bounds=[(0, 1)] * 2, weights="equal", **options)
    assert (found.grid.kind, found.query.kind, tuple(found.z.shape)) == ("cells", "scattered", (5, 1, 17))
    torch.testing.assert_close(found.query.points, CLOUD.points)
    same = read(path, query=CLOUD, **options)
    assert same.query is CLOUD
    nodes = read(path, z="w", query="nodes", grid="cells", layout="b x y")
    assert (nodes.query.kind, nodes.query.shape) == ("nodes", (4, 5))


@pytest.mark.parametrize(
    ("grid", "query"), [(FINE, FEW), (PLANE, CLOUD), (CLOUD, PLANE), (PLANE, Grid.uniform((3, 4)))]
)
@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_what_write_leaves_is_read_back(grid, query, suffix, tmp_path):
    samples = Samples(waves(4, grid).unsqueeze(1), waves(4, query).unsqueeze(1), grid, query)
    write(samples, tmp_path / f"pairs{suffix}")
    found = read(tmp_path / f"pairs{suffix}")
    for name in ("u", "z"):
        assert torch.equal(getattr(found, name), getattr(samples, name))
    for one, other in ((found.grid, grid), (found.query, query)):
        assert (one.kind, one.bounds) == (other.kind, other.bounds)
        torch.testing.assert_close(one.points, other.points)
        torch.testing.assert_close(one.weights, other.weights)


def test_what_does_not_go_together_is_refused(columns, tmp_path):
    with pytest.raises(DataError, match=r"29 and 13 points; say where z is by --query"):
        read(columns, "F", "U", layout="x b")
    with pytest.raises(DataError, match="20 samples of u and 13 of z"):
        read(columns, "F", "U", axes=["Y"], query="nodes", layout=("x b", "b x"))
    with pytest.raises(UsageError, match="coarser compares values on one grid"):
        read(columns, "F", "U", axes=["Y"], query="X", coarser=columns)
    with pytest.raises(DataError, match="has no array 'V'"):
        read(columns, "F", "U", axes=["Y"], query="V")
    path = tmp_path / "wide.npz"
    np.savez(path, u=waves(20, FEW), z=waves(20, FINE), a=FEW.axes[0], b=2 * FINE.axes[0])
    with pytest.raises(DataError, match=r"'z' is known from 0 to 4 along axis 0, outside the domain \[0, 2\] of u"):
        read(path, axes=["a"], query="b")
