"""Meshes that meshio writes, read back: one sample a file, on one mesh or on meshes of their own."""

import sys

import meshio
import numpy as np
import pytest
import torch

from operformer import Grid, Samples, SpectralOperator, read, write
from operformer.data.exchange import read_inputs
from operformer.data.importing import import_pairs
from operformer.errors import DataError, UsageError

POINTS = np.array([[0.0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1.5], [9, 9]])  # the last one has no cell
CUBE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]])


def save(path, cells, points=POINTS, **values):
    points = np.asarray(points)
    flat = np.column_stack([points, np.zeros((len(points), 3 - points.shape[1]))])
    values = values or {"u": flat[:, 0], "z": flat @ [1.0, 2, 0]}
    meshio.Mesh(flat, cells, values).write(path, "gmsh22" if path.suffix == ".msh" else None)
    return path


@pytest.mark.parametrize("suffix", ["vtu", "vtk", "msh", "xdmf"])
def test_a_file_is_a_sample_on_a_mesh(tmp_path, suffix):
    cells = [("triangle", [[0, 1, 3], [1, 4, 3]]), ("quad", [[1, 2, 5, 4]]), ("line", [[0, 1]])]
    found = read(save(tmp_path / f"one.{suffix}", cells))
    assert found.u.shape == (1, 1, 7)
    assert found.grid.weights[-1] == 0
    assert float(found.grid.weights.sum()) == pytest.approx(1 + 1.25)
    assert torch.allclose(found.z[0, 0].double(), found.grid.points @ torch.tensor([1.0, 2], dtype=torch.float64))
    assert found.grid.bounds == ((0, 9), (0, 9))
    assert read(tmp_path / f"one.{suffix}", bounds=[(0, 10), (0, 10)]).grid.bounds == ((0, 10), (0, 10))


@pytest.mark.parametrize(
    ("kind", "points", "corners", "volume"),
    [
        ("hexahedron", CUBE, range(8), 1.0),
        ("tetra", CUBE, [0, 1, 3, 4], 1 / 6),
        ("triangle6", [[0, 0], [2, 0], [0, 2], [1, 0], [1, 1], [0, 1]], range(6), 2.0),
        ("line3", [[0], [2], [1]], range(3), 2.0),
    ],
)
def test_cells_are_cut_into_simplices(tmp_path, kind, points, corners, volume):
    values = np.arange(len(points), dtype=float)
    grid = read(save(tmp_path / "one.vtu", [(kind, [list(corners)])], points, u=values, z=values + 1)).grid
    assert float(grid.weights.sum()) == pytest.approx(volume)
    assert float(grid.cells[0].volumes.sum()) == pytest.approx(volume)
    assert (grid.weights > 0).sum() == len(list(corners))


def test_a_folder_is_as_many_samples(tmp_path):
    cells = [("triangle", [[0, 1, 3], [1, 4, 3]])]
    for k in range(2):
        values = POINTS[:, 0] + k
        save(tmp_path / f"{k}.vtu", cells, f=np.stack([values, values], 1), p=2 * values)
    same = read(tmp_path, "f", "p")
    assert (same.u.shape, same.grid.counts) == ((2, 2, 7), None)
    save(tmp_path / "2.vtu", [("triangle", [[0, 1, 2]])], POINTS[[0, 1, 3]], f=np.zeros((3, 2)), p=np.ones(3))
    found = read(tmp_path, "f", "p", bounds=[(0, 9), (0, 9)])
    assert found.grid.counts == (7, 7, 3)
    assert torch.equal(found.z[2, 0], torch.tensor([1.0, 1, 1, 0, 0, 0, 0], dtype=torch.float64))
    assert torch.equal(found.grid.of_sample(1).weights, same.grid.weights)
    assert found.grid.weights[2].sum() == pytest.approx(0.5)
    assert read(tmp_path, "f", "p").grid.bounds == ((0, 9), (0, 9))
    operator = SpectralOperator((2, 2), 2, 1, 4, n_layers=1)
    operator.domain_extent.fill_(9.0)
    u, grid = read_inputs(tmp_path, operator, "f")
    assert torch.equal(u, found.u)
    assert operator(u.float(), grid).shape == (3, 1, 7)


def test_cells_go_into_arrays_and_come_back(tmp_path):
    grid = Grid.mesh(POINTS, [[0, 1, 3], [1, 4, 3]], [(0, 10), (0, 9)])
    write(Samples(torch.rand(2, 1, 7), torch.rand(2, 1, 7), grid), tmp_path / "some.npz")
    found = read(tmp_path / "some.npz").grid
    assert torch.equal(found.cells[0].corners, grid.cells[0].corners)
    assert torch.equal(found.weights, grid.weights)
    assert found.bounds == grid.bounds


def test_what_is_no_sample_on_a_mesh_is_told_in_one_line(tmp_path, monkeypatch):
    triangle = [("triangle", [[0, 1, 3]])]
    path = tmp_path / "one.vtu"
    for cells, points, said in (
        ([("wedge", [[0, 1, 2, 4, 5, 6]])], CUBE, "cells of the kind 'wedge'"),
        ([("vertex", [[0]])], POINTS, "no cells"),
        (triangle, CUBE, "dimension 2 in 3 dimensions"),
    ):
        with pytest.raises(DataError, match=said):
            read(save(path, cells, points))
    with pytest.raises(DataError, match="no array 'q'; it holds"):
        read(save(path, triangle), "q", "z")
    points = np.column_stack([POINTS, np.zeros(7)])
    meshio.Mesh(points, triangle, {"z": POINTS[:, 0]}, {"u": [np.zeros(1)]}).write(path)
    with pytest.raises(DataError, match="'u' is known on cells"):
        read(path, "u", "z")
    path.write_text("<VTKFile")
    with pytest.raises(DataError, match=r"VTKFile|damaged"):
        read(path)
    other = save(tmp_path / "one.xdmf", triangle)
    other.write_text(other.read_text().replace("one.h5:/", "../one.h5:/"))
    with pytest.raises(DataError, match="only files beside it"):
        read(other)
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "none.vtu")
    monkeypatch.setitem(sys.modules, "meshio", None)
    with pytest.raises(UsageError, match=r"pip install operformer\[mesh\]"):
        read(path)


def test_a_set_on_disk_keeps_its_mesh_and_refuses_several(tmp_path):
    home, cells = tmp_path / "files", [("triangle", [[0, 1, 3], [1, 4, 3]])]
    home.mkdir()
    for k in range(2):
        save(home / f"{k}.xdmf", cells)  # which puts an .h5 beside it
    stored = import_pairs(home, tmp_path / "set")
    assert stored.grid.cells[0].corners.tolist() == cells[0][1]
    assert torch.equal(stored.grid.weights, read(home).grid.weights)
    assert torch.equal(stored.read().u.double(), read(home).u.double())
    save(home / "2.xdmf", [("triangle", [[0, 1, 2]])], POINTS[[0, 1, 3]])
    with pytest.raises(UsageError, match="a set on disk has one grid"):
        import_pairs(home, tmp_path / "other")
