"""Operators by fused layers, beside the same operators in float64 by plain ones."""

import sys

import pytest
import torch

from operformer import FANO, TNO, Grid, Increment, Overlap, ViTNO, set_precision
from operformer.kernels.pointwise_block import block_readout
from operformer.operators import backends, composition, fused_layers, fused_modes, vitno

pytestmark = pytest.mark.kernels

TORUS = Overlap(0.25, "periodic")
SIZE = {"hidden_channels": 32, "n_layers": 2, "n_heads": 4}
WIDER = SIZE | {"n_heads": 2}  # heads of 16 channels have a kernel of their own
WIDE = SIZE | {"hidden_channels": 64}
CELLS, NODES = "cells", "nodes"
CASES = {
    "TNO, equal weights": (lambda: TNO(2, 1, 1, **SIZE), (7, 5), CELLS),
    "TNO, weights": (lambda: TNO(2, 1, 1, **SIZE), (7, 5), NODES),
    "TNO, few weights": (lambda: TNO(1, 1, 1, hidden_channels=64, n_layers=2, n_heads=1), (37,), NODES),
    "TNO, small heads": (lambda: TNO(2, 1, 1, **WIDER), (7, 5), CELLS),
    "TNO, small heads, weights": (lambda: TNO(2, 1, 1, **WIDER), (7, 5), NODES),
    "TNO, two outputs": (lambda: TNO(2, 1, 2, **SIZE), (7, 5), CELLS),
    "ViTNO": (lambda: ViTNO((3, 3), 3, 1, 1, last=2, overlap=0, **SIZE), (15, 18), CELLS),
    "ViTNO, weights": (lambda: ViTNO((3, 3), 2, 1, 1, overlap=0, **SIZE), (13, 16), NODES),
    "FANO": (lambda: FANO((3, 3), 3, 1, 1, last=2, overlap=0, **SIZE), (18, 24), CELLS),
    "FANO, cosines": (lambda: FANO((3, 3), 3, 1, 1, basis="cosine", overlap=0, **SIZE), (18, 24), CELLS),
    "FANO, isotropic": (lambda: FANO((3, 3), 3, 1, 1, basis="isotropic-fourier", overlap=0, **SIZE), (18, 24), CELLS),
    "FANO, extension": (lambda: FANO((3, 3), 3, 1, 1, basis="extended-fourier", overlap=0, **SIZE), (18, 24), CELLS),
    "FANO, extension, wide": (
        lambda: FANO((2, 2), 4, 1, 1, basis="extended-fourier", overlap=0, **WIDE),
        (20, 20),
        CELLS,
    ),
    "FANO, input added": (lambda: Increment(FANO((1, 2), 4, 1, 1, overlap=0, **SIZE)), (16, 24), "periodic"),
    "ViTNO, blended": (lambda: ViTNO((3, 3), 3, 1, 1, last=2, overlap=0.3, **SIZE), (15, 18), CELLS),
    "ViTNO, blended nodes": (lambda: ViTNO((3, 3), 2, 1, 1, overlap=0.25, **SIZE), (13, 16), NODES),
    "ViTNO, blended on a torus": (lambda: ViTNO((4,), 3, 1, 1, overlap=TORUS, **SIZE), (24,), "periodic"),
    "FANO, blended": (lambda: FANO((3, 3), 3, 1, 1, overlap=0.25, **SIZE), (18, 24), CELLS),
    "FANO, blended cosines": (lambda: FANO((3, 2), 3, 1, 1, basis="cosine", overlap=TORUS, **SIZE), (17, 24), NODES),
    "FANO in one dimension": (lambda: FANO((5,), 3, 1, 1, overlap=0, **SIZE), (35,), CELLS),
}


