"""Attention between patches against the definitions, one patch at a time (Section 3)."""

import numpy as np
import pytest
import torch
from draws import noise
from test_encoder import as_arrays, linear

from operformer import Grid
from operformer.domain.basis import Cosine, ExtendedFourier, Fourier, Legendre
from operformer.domain.patches import make_patches
from operformer.domain.transform import make_transform
from operformer.operators.integral import FourierIntegralOperator, Spectrum
from operformer.operators.patched_attention import (
    Coefficients,
    CommonPoints,
    FourierAttention,
    PatchedAttention,
    patched_attention,
)

# The volumes of seven cells: nothing regular about them.
VOLUMES = torch.tensor([0.05, 0.3, 0.01, 0.2, 0.02, 0.0, 0.42], dtype=torch.float64)


def by_definition(query, key, value, weights, present=None):
    """q(k; u, v, j) and its average, sums over patches k and points i written out: (P, M, d_k), (O, M, d_k) and d_v."""
    out = np.zeros((len(query), *value.shape[1:]))
    for j in range(len(query)):
        density = np.zeros(len(key))
        for k in range(len(key)):
            inner = sum(weights[i] * (query[j, i] @ key[k, i]) for i in range(len(weights)))
            density[k] = np.exp(inner) if present is None or present[k] else 0.0
        for k in range(len(key)):
            out[j] += density[k] / density.sum() * value[k]
    return out


def heads_by_definition(query, key, value, weights, n_heads, present=None):
    size = query.shape[-1] // n_heads
    rows = [slice(h * size, (h + 1) * size) for h in range(n_heads)]
    parts = [by_definition(query[..., r], key[..., r], value[..., r], weights, present) for r in rows]
    return np.concatenate(parts, -1)


def assert_near(found, expected, tolerance=1e-11):
    found = found.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=False)


# The function


@pytest.mark.parametrize("n_sources", [5, 3], ids=["self", "cross"])
def test_the_definition(n_sources):
    """P = 5 patches look at themselves, or at O = 3 others with functions of other dimensions."""
    query, key, value = noise(2, 5, 7, 3), noise(2, n_sources, 7, 3, seed=1), noise(2, n_sources, 7, 2, seed=2)
    z = patched_attention(query, key, value, VOLUMES)
    for b in range(2):
        assert_near(z[b], by_definition(query[b].numpy(), key[b].numpy(), value[b].numpy(), VOLUMES.numpy()))


def test_two_patches_by_hand():
    """<q, k> = 1/4 * 2 * 2 ln 3 + 3/4 * 5 * 0 = ln 3, and 0: probabilities 3/4 and 1/4, at every point."""
    query = torch.tensor([[[2.0], [5.0]]], dtype=torch.float64)
    key = torch.tensor([[[2 * np.log(3.0)], [0.0]], [[0.0], [0.0]]], dtype=torch.float64)
    value = torch.tensor([[[4.0, 0.0], [8.0, 1.0]], [[0.0, 4.0], [-8.0, 1.0]]], dtype=torch.float64)
    z = patched_attention(query, key, value, torch.tensor([0.25, 0.75], dtype=torch.float64))
    assert_near(z[0], [[3.0, 1.0], [4.0, 1.0]])


def test_cell_volumes_make_it_the_continuum_operator():
    """Irregular points of D' with the volumes of their cells: order 2; with equal weights another limit."""

    def functions(x, which):
        return np.stack([np.sin((p + which) * x + p) * 2 for p in range(3)])[..., None]

    nodes, w = np.polynomial.legendre.leggauss(30)
    fine = (nodes + 1) / 2
    at_zero = np.repeat(functions(np.zeros(1), 2), 30, 1)  # the values are compared at x = 0
    errors, equal, steps = [], [], (20, 40, 80, 160)
    for n in steps:
        s = np.linspace(0, 1, n + 1)
        x = s**2
        grid = Grid.rectilinear(torch.from_numpy(x))
        on_points = [torch.from_numpy(functions(x, which)) for which in range(3)]
        exact = by_definition(functions(fine, 0), functions(fine, 1), at_zero, w / 2)[:, 0]
        found = patched_attention(*on_points, grid.weights)[:, 0].numpy()
        errors.append(np.abs(found - exact).max())
        found = patched_attention(*on_points, torch.full((n + 1,), 1 / (n + 1), dtype=torch.float64))[:, 0].numpy()
        equal.append(np.abs(found - exact).max())
    order = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    print(f"patched attention: order {order:.3f}, errors {errors}; equal weights {equal}")
    assert 1.9 < order < 2.1
    assert equal[-1] > 0.8 * equal[0] > 1e-2


