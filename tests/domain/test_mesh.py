"""Meshes against scikit-fem's matrices: integrals, gradients, values between points, inside and outside."""

import numpy as np
import pytest
import skfem
import torch
from skfem.helpers import dot, grad

from operformer import Grid, pad
from operformer.domain import h1_norm, inner_product
from operformer.domain.interpolation import interpolate
from operformer.domain.reading import beyond
from operformer.errors import UsageError

L = skfem.MeshTri.init_lshaped().refined(2)  # [-1, 1]^2 without one of its quarters
BOX = [(-1, 1), (-1, 1)]


def bent(mesh, seed=0):
    """The mesh with its inner points moved."""
    moved, inner = mesh.p.copy(), mesh.interior_nodes()
    moved[:, inner] += np.random.default_rng(seed).uniform(-0.03, 0.03, (mesh.dim(), len(inner)))
    return type(mesh)(moved, mesh.t)


def grid_of(mesh, bounds=None):
    return Grid.mesh(mesh.p.T, mesh.t.T, bounds)


CASES = [
    (skfem.MeshLine(np.array([0, 0.1, 0.35, 1])), skfem.ElementLineP1()),
    (bent(L), skfem.ElementTriP1()),
    (bent(skfem.MeshTet().refined(1)), skfem.ElementTetP1()),
]


@pytest.mark.parametrize(("mesh", "element"), CASES)
def test_weights_and_gradients_are_those_of_linear_elements(mesh, element):
    basis, grid = skfem.Basis(mesh, element), grid_of(mesh)
    load = skfem.LinearForm(lambda v, w: v).assemble(basis)
    assert np.allclose(grid.weights, load, atol=1e-12)
    u = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 3, mesh.nvertices)))
    stiffness = skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v))).assemble(basis)
    energy = sum((one.numpy() @ stiffness * one.numpy()).sum(-1) for one in u.unbind(1))
    assert np.allclose(h1_norm(u, grid) ** 2 - inner_product(u, u, grid), energy)


@pytest.mark.parametrize(("mesh", "element"), CASES)
def test_functions_are_read_linearly_on_each_cell(mesh, element):
    grid, basis = grid_of(mesh), skfem.Basis(mesh, element)
    values = np.random.default_rng(2).normal(size=mesh.nvertices)
    inside = np.concatenate([mesh.p, np.asarray(basis.global_coordinates())[:, :, 1]], 1)
    query = Grid.scattered(inside.T, bounds=grid.bounds)
    found = interpolate(torch.from_numpy(values)[None], grid, query)[0]
    assert np.allclose(found, basis.probes(inside) @ values)
    assert not beyond(grid, query).any()


def test_the_notch_is_outside():
    grid, query = grid_of(L), Grid.uniform((19, 21), BOX, kind="cells")
    x, y = query.points.unbind(-1)
    assert torch.equal(beyond(grid, query), (x > 0) & (y > 0))
    assert float(grid.weights.sum()) == pytest.approx(3)


def test_ragged_meshes_are_each_their_own():
    meshes = [bent(L, 3), bent(L.refined(1), 4)]
    grid = Grid.ragged([m.p.T for m in meshes], bounds=BOX, cells=[m.t.T for m in meshes])
    alone = [grid_of(m, BOX) for m in meshes]
    values = [torch.from_numpy(np.random.default_rng(5).normal(size=(2, m.nvertices))) for m in meshes]
    together = h1_norm(pad(values, grid), grid)
    assert torch.allclose(together, torch.stack([h1_norm(*one) for one in zip(values, alone, strict=True)]))
    last = grid.of_samples(torch.tensor([1])).of_sample(0)
    assert torch.equal(last.weights, alone[1].weights)
    assert torch.equal(last.to("cpu").cells[0].corners, alone[1].cells[0].corners)
    query = Grid.uniform((7, 5), BOX, kind="cells")
    assert torch.equal(beyond(grid, query)[1, 0], beyond(alone[1], query))


def test_what_makes_no_mesh_is_refused_and_a_point_without_cells_weighs_nothing():
    points = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    assert Grid.mesh(points, [[0, 1, 2], [0, 1, 1]]).weights.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 0])
    for cells, said in (
        ([[0, 1]], r"\(M, 3\)"),
        ([[0, 1, 4]], "0 to 3: got 4"),
        ([[0, -1, 2]], "got -1"),
        ([[0, 1, 1]], "no volume"),
        ([[0.0, 1.0, 2.0]], "whole numbers"),
    ):
        with pytest.raises(UsageError, match=said):
            Grid.mesh(points, cells)
    with pytest.raises(UsageError, match="give one of them"):
        Grid.ragged([points], [None], cells=[[[0, 1, 2]]])
    with pytest.raises(UsageError, match="one row for each of 1"):
        Grid.ragged([points], cells=[])
