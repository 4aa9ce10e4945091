"""Products that TF32 must not round, on a machine that rounds as a GPU does."""

import pytest
import torch

from operformer.domain import products
from operformer.domain.products import exact_matmul


def rounded(t):
    """To the 10 bits of TF32's mantissa: not to nearest, the worst that a GPU may do."""
    return (t.contiguous().view(torch.int32) & ~(2**13 - 1)).view(torch.float32).double()


class RoundedProduct(torch.autograd.Function):
    """left @ right in TF32, and its gradients."""

    @staticmethod
    def forward(ctx, left, right):
        ctx.save_for_backward(left, right)
        return (rounded(left) @ rounded(right)).float()

    @staticmethod
    def backward(ctx, gradient):
        left, right = ctx.saved_tensors
        dleft = (rounded(gradient) @ rounded(right).mT).float()
        dright = (rounded(left).mT @ rounded(gradient)).float()
        return dleft.sum_to_size(left.shape), dright.sum_to_size(right.shape)


@pytest.mark.parametrize("shapes", [((11, 7), (7, 5)), ((2, 3, 11, 7), (7, 5)), ((11, 7), (2, 3, 7, 5))], ids=str)
def test_as_in_float32(monkeypatch, shapes):
    monkeypatch.setattr(products, "are_rounded", lambda t: True)
    monkeypatch.setattr(torch, "matmul", RoundedProduct.apply)
    monkeypatch.setattr(torch, "bmm", RoundedProduct.apply)
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes)
    expected, found = left.double() @ right.double(), exact_matmul(left, right)
    assert (torch.matmul(left, right) - expected).abs().max() > 1e-4  # the machine does round
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)
    weights = torch.randn(expected.shape, generator=generator)
    exact = torch.autograd.grad((expected * weights).sum(), (left, right))
    for mine, other in zip(torch.autograd.grad((found * weights).sum(), (left, right)), exact, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=2e-3 * float(other.abs().max()))


def test_elsewhere_it_is_the_plain_product():
    left, right = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    torch.testing.assert_close(exact_matmul(left, right), left @ right, rtol=0, atol=0)
