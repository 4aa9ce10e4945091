"""The kernels that make query, key and value, beside float64 products."""

import pytest
import torch

pytestmark = pytest.mark.kernels

BATCH, PATCHES, POINTS, CHANNELS, WIDTH = 2, 3, 83, 32, 8  # two tiles in a patch
HEADS = CHANNELS // WIDTH


@pytest.mark.parametrize("slots", [PATCHES, PATCHES + 2])
def test_projection_and_gradients(device, slots):
    from operformer.kernels.head_projection import project_heads, project_heads_backward

    torch.manual_seed(0)
    v = torch.randn(BATCH * PATCHES * POINTS, CHANNELS, device=device).half().requires_grad_()
    weights = (torch.randn(3, CHANNELS, CHANNELS, device=device) / CHANNELS**0.5).half().float().requires_grad_()
    biases = torch.randn(3, CHANNELS, device=device, requires_grad=True)
    shift = torch.randn(BATCH, CHANNELS, device=device)
    found = project_heads(v, weights, biases, shift, POINTS, PATCHES, slots, WIDTH)
    exact = [t.detach().double().requires_grad_() for t in (v, weights, biases)]
    rows = torch.einsum("ri,poi->pro", exact[0], exact[1]) + exact[2][:, None]
    expected = rows.view(3, BATCH, PATCHES, POINTS, HEADS, WIDTH).permute(0, 1, 4, 2, 3, 5)
    moved = expected.clone()
    moved[2] -= shift.view(BATCH, HEADS, 1, 1, WIDTH)
    count = 2 * BATCH * HEADS * PATCHES
    values = found[count:].view(BATCH, HEADS, slots, POINTS, WIDTH)
    torch.testing.assert_close(found[:count].double(), moved[:2].flatten(0, 3), rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(values[:, :, :PATCHES].double(), moved[2], rtol=2e-3, atol=2e-3)
    assert not bool(values[:, :, PATCHES:].any())
    gradient = torch.randn(3, BATCH, HEADS, slots, POINTS, WIDTH, device=device).half()
    gradient[..., PATCHES:, :, :] = torch.nan  # where there is none
    expected.backward(gradient[:, :, :, :PATCHES].double())
    if slots == PATCHES:
        found.backward(gradient.flatten(0, 3))
        gradients = [t.grad for t in (v, weights, biases)]
    else:
        gradients = project_heads_backward(gradient, v.detach(), weights.detach(), POINTS, PATCHES, slots, WIDTH)
    for mine, theirs in zip(gradients, exact, strict=True):
        assert float((mine.double() - theirs.grad).norm() / theirs.grad.norm()) < 1e-3
