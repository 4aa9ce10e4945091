"""Attention between patches by its kernels, beside its definition in float64."""

import pytest
import torch

pytestmark = pytest.mark.kernels

BATCH, HEADS, POINTS, WIDTH, SCALE = 2, 3, 6, 4, 0.2


def plain(query, key, value, weights, scale):
    query = query.unflatten(-1, (POINTS, WIDTH)) * weights[:, None]
    share = torch.softmax(scale * query.flatten(-2) @ key.mT, -1)
    return share, share @ value


def as_projected(parts, slots):
    """Query, key and value as `project_heads` leaves them."""
    query, key, value = parts
    padded = value.new_zeros(len(value), slots, *value.shape[2:])
    padded[:, : value.shape[1]] = value
    return torch.cat([query.flatten(0, 1), key.flatten(0, 1), padded.flatten(0, 1)])


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("patches", "slots"), [(5, 8), (8, 8), (9, 16)])
def test_average_and_gradients(device, patches, slots, is_weighted):
    from operformer.kernels.patched_average import patched_average, patched_average_backward

    torch.manual_seed(0)
    functions = BATCH * HEADS
    parts = torch.randn(3, functions, patches, POINTS, WIDTH, device=device).half()
    heads = as_projected(parts, slots)
    weights = torch.rand(POINTS, device=device) + 0.5 if is_weighted else torch.empty(0, device=device)
    exact = parts.double().flatten(3).requires_grad_()
    every = weights.double() if is_weighted else torch.ones(POINTS, dtype=torch.float64, device=device)
    share, a = plain(*exact, every, SCALE)
    da = torch.randn_like(a).half()
    a.backward(da.double())
    found_share, found = patched_average(heads, weights, SCALE, patches, slots)
    assert found.shape == a.shape
    torch.testing.assert_close(found_share[..., :patches].double(), share, rtol=4e-3, atol=1e-3)
    assert not bool(found_share[..., patches:].any())
    torch.testing.assert_close(found.double(), a, rtol=4e-3, atol=4e-3)
    gradient = patched_average_backward(da, heads, found_share, weights, SCALE, patches)
    assert gradient.shape == (3, functions, slots, POINTS * WIDTH)
    for mine, theirs in zip(gradient[:, :, :patches].double(), exact.grad, strict=True):
        assert float((mine - theirs).norm() / theirs.norm()) < 5e-3


def test_what_is_not_finite_stays_in_its_function(device):
    from operformer.kernels.patched_average import patched_average

    parts = torch.randn(3, 3, 5, POINTS, WIDTH, device=device).half()
    parts[2, 1] = torch.inf
    _, a = patched_average(as_projected(parts, 8), torch.empty(0, device=device), SCALE, 5, 8)
    assert torch.isfinite(a).all((1, 2)).tolist() == [True, False, True]


def test_the_operators_are_what_compilers_are_told(device):
    from operformer.kernels.patched_average import patched_average, patched_average_backward

    heads = as_projected(torch.randn(3, 2, 5, POINTS, WIDTH, device=device).half(), 8)
    weights = torch.empty(0, device=device)
    torch.library.opcheck(patched_average, (heads, weights, SCALE, 5, 8))
    share, a = patched_average(heads, weights, SCALE, 5, 8)
    # What is beyond the patches is not written, so nothing can be said of its values.
    checks = ("test_schema", "test_faketensor")
    given = (torch.ones_like(a), heads, share, weights, SCALE, 5)
    torch.library.opcheck(patched_average_backward, given, test_utils=checks)
