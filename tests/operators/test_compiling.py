"""Compiled operators: what the compiler is told, and on a GPU gradients of a network whose rows it would pad."""

import pytest
import torch

from operformer import Grid, SpectralOperator
from operformer.evaluation.loss import relative_l2
from operformer.operators.production import compiled


def test_what_the_compiler_gets_wrong_is_switched_off(monkeypatch):
    asked = {}
    monkeypatch.setattr(torch, "compile", lambda module, **given: asked.update(given) or module)
    operator = torch.nn.LayerNorm(4)
    assert compiled(operator, dynamic=False) is operator
    assert asked == {"dynamic": False, "options": {"comprehensive_padding": False}}
    assert "comprehensive_padding" in torch._inductor.list_options()  # or torch would refuse it


def test_a_compiler_without_it_is_asked_for_nothing(monkeypatch):
    asked = {}
    monkeypatch.setattr(torch, "compile", lambda module, **given: asked.update(given) or module)
    monkeypatch.setattr(torch._inductor, "list_options", lambda: ["triton.cudagraphs"])
    compiled(torch.nn.LayerNorm(4))
    assert asked == {"dynamic": None, "options": None}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the fault is in kernels for a GPU")
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")  # what the compiler says of itself
def test_gradients_of_a_network_that_was_misread():
    """With padded rows torch 2.11 has them wrong by 0.3 to 2700 times their size, whether products are exact or not."""
    torch.manual_seed(0)
    operator = SpectralOperator((20, 20), 1, 1, 48, n_layers=2, waves=8, basis="extended-fourier").cuda()
    grid = Grid.uniform((85, 85)).to("cuda")
    u, z = torch.randn(2, 4, 1, 85, 85, device="cuda")
    parameters = list(operator.parameters())
    expected = torch.autograd.grad(relative_l2(operator(u, grid), z, grid).mean(), parameters)
    fast = compiled(operator, dynamic=False)
    for _ in range(5):
        torch.full((2**24,), torch.nan, device="cuda")  # what freed memory may hold
        found = torch.autograd.grad(relative_l2(fast(u, grid), z, grid).mean(), parameters)
        for mine, other in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))
