"""The kernels of an encoder layer's pointwise part, beside the same in float64 by PyTorch's own functions."""

import pytest
import torch
from torch.nn.functional import gelu, layer_norm

pytestmark = pytest.mark.kernels

BATCH, PATCHES, POINTS, CHANNELS, WIDTH = 2, 3, 83, 32, 8  # two tiles in a patch
ROWS, HEADS = BATCH * PATCHES * POINTS, CHANNELS // WIDTH


def plain(v, a, inner, outer, merge, vectors, is_merged):
    x = v + vectors[6] + (a @ merge.T if is_merged else a)
    y = layer_norm(x, (CHANNELS,), vectors[0], vectors[1])
    t = gelu(y @ inner.T + vectors[2]) @ outer.T + vectors[3]
    return layer_norm(y + t, (CHANNELS,), vectors[4], vectors[5])


def by_heads(a):
    """(rows, channels) -> (batch, heads, patches, points, width)."""
    return a.view(BATCH, PATCHES, POINTS, HEADS, WIDTH).permute(0, 3, 1, 2, 4)


def given(device):
    torch.manual_seed(0)
    v, a, dz = (torch.randn(ROWS, CHANNELS, device=device) for _ in range(3))
    weights = [torch.randn(CHANNELS, CHANNELS, device=device) / CHANNELS**0.5 for _ in range(3)]
    ones = torch.tensor([1.0, 0, 0, 0, 1, 0, 0], device=device)[:, None]
    return v, a, dz, weights, ones + 0.3 * torch.randn(7, CHANNELS, device=device)


def relative(found, expected):
    return float((found.detach().double() - expected.detach()).norm() / expected.detach().norm())


@pytest.mark.parametrize("is_merged", [False, True])
def test_forward_and_gradients(device, is_merged):
    from operformer.kernels.pointwise_block import block_backward, block_forward

    v, a, dz, (inner, outer, merge), vectors = given(device)
    dz_half = torch.randn_like(dz).half()
    exact = [t.double().requires_grad_() for t in (v, a, inner, outer, merge, vectors)]
    z = plain(*exact, is_merged)
    z.backward((dz + dz_half.float()).double())
    shift = torch.randn(BATCH, CHANNELS, device=device)
    layout = (POINTS, PATCHES, WIDTH)
    if is_merged:
        a = (by_heads(a) - shift.view(BATCH, HEADS, 1, 1, WIDTH)).half().contiguous()
    else:
        merge = v.new_empty(0, 0)
    arguments = (v, a, shift, inner, outer, merge, vectors, 1e-5, 1e-5, *layout)
    found, found_half = block_forward(*arguments, True)
    # Weights have 11 bits, and so has a by heads.
    assert relative(found, z) < 4e-4
    assert relative(found_half, z) < 6e-4
    dx, da, d_inner, d_outer, d_merge, d_vectors = block_backward(dz, dz_half, *arguments)
    tolerance = 1e-3 if device == "cpu" else 1e-2  # bfloat16 where it exists
    expected = [t.grad for t in exact]
    assert relative(dx, expected[0]) < tolerance
    assert relative(da, by_heads(expected[1]) if is_merged else expected[1]) < tolerance
    assert relative(d_inner, expected[2]) < tolerance
    assert relative(d_outer, expected[3]) < tolerance
    assert not is_merged or relative(d_merge, expected[4]) < tolerance
    assert relative(d_vectors, expected[5]) < tolerance


def test_readout_is_that_of_the_output(device):
    from operformer.kernels.pointwise_block import block_forward, block_readout

    v, a, _, (inner, outer, matrix), vectors = given(device)
    nothing, layout = v.new_empty(0, 0), (POINTS, PATCHES, CHANNELS)
    arguments = (v, a, nothing, inner, outer, nothing, vectors, 1e-5, 1e-5, *layout)
    z, _ = block_forward(*arguments, False)
    found = block_readout(*arguments, matrix[:3])
    torch.testing.assert_close(found, z @ matrix[:3].T, rtol=1e-5, atol=1e-5)


def test_rounding_is_that_of_the_weights_alone(device):
    """With weights that half precision holds, nothing is rounded from point to point."""
    from operformer.kernels.pointwise_block import block_forward

    v, a, _, (inner, outer, _), vectors = given(device)
    inner, outer = inner.half().float(), outer.half().float()
    nothing = v.new_empty(0, 0)
    found, _ = block_forward(
        v, a, nothing, inner, outer, nothing, vectors, 1e-5, 1e-5, POINTS, PATCHES, CHANNELS, False
    )
    exact = plain(*(t.double() for t in (v, a, inner, outer, nothing, vectors)), is_merged=False)
    assert relative(found, exact) < 1e-6
