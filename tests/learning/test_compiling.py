"""Compiled operators: what the compiler is told, and on a GPU gradients on a number of points that no block divides."""

import pytest
import torch

from operformer import FANO, Grid
from operformer.learning.compiling import compiled


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
@pytest.mark.filterwarnings("ignore")
def test_gradients_where_no_block_divides_the_points():
    """4 x 85 x 85 = 28900 rows: 4 times an odd number."""
    torch.manual_seed(0)
    operator = FANO((1, 1), 12, 1, 1, hidden_channels=48, n_layers=2, periodic_extension=True).cuda()
    grid = Grid.uniform((85, 85)).to("cuda")
    u = torch.randn(4, 1, 85, 85, device="cuda")
    parameters = list(operator.parameters())
    expected = torch.autograd.grad(operator(u, grid).square().mean(), parameters)
    fast = compiled(operator, dynamic=False)
    for _ in range(5):
        torch.full((2**24,), torch.nan, device="cuda")  # what freed memory may hold
        found = torch.autograd.grad(fast(u, grid).square().mean(), parameters)
        for mine, other in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))
