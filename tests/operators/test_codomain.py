"""Codomain attention: channels in place of patches, against the definition written out (Remark codomain_attention)."""

import numpy as np
import pytest
import torch
from draws import noise
from test_encoder import as_arrays, linear
from test_patched_attention import gauss_points, heads_by_definition, integral_operators

from operformer import Grid
from operformer.domain.basis import Cosine, ExtendedFourier, Fourier, Legendre
from operformer.domain.patches import make_patches
from operformer.domain.transform import make_transform
from operformer.errors import UsageError
from operformer.operators.codomain import CodomainAttention, CodomainNO
from operformer.operators.integral import Spectrum


def make(basis, n_modes, channels, token_channels, n_heads):
    torch.manual_seed(1)
    attention = CodomainAttention(channels, token_channels, n_heads, Spectrum(basis, n_modes)).double()
    with torch.no_grad():
        for parameter in attention.mixing.parameters():
            parameter.mul_(3)  # scores that matter
    return attention


def on_d(grid, basis, n_modes):
    """The one patch, its transform and its weights, D scaled to the unit cube."""
    patches = make_patches(grid, (1,) * grid.dim)
    transform = make_transform(patches, basis, n_modes, noise(1))
    return patches, transform, (grid.weights / grid.volume).flatten().numpy()


def by_definition(attention, v, transform, weights):
    """Tokens are groups of consecutive channels: (1, *points, tokens c) one sample, one patch."""
    size = attention.token_channels
    tokens = torch.cat(v.split(size, -1))  # as if they were samples of one function each
    functions = [
        op(tokens.unsqueeze(1), transform).detach().flatten(1, -2).numpy() for op in integral_operators(attention)
    ]
    average = heads_by_definition(*functions, weights, attention.n_heads)
    return np.concatenate(list(linear(average, as_arrays(attention), "merge")), -1), functions


@pytest.mark.parametrize(
    ("basis", "grid", "n_modes"),
    [
        (Fourier(), Grid.uniform(11, kind="periodic"), (3,)),
        (Fourier(), Grid.uniform((7, 8), [(0, 5), (1, 2)], "cells"), (3, 2)),
        (ExtendedFourier(), Grid.uniform((5, 6), kind="cells"), (2, 3)),
        (ExtendedFourier(), Grid.uniform((7, 6)), (2, 3)),
        (Cosine(), Grid.uniform((5, 7), kind="cells"), (3, 2)),
        (Legendre(), gauss_points((1, 1), 5), (3, 2)),
    ],
    ids=str,
)
@pytest.mark.parametrize(("channels", "token_channels", "n_heads"), [(6, 2, 1), (10, 2, 2), (12, 6, 3), (3, 1, 1)])
def test_the_definition(basis, grid, n_modes, channels, token_channels, n_heads):
    attention = make(basis, n_modes, channels, token_channels, n_heads)
    patches, transform, weights = on_d(grid, basis, n_modes)
    v = noise(2, *grid.shape, channels)
    z = patches.join(attention(patches.split(v), transform)).detach().flatten(1, -2).numpy()
    for b in range(2):
        expected, functions = by_definition(attention, v[b : b + 1], transform, weights)
        np.testing.assert_allclose(z[b], expected, rtol=1e-10, atol=1e-10)
        uniform = np.broadcast_to(functions[2].mean(0), functions[2].shape)
        flat = np.concatenate(list(linear(uniform, as_arrays(attention), "merge")), -1)
        assert np.abs(flat - expected).max() > 1e-2  # the scores count


def test_tokens_have_no_order_and_any_number():
    """Weights belong to a token, not to the number of them: five tokens, permuted, by a module made for two."""
    attention = make(Fourier(), (3,), 4, 2, 1)
    patches, transform, weights = on_d(Grid.uniform(7, kind="periodic"), Fourier(), (3,))
    v, order = noise(1, 7, 10), [3, 0, 4, 1, 2]
    channels = [2 * token + c for token in order for c in range(2)]
    z = attention(patches.split(v), transform).detach()
    shuffled = attention(patches.split(v[..., channels]), transform).detach()
    torch.testing.assert_close(shuffled, z[..., channels], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(z[0, 0], by_definition(attention, v, transform, weights)[0], rtol=1e-10, atol=1e-10)


def test_band_limited_functions_do_not_feel_the_resolution():
    attention, found = make(Fourier(), (3, 2), 6, 2, 2), []
    for factor in (1, 3):
        grid = Grid.uniform((5 * factor, 4 * factor), kind="cells")
        phase = 2 * torch.pi * grid.points
        waves = [torch.cos(2 * phase[..., 0] - phase[..., 1] + k) + k * torch.sin(phase[..., 1]) for k in range(6)]
        patches, transform, _ = on_d(grid, Fourier(), (3, 2))
        z = patches.join(attention(patches.split(torch.stack(waves, -1)[None]), transform)).detach()
        found.append(z[:, factor // 2 :: factor, factor // 2 :: factor])
    assert float(found[0].std()) > 0.1
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((6, 4, 1), "token_channels must divide channels: got 4 and 6"),
        ((6, 0, 1), "token_channels must divide channels: got 0 and 6"),
        ((6, 3, 2), "n_heads must divide"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(sizes, message):
    with pytest.raises(UsageError, match=message) as caught:
        CodomainAttention(*sizes, Spectrum(Fourier(), (2,)))
    assert "\n" not in str(caught.value)


def test_the_operator_is_lift_attention_between_channels_and_head():
    torch.manual_seed(2)
    settings = {"hidden_channels": 6, "n_layers": 2, "n_heads": 1, "token_channels": 3, "basis": "cosine"}
    operator = CodomainNO(2, (3, 2), 2, 1, **settings).double()
    grid = Grid.uniform((5, 4), [(0.0, 1.1), (-2.0, 1.7)], "cells")
    u = noise(1, 2, 5, 4)
    _, transform, weights = on_d(grid, Cosine(), (3, 2))
    x = operator.position(grid)
    v = operator.lift(u.flatten(2).mT, x)
    for layer in operator.layers:
        attended, _ = by_definition(layer.attention, v.detach().reshape(1, 5, 4, 6), transform, weights)
        v = layer.norm_1(v + torch.from_numpy(attended).reshape(1, 20, 6))
        v = layer.norm_2(v + layer.feed_forward(v))
    expected = operator.head(v, x).mT.unflatten(-1, (5, 4))
    torch.testing.assert_close(operator(u, grid), expected, rtol=1e-10, atol=1e-12)


def test_what_the_operator_refuses():
    operator = CodomainNO(1, 3, 1, 1, hidden_channels=4, n_layers=1, token_channels=2)
    with pytest.raises(UsageError, match="query must be a Grid of dimension 1"):
        operator(torch.zeros(1, 1, 5), Grid.uniform(5), query=Grid.uniform((7, 7)))
    with pytest.raises(UsageError, match="token_channels must divide channels"):
        CodomainNO(1, 3, 1, 1, hidden_channels=4, token_channels=3)
    _, transform, _ = on_d(Grid.uniform(5), Fourier(), (2,))
    with pytest.raises(UsageError, match="leave source out"):
        make(Fourier(), (2,), 4, 2, 1)(noise(1, 1, 5, 4), transform, noise(1, 1, 5, 4))
