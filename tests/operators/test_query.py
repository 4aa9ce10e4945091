"""Operators read at other points than those of their input: by hand, at points they share, on finer grids."""

import copy
from itertools import product

import numpy as np
import pytest
import torch
from draws import noise
from scipy.interpolate import RegularGridInterpolator
from test_encoder import as_arrays, gelu, layer_norm, linear
from test_fano import integral_attention
from test_integral import matrices
from test_vitno import fft_operator, pointwise_attention, randomised, u_smooth

from operformer import FANO, CodomainNO, Grid, Increment, Overlap, Resampled, SpectralOperator, ViTNO
from operformer.domain.interpolation import interpolate
from operformer.errors import UsageError
from operformer.operators.baselines import AFNO, GalerkinTransformer

SMALL = {"hidden_channels": 6, "n_layers": 2, "n_heads": 2}


def modal(dim):
    return {
        "FANO": FANO((2, 3, 1)[:dim], 2, 2, 2, **SMALL, overlap=0, last=(2, "neumann"), waves=1),
        "blended": FANO((2, 3, 1)[:dim], 2, 2, 2, **SMALL, basis="cosine", overlap=0.25),
        "ViTNO": ViTNO((2, 3, 1)[:dim], 2, 2, 2, **SMALL, overlap=0, basis="cosine", last=(2, "periodic"), waves=2),
        "blended ViTNO": ViTNO((2, 3, 1)[:dim], 2, 2, 2, **SMALL, basis="cosine", overlap=0.25, waves=1),
        "periodic ViTNO": ViTNO((2, 3, 1)[:dim], 2, 2, 2, **SMALL, overlap=Overlap(0.4, "periodic")),
        "SpectralOperator": SpectralOperator((3, 2, 2)[:dim], 2, 2, 6, n_layers=2, basis="extended-fourier"),
        "CodomainNO": CodomainNO(dim, 2, 2, 2, hidden_channels=6, n_layers=2, n_heads=1, token_channels=3),
        "Galerkin": GalerkinTransformer(dim, 2, 2, 8, n_layers=2, n_heads=2),
        "Increment": Increment(FANO((2, 1, 2)[:dim], 2, 2, 2, **SMALL)),
    }  # fmt: skip


# By hand: the paper's FFTs on patches, continued between the points by their trigonometric polynomials