def test_absent_patches_are_not_attended_to():
    query, key, value = noise(5, 7, 3), noise(5, 7, 3, seed=1), noise(5, 7, 2, seed=2)
    present = torch.tensor([True, False, True, True, False])
    z = patched_attention(query, key, value, VOLUMES, present)
    assert_near(z, patched_attention(query, key[present], value[present], VOLUMES))
    assert_near(z, by_definition(*(t.numpy() for t in (query, key, value)), VOLUMES.numpy(), present.tolist()))


# Pointwise Q, K, V (Section 4.3)


@pytest.mark.parametrize("n_sources", [None, 3], ids=["self", "cross"])
@pytest.mark.parametrize("n_heads", [1, 2, 6])
def test_multi_head_attention_with_pointwise_maps(n_heads, n_sources):
    torch.manual_seed(1)
    attention = PatchedAttention(6, n_heads).double()
    v, source = 3 * noise(2, 5, 7, 6), None if n_sources is None else 3 * noise(2, n_sources, 7, 6, seed=1)
    z, state = (
        attention(v, CommonPoints(VOLUMES, float(VOLUMES.sum()), has_equal_weights=False), source),
        as_arrays(attention),
    )
    for b in range(2):
        own, other = v[b].numpy(), (v if source is None else source)[b].numpy()
        query, key, value = linear(own, state, "query"), linear(other, state, "key"), linear(other, state, "value")
        expected = heads_by_definition(query, key, value, VOLUMES.numpy(), n_heads)
        assert_near(z[b], linear(expected, state, "merge"))


# Q, K, V as integral operators (Section 4.4)


def integral_operators(attention):
    """Q, K and V as three operators, each with its third of the channels."""
    operators = []
    for part in range(3):
        channels = attention.merge.in_features
        operator = FourierIntegralOperator(attention.spectrum, channels, channels).double()
        for own, shared in zip(operator.mixing.parameters(), attention.mixing.parameters(), strict=True):
            own.data.copy_(shared.data.chunk(3, -1)[part])
        operators.append(operator)
    return operators


def gauss_points(counts, n=14):
    """Scattered points that integrate smooth functions on each patch to rounding."""
    nodes, w = np.polynomial.legendre.leggauss(n)
    axes = [torch.from_numpy(np.concatenate([(p + (nodes + 1) / 2) / c for p in range(c)])) for c in counts]
    weights = [torch.from_numpy(np.tile(w / 2 / c, c)) for c in counts]
    points = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(counts))
    product_ = weights[0] if len(counts) == 1 else weights[0][:, None] * weights[1]
    return Grid.scattered(points, product_.flatten())


def fourier_attention(basis, n_modes, channels, n_heads, seed=2):
    torch.manual_seed(seed)
    attention = FourierAttention(channels, n_heads, Spectrum(basis, n_modes)).double()
    with torch.no_grad():
        for parameter in attention.mixing.parameters():
            parameter.mul_(4)  # scores that matter
    return attention


