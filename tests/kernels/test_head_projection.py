"""The kernels that make query, key and value, beside float64 products."""

import torch

BATCH, PATCHES, SLOTS, POINTS, CHANNELS, WIDTH = 2, 3, 5, 13, 32, 8


def test_projection_and_gradients(device):
    from operformer.kernels.head_projection import project_heads

    torch.manual_seed(0)
    heads = CHANNELS // WIDTH
    v = torch.randn(BATCH * PATCHES * POINTS, CHANNELS, device=device).half().requires_grad_()
    weights = (torch.randn(3, CHANNELS, CHANNELS, device=device) / CHANNELS**0.5).half().float().requires_grad_()
    biases = torch.randn(3, CHANNELS, device=device, requires_grad=True)
    shift = torch.randn(BATCH, CHANNELS, device=device)
    found = project_heads(v, weights, biases, shift, POINTS, PATCHES, SLOTS, WIDTH)
    exact = [t.detach().double().requires_grad_() for t in (v, weights, biases)]
    rows = torch.einsum("ri,poi->pro", exact[0], exact[1]) + exact[2][:, None]
    expected = rows.view(3, BATCH, PATCHES, POINTS, heads, WIDTH).permute(0, 1, 4, 2, 3, 5)
    moved = expected.clone()
    moved[2] -= shift.view(BATCH, heads, 1, 1, WIDTH)
    torch.testing.assert_close(found[:, :, :, :PATCHES].double(), moved, rtol=2e-3, atol=2e-3)
    assert not bool(found[:, :, :, PATCHES:].any())
    gradient = torch.randn_like(found)
    found.backward(gradient)
    expected.backward(gradient[:, :, :, :PATCHES].double())
    for mine, theirs in zip((v, weights, biases), exact, strict=True):
        assert float((mine.grad.double() - theirs.grad).norm() / theirs.grad.norm()) < 1e-3