def between(values, y):
    """The trigonometric polynomial through values on the cells of one patch (n_1, n_2, c), at y (N, 2)."""
    spectrum = np.fft.fftn(values, axes=(0, 1)) / np.prod(values.shape[:2])
    out = np.zeros((len(y), values.shape[2]), dtype=complex)
    for k, m in product(*(range(-((n - 1) // 2), (n - 1) // 2 + 1) for n in values.shape[:2])):
        place = y * values.shape[:2] - 0.5
        phase = np.exp(2j * np.pi * (k * place[:, 0] / values.shape[0] + m * place[:, 1] / values.shape[1]))
        out += phase[:, None] * spectrum[k, m]
    return out.real


def layer_by_hand(v, attended, layer, state, name):
    flat = v + linear(attended, state, name + "attention.merge")
    flat = layer_norm(flat.reshape(-1, v.shape[-1]), state, name + "norm_1", layer.norm_1.eps)
    inner = linear(gelu(linear(flat, state, name + "feed_forward.0")), state, name + "feed_forward.2")
    return layer_norm(flat + inner, state, name + "norm_2", layer.norm_2.eps).reshape(v.shape)


def cut(u, grid, partition):
    """Patches (P, n_1, n_2, c + 2) of (u, x)."""
    values = np.concatenate([u.movedim(0, -1).numpy(), grid.points.numpy()], -1)
    rows = np.split(values, partition[0])
    return np.stack([patch for row in rows for patch in np.split(row, partition[1], axis=1)])


def places(points, partition):
    scaled = points * np.array(partition)
    patch = np.minimum(scaled.astype(int), np.array(partition) - 1)
    return patch[:, 0] * partition[1] + patch[:, 1], scaled - patch


def vitno_by_hand(operator, u, grid, points):
    state, (patch, y) = as_arrays(operator), places(points, operator.partition)
    v = fft_operator(matrices(operator.lift.mixing, operator.spectrum), cut(u, grid, operator.partition))
    w = np.stack([between(one, y) for one in v])  # in all patches, at the local coordinates of each point
    for number, layer in enumerate(operator.layers):
        name, heads = f"layers.{number}.", layer.attention.n_heads
        query, key = (linear(v, state, f"{name}attention.{part}") for part in ("query", "key"))
        value, out = linear(w, state, name + "attention.value"), np.zeros(w.shape)
        weight, width = 1 / np.prod(v.shape[:-1]), v.shape[-1] // heads
        for p, h in product(range(len(v)), range(heads)):
            own = slice(h * width, (h + 1) * width)
            share = np.exp([weight * np.sum(query[p, ..., own] * one[..., own]) for one in key])
            out[p, :, own] = np.tensordot(share / share.sum(), value[..., own], 1)
        w = layer_by_hand(w, out, layer, state, name)
        v = layer_by_hand(v, pointwise_attention(v, layer.attention, state, name + "attention."), layer, state, name)
    return linear(w[patch, np.arange(len(y))], state, "head.linear").T


def fano_by_hand(operator, u, grid, points):
    state, (patch, y) = as_arrays(operator), places(points, operator.partition)
    axes = [axis.numpy() for axis in grid.axes]
    read = RegularGridInterpolator(axes, u.movedim(0, -1).numpy(), bounds_error=False, fill_value=None)
    v = linear(cut(u, grid, operator.partition), state, "lift.linear")
    w = linear(np.concatenate([read(points), points], -1), state, "lift.linear")
    for number, layer in enumerate(operator.layers):
        name = f"layers.{number}."
        attended = integral_attention(v, layer.attention, state, name + "attention.")
        out = np.stack([between(attended[p], one[None])[0] for p, one in zip(patch, y, strict=True)])
        w = layer_by_hand(w, out, layer, state, name)
        v = layer_by_hand(v, attended, layer, state, name)
    return linear(w, state, "head.linear").T


@pytest.mark.parametrize(("make", "by_hand"), [(ViTNO, vitno_by_hand), (FANO, fano_by_hand)])
def test_by_hand(make, by_hand):
    operator, grid = randomised(make((2, 3), (2, 2), 2, 3, **SMALL, overlap=0)), Grid.uniform((10, 9), kind="cells")
    u, points = noise(1, 2, 10, 9)[0], torch.rand(23, 2, generator=torch.Generator().manual_seed(1)).double()
    found = operator(u[None], grid, Grid.scattered(points))[0].detach()
    np.testing.assert_allclose(found, by_hand(operator, u, grid, points.numpy()), rtol=1e-9, atol=1e-9)


# Points that the query shares with the grid


@pytest.mark.parametrize(("dim", "kind"), [(1, "nodes"), (1, "periodic"), (2, "cells"), (2, "nodes"), (3, "cells")])
@pytest.mark.parametrize("name", modal(2))
def test_at_points_of_the_grid_it_is_the_plain_output(name, dim, kind):
    if (name, kind) == ("blended ViTNO", "periodic"):
        pytest.skip("an even continuation of one period takes its first point for its missing last one")
    operator, sizes = randomised(modal(dim)[name], 2), (12, 6, 4)[:dim]
    shape = tuple(n + 1 for n in sizes) if kind == "nodes" else sizes
    bounds = [(-1.0, 2.0), (0.0, 0.5), (3.0, 4.0)][:dim]
    grid, u = Grid.uniform(shape, bounds, kind), noise(2, 2, *shape)
    z = operator(u, grid)
    torch.testing.assert_close(operator(u, grid, Grid.uniform(shape, bounds, kind)), z, rtol=1e-10, atol=1e-10)
    other = Grid.rectilinear(*(axis.flip(0) for axis in grid.axes), bounds=bounds)
    if kind != "periodic":  # where patches are half open
        back = operator(u, grid, other).flip(tuple(range(2, 2 + dim)))
        torch.testing.assert_close(back, z, rtol=1e-10, atol=1e-10)
    if kind == "cells":
        chosen = torch.randperm(z[0, 0].numel(), generator=torch.Generator().manual_seed(3))[:7]
        few = Grid.scattered(grid.points.flatten(0, -2)[chosen], bounds=bounds)
        torch.testing.assert_close(operator(u, grid, few), z.flatten(2)[..., chosen], rtol=1e-10, atol=1e-10)
        corner = tuple(axis[:2] for axis in grid.axes)  # a part of D, where most patches hold no point
        part = operator(u, grid, Grid.rectilinear(*corner))
        torch.testing.assert_close(part, z[(..., *[slice(2)] * dim)], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", modal(2))
def test_an_axis_and_its_points_one_by_one_are_read_alike(name):
    operator, u = randomised(modal(2)[name], 4), noise(2, 2, 8, 6)
    grid, query = Grid.uniform((8, 6), kind="cells"), Grid.rectilinear([0.03, 0.9, 0.41], [0.7, 0.11])
    one_by_one = Grid.scattered(query.points.flatten(0, 1))
    found = operator(u, grid, query).flatten(2)
    torch.testing.assert_close(operator(u, grid, one_by_one), found, rtol=1e-10, atol=1e-10)
    single = operator.float()(u.float(), grid, one_by_one)
    torch.testing.assert_close(single.double(), found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["FANO", "ViTNO", "SpectralOperator"])
def test_a_finer_query_is_the_operator_there_in_the_limit(name):
    """Both converge to the same function with order two; in between they differ by it."""
    operator = randomised(modal(2)[name], 5, gain=1.0)
    fine = Grid.uniform((48, 48), kind="cells")
    errors = []
    for n in (12, 24):
        grid = Grid.uniform((n, n), kind="cells")
        values, finest = (u_smooth(g.points).expand(-1, 2, -1, -1) for g in (grid, fine))
        with torch.no_grad():
            errors.append(float((operator(values, grid, fine) - operator(finest, fine)).norm()))
    assert 3 < errors[0] / errors[1] < 7


@pytest.mark.parametrize("name", ["ViTNO", "blended ViTNO"])
def test_translates_are_read_in_parts(name, monkeypatch):
    operator, grid, u = randomised(modal(2)[name]), Grid.uniform((8, 6), kind="cells"), noise(2, 2, 8, 6)
    queries = [Grid.scattered(torch.rand(29, 2).double()), Grid.uniform((7, 5))]
    whole = [operator(u, grid, query) for query in queries]
    monkeypatch.setattr("operformer.operators.vitno.MOST_TRANSLATES", 60)
    operator = copy.deepcopy(operator)  # which forgets what was made of the points
    for expected, query in zip(whole, queries, strict=True):
        torch.testing.assert_close(operator(u, grid, query), expected, rtol=1e-12, atol=1e-12)


def test_resampled_is_read_exactly():
    operator, u = randomised(modal(2)["ViTNO"]), noise(2, 2, 6, 7)
    grid, points = Grid.uniform((6, 7)), Grid.scattered(torch.rand(9, 2).double())
    there = operator.nearest(grid)
    expected = operator(interpolate(u, grid, there), there, points)
    torch.testing.assert_close(Resampled(operator)(u, grid, points), expected, rtol=0, atol=0)


def test_gradients_reach_the_points():
    operator, grid, u = randomised(modal(2)["FANO"]), Grid.uniform((8, 6), kind="cells"), noise(1, 2, 8, 6)
    points = torch.tensor([[0.21, 0.77], [0.6, 0.1]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: operator(u, grid, Grid.scattered(x)), (points,))


def test_what_cannot_be_read_elsewhere_says_so():
    operator, grid = AFNO((8, 8), 1, 1, 8, n_layers=1), Grid.uniform((8, 8), kind="cells")
    with pytest.raises(UsageError, match="leave query= out and interpolate the output"):
        operator(torch.ones(1, 1, 8, 8), grid, grid)
    with pytest.raises(UsageError, match="reaches outside the domain"):
        modal(2)["ViTNO"](
            torch.ones(1, 2, 8, 6), Grid.uniform((8, 6), kind="cells"), Grid.uniform((4, 4), [(0, 2)] * 2)
        )