@pytest.mark.parametrize(
    ("basis", "grid", "counts", "n_modes"),
    [
        (Fourier(), Grid.uniform(15, kind="periodic"), (3,), (2,)),
        (Fourier(), Grid.uniform((10, 9), [(0, 5), (1, 2)], "cells"), (2, 3), (3, 2)),
        (ExtendedFourier(), Grid.uniform(15, kind="cells"), (3,), (4,)),
        (ExtendedFourier(), Grid.uniform((6, 9), kind="cells"), (2, 3), (2, 3)),
        (ExtendedFourier(), Grid.uniform((7, 10)), (2, 3), (2, 3)),
        (Cosine(), gauss_points((3,)), (3,), (3,)),
        (Cosine(), Grid.uniform((8, 9), kind="cells"), (2, 3), (3, 3)),
        (Legendre(), gauss_points((2, 1), 5), (2, 1), (3, 2)),
    ],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("n_heads", [1, 3])
def test_attention_in_coefficient_space_is_that_of_functions(basis, grid, counts, n_modes, n_heads):
    """Q, K, V at the points, inner products by quadrature over each patch of volume |D'|, averages at the points."""
    attention = fourier_attention(basis, n_modes, 6, n_heads)
    patches = make_patches(grid, counts)
    transform, n_patches = make_transform(patches, basis, n_modes, noise(1)), int(np.prod(counts))
    v = patches.split(noise(2, *grid.shape, 6))
    z = attention(v, Coefficients(transform, 1 / n_patches, patches.is_present)).flatten(2, -2)
    functions = [operator(v, transform).flatten(2, -2).detach().numpy() for operator in integral_operators(attention)]
    if hasattr(patches, "weights"):
        weights = patches.weights[0]
    else:
        rows = [axis.weights[0] for axis in patches.axes]
        weights = rows[0] if len(rows) == 1 else torch.outer(*rows).flatten()
    state = as_arrays(attention)
    for b in range(2):
        by_points = heads_by_definition(*(f[b] for f in functions), weights.numpy() / n_patches, n_heads)
        assert_near(z[b], linear(by_points, state, "merge"), 1e-10)
    uniform = np.broadcast_to(functions[2][0].mean(0), functions[2][0].shape)
    assert np.abs(linear(uniform, state, "merge") - z[0].detach().numpy()).max() > 0.05  # the scores count


def test_attention_to_patches_of_another_function():
    attention = fourier_attention(Fourier(), (2, 2), 6, 2)
    transform = make_transform(make_patches(Grid.uniform((10, 9), kind="cells"), (2, 3)), Fourier(), (2, 2), noise(1))
    v, source = noise(1, 6, 5, 3, 6), noise(1, 4, 5, 3, 6, seed=1)
    z = attention(v, Coefficients(transform, 1 / 6, None), source).flatten(2, -2)
    make_query, make_key, make_value = integral_operators(attention)
    functions = (make_query(v, transform), make_key(source, transform), make_value(source, transform))
    arrays = [f.flatten(2, -2)[0].detach().numpy() for f in functions]
    expected = heads_by_definition(*arrays, np.full(15, 1 / 90), 2)
    assert_near(z[0], linear(expected, as_arrays(attention), "merge"))


def test_absent_patches_in_coefficient_space():
    attention = fourier_attention(Cosine(), (3,), 4, 2)
    points = torch.cat([gauss_points((4,)).points[:14], gauss_points((4,)).points[28:]])
    weights = torch.cat([gauss_points((4,)).weights[:14], gauss_points((4,)).weights[28:]])
    patches = make_patches(Grid.scattered(points, weights), (4,))
    transform, v = make_transform(patches, Cosine(), (3,), noise(1)), patches.split(noise(1, 42, 4))
    assert patches.is_present.tolist() == [True, False, True, True]
    z = patches.join(attention(v, Coefficients(transform, 1 / 4, patches.is_present)))[0]
    functions = [operator(v, transform)[0].detach().numpy() for operator in integral_operators(attention)]
    expected = heads_by_definition(*functions, patches.weights[0].numpy() / 4, 2, [True, False, True, True])
    expected = linear(expected, as_arrays(attention), "merge")[[0, 2, 3]].reshape(-1, 4)
    assert_near(z, expected, 1e-10)


@pytest.mark.parametrize("basis", [Fourier(), ExtendedFourier(), Legendre()], ids=str)
def test_gradients_by_finite_differences(basis):
    attention = fourier_attention(basis, (2,), 2, 1)
    transform = make_transform(make_patches(Grid.uniform(8, kind="cells"), (2,)), basis, (2,), noise(1))
    names, parameters = zip(*attention.named_parameters(), strict=True)
    measure = Coefficients(transform, 0.5, None)

    def call(v, *values):
        return torch.func.functional_call(attention, dict(zip(names, values, strict=True)), (v, measure))

    assert torch.autograd.gradcheck(call, (noise(1, 2, 4, 2).requires_grad_(), *parameters))