@pytest.mark.parametrize("name", CASES)
def test_same_function_and_gradients(device, monkeypatch, small_heads_are_taken, name):
    make, shape, kind = CASES[name]
    torch.manual_seed(0)
    operator = make().to(device)
    grid = Grid.uniform(shape, kind=kind).to(device)
    for parameter in operator.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    u = torch.randn(2, 1, *shape, device=device)
    z = operator.double()(u.double(), grid)
    dz = torch.randn_like(z).float()
    z.backward(dz.double())
    expected = {name: p.grad.clone() for name, p in operator.named_parameters()}
    operator.zero_grad()
    operator.float()
    set_precision(operator, torch.float16)
    if device == "cpu":
        monkeypatch.setattr(composition, "can_fuse", lambda layers, v: True)
        monkeypatch.setattr(vitno, "can_fuse", lambda layers, v: True)
        monkeypatch.setattr(sys.modules[set_precision.__module__], "is_faster", lambda dtype, head, device: head > 56)
        monkeypatch.setattr(backends, "can_mend", lambda query, value: query.shape[-1] > 56)
    else:
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    calls = []
    monkeypatch.setattr(fused_layers, "block_readout", lambda *given: calls.append(1) or block_readout(*given))
    found = operator(u, grid)
    assert not calls
    with torch.no_grad():  # the head is read inside the last layer
        torch.testing.assert_close(operator(u, grid), found, rtol=1e-5, atol=1e-5 * float(found.abs().max()))
    assert calls
    functions = _functions(found.grad_fn)
    assert "Block" in functions
    assert ("Mended" in functions) == (name == "TNO, few weights")
    assert ("small_heads" in functions) == ("small heads" in name)
    found.backward(dz)
    if device == "cuda":
        torch.cuda.synchronize()  # an error of a kernel is told at the next wait
    # Functions of an extended patch are not orthogonal on it: rounded coefficients cancel. Where patches overlap they
    # come from two products, of which each is rounded.
    is_coarser = "extension" in name or "FANO, blended" in name
    assert float((found.double() - z).detach().norm() / z.detach().norm()) < (3e-3 if is_coarser else 1e-3)
    differences = {key: p.grad.double() - expected[key] for key, p in operator.named_parameters()}
    assert float(_norm(differences) / _norm(expected)) < (5e-3 if device == "cpu" else 1e-2)  # bfloat16 where it exists
    for key, difference in differences.items():
        # A bias of keys moves all scores alike: its gradient is zero.
        if float(expected[key].norm()) > 1e-9 * _norm(expected):
            # On a GPU sums are rounded in another order, which a small gradient that is a sum over points sees most.
            most = (1e-2 if is_coarser else 5e-3) if device == "cpu" else 5e-2
            assert float(difference.norm() / expected[key].norm()) < most, key


def test_a_patch_that_is_too_large_for_a_table_is_computed_axis_by_axis(device, monkeypatch):
    if device == "cpu":
        monkeypatch.setattr(composition, "can_fuse", lambda layers, v: True)
    else:
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    operator = set_precision(FANO((2, 2), 3, 1, 1, overlap=0, **SIZE), torch.float16).to(device)
    u, grid = torch.randn(1, 1, 12, 16, device=device), Grid.uniform((12, 16), kind="cells").to(device)
    fused = operator(u, grid)
    assert "Block" in _functions(fused.grad_fn)
    monkeypatch.setattr(fused_modes, "LARGEST", 5 * 6 * 5 * 8 - 1)  # functions times points
    plain = operator(u, grid)
    assert "Block" not in _functions(plain.grad_fn)
    torch.testing.assert_close(plain, fused, rtol=2e-2, atol=2e-2 * float(fused.detach().abs().max()))


SMALL = {
    "TNO": lambda: TNO(2, 1, 1, **SIZE),
    "ViTNO": lambda: ViTNO((2, 1), 2, 1, 1, overlap=0, **SIZE),
    "FANO": lambda: FANO((2, 1), 2, 1, 1, overlap=0, **SIZE),
    "ViTNO, blended": lambda: ViTNO((2, 1), 2, 1, 1, overlap=0.25, **SIZE),
    "FANO, blended": lambda: FANO((2, 1), 2, 1, 1, overlap=0.25, **SIZE),
}


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_they_are_compiled_in_one_graph(device, monkeypatch, make):
    """Traced with gradients, shapes and strides of kernels as their fake forms tell them."""
    torch.manual_seed(0)
    operator = set_precision(make().to(device), torch.float16)
    grid, u = Grid.uniform((8, 4), kind=CELLS).to(device), torch.randn(2, 1, 8, 4, device=device)
    if device == "cpu":
        monkeypatch.setattr(composition, "can_fuse", lambda layers, v: True)
        monkeypatch.setattr(vitno, "can_fuse", lambda layers, v: True)
    else:
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    torch.compiler.reset()
    compiled = torch.compile(operator, fullgraph=True, dynamic=False, backend="aot_eager")
    plain, graph = operator(u, grid), compiled(u, grid)
    torch.testing.assert_close(graph, plain, rtol=1e-4, atol=1e-4 * float(plain.detach().abs().max()))
    gradients = [torch.autograd.grad(z.square().sum(), list(operator.parameters())) for z in (plain, graph)]
    expected, found = (torch.cat([gradient.flatten() for gradient in several]) for several in gradients)
    assert float((found - expected).norm() / expected.norm()) < 5e-3
    with torch.no_grad():
        torch.testing.assert_close(compiled(u, grid), plain, rtol=1e-4, atol=1e-4 * float(plain.detach().abs().max()))


def _norm(gradients):
    """Of all gradients together."""
    return torch.cat([gradient.flatten() for gradient in gradients.values()]).norm()


def _functions(node, depth=60):
    """The names of the functions that made a tensor."""
    names, nodes = "", [node]
    for _ in range(depth):
        nodes = [n for node in nodes for n, _ in node.next_functions if n is not None]
        names += " ".join(type(n).__name__ for n in nodes)
    return names
