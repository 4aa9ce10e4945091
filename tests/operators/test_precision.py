"""Half precision inside averages: close to the definition on the same rounded inputs, float32 outside."""

import math

import pytest
import torch
from written_out import literal_attention

from operformer import FANO, TNO, Grid, Transformer, UniversalTNO, ViTNO, attention, set_precision
from operformer.domain import h1_norm
from operformer.errors import UsageError
from operformer.operators.backends import in_float16

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=CUDA)])
HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


def rounded(dtype, device, n=37, m=41, d_k=16, d_v=16):
    generator = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(k, d, generator=generator).to(device, dtype) for k, d in ((n, d_k), (m, d_k), (m, d_v))
    )
    exponents = torch.rand(m, generator=generator, dtype=torch.float64)
    exponents[0], exponents[1] = 0, 1
    return query, key, value, (10 ** (-4 * exponents)).to(device)


@DEVICES
@HALVES
def test_half_precision_inputs_give_an_accurate_float32_average(dtype, device):
    query, key, value, weights = rounded(dtype, device)
    assert 9.9e3 < float(weights.max() / weights.min()) < 1.01e4
    out = attention(query, key, value, weights, 0.25)
    assert out.dtype == torch.float32
    expected = literal_attention(query, key, value, weights, 0.25)
    error = float((out.double() - expected).abs().max())
    print(f"{device}, {dtype}: error {error:.2e}")
    # Values are of size one; the tolerance is that of scores rounded to 11 bits, not of the 8 bits of bfloat16 inputs.
    assert error < 2e-3


@DEVICES
@HALVES
def test_weight_zero_is_absence_in_half_precision(dtype, device):
    query, key, value, weights = rounded(dtype, device)
    key[5] = 100 * key[5]
    weights[5] = 0
    left = [j for j in range(41) if j != 5]
    inputs = [t.requires_grad_() for t in (query, key, value)]
    out = attention(*inputs, weights, 0.25)
    expected = literal_attention(query, key[left], value[left], weights[left], 0.25)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-3)
    for gradient in torch.autograd.grad(out.square().sum(), inputs):
        assert bool(torch.isfinite(gradient).all())


@DEVICES
@HALVES
def test_half_precision_gradients_are_those_of_the_definition(dtype, device):
    inputs = rounded(dtype, device)
    weights = inputs[3]
    half = [t.requires_grad_() for t in inputs[:3]]
    double = [t.detach().double().requires_grad_() for t in inputs[:3]]
    got = torch.autograd.grad(attention(*half, weights, 0.25).square().sum(), half)
    wanted = torch.autograd.grad(literal_attention(*double, weights, 0.25).square().sum(), double)
    for gradient, exact in zip(got, wanted, strict=True):
        # A gradient with respect to a rounded tensor is rounded itself: 8 bits in bfloat16, and sums of such numbers.
        relative = float((gradient.double() - exact).norm() / exact.norm())
        print(f"{device}, {dtype}: gradient {relative:.2e}")
        assert relative < 1e-2


@pytest.mark.parametrize("kind", [TNO, UniversalTNO, Transformer])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_float32_agrees_with_float64(kind, dim):
    torch.manual_seed(dim)
    operator = kind(dim, 2, 1, hidden_channels=16, n_layers=2)
    u = torch.randn(2, 2, *(11, 3, 5)[:dim], generator=torch.Generator().manual_seed(0))
    grid = Grid.uniform((11, 3, 5)[:dim])
    single = operator(u, grid)
    double = operator.double()(u.double(), grid)
    assert single.dtype == torch.float32
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-5)


def smooth_input(n, device):
    x = torch.linspace(0, 1, n, device=device)
    return torch.stack([torch.sin(2 * math.pi * x), x * torch.exp(-x)]).unsqueeze(0), Grid.uniform(n).to(device)


@DEVICES
@HALVES
@pytest.mark.parametrize("n", [64, 257])
def test_set_precision_rounds_averages_and_is_safe_in_h1(dtype, n, device):
    torch.manual_seed(0)
    operator = TNO(dim=1, in_channels=2, out_channels=1, hidden_channels=64, n_layers=3).eval().to(device)
    u, grid = smooth_input(n, device)
    with torch.no_grad():
        full = operator(u, grid)
        half = set_precision(operator, dtype)(u, grid)
        again = set_precision(operator, None)(u, grid)
    assert half.dtype == torch.float32
    relative = float(h1_norm(half - full, grid) / h1_norm(full, grid))
    print(f"{device}, {dtype}, {n} nodes: relative H1 {relative:.2e}")
    # On a GPU the kernel rounds its output to float16, point by point; bfloat16 has three bits less.
    half_limit = 2e-3 if device == "cpu" or n == 64 else 1e-2
    limit = 16e-3 if dtype == torch.bfloat16 else half_limit
    assert 0 < relative < limit
    torch.testing.assert_close(again, full, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [TNO, UniversalTNO, Transformer])
def test_set_precision_reaches_every_operator(kind):
    torch.manual_seed(1)
    operator = kind(1, 2, 1, hidden_channels=16, n_layers=1)
    u, grid = smooth_input(37, "cpu")
    with torch.no_grad():
        assert float((operator(u, grid) - set_precision(operator, torch.bfloat16)(u, grid)).abs().max()) > 0


@pytest.mark.parametrize("wrong", [torch.float64, torch.int8])
def test_another_precision_is_refused_in_one_line(wrong):
    operator = TNO(dim=1, in_channels=1, out_channels=1, hidden_channels=8, n_layers=1)
    with pytest.raises(UsageError, match=r"averages must be None, torch.float16 or torch.bfloat16") as caught:
        set_precision(operator, wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["TNO", "ViTNO", "FANO"])
def test_operators_run_under_autocast_and_by_the_policy(kind):
    torch.manual_seed(3)
    size = {"hidden_channels": 16, "n_layers": 2, "n_heads": 2}
    operator = TNO(2, 1, 1, **size) if kind == "TNO" else {"ViTNO": ViTNO, "FANO": FANO}[kind]((2, 3), 3, 1, 1, **size)
    grid = Grid.uniform((10, 15), kind="cells")
    u = torch.sin(5 * grid.points[..., 0] * grid.points[..., 1]).float()[None, None]
    full = operator(u, grid)
    with torch.autocast("cpu", torch.bfloat16):
        cast = operator(u, grid)
    cast.float().square().sum().backward()
    rounded = set_precision(operator, torch.float16)(u, grid)
    by_autocast, by_policy = (float((z - full).detach().norm() / full.detach().norm()) for z in (cast, rounded))
    print(f"{kind}: autocast {by_autocast:.1e}, policy {by_policy:.1e}")
    assert 0 < by_policy < 1e-3 < by_autocast < 5e-2
    assert all(bool(p.grad.isfinite().all()) for p in operator.parameters() if p.grad is not None)


@pytest.mark.parametrize("size", [1.0, 3e-9, 7e10])
def test_bfloat16_as_float16_loses_nothing(size):
    """Attention of bfloat16 numbers of any size by float16 ones: powers of two move from key to query, out of value."""
    generator = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(11, 6, generator=generator).double() for _ in range(3))
    query, key, value = (query / size).bfloat16(), (key * size).bfloat16(), (value * size).bfloat16()
    longer, shorter, small, unit = in_float16(query, key, value, 0.3)
    assert all(t.dtype == torch.float16 for t in (longer, shorter, small))
    assert torch.equal(small.double() * unit, value.double())
    scores = 0.3 * query.double() @ key.double().T
    # The scale is no power of two, so that the query is rounded, to 11 bits.
    torch.testing.assert_close(longer.double() @ shorter.double().T, scores, rtol=0, atol=2**-11 * 6 * 4)


def test_bfloat16_beyond_the_range_of_float16_stays_finite():
    query, key = torch.full((2, 3), 1e30).bfloat16(), torch.tensor([[1.0] * 3, [0.0] * 3]).bfloat16()
    longer, shorter, small, unit = in_float16(query, key, torch.zeros(2, 3).bfloat16(), 1.0)
    assert all(bool(torch.isfinite(t).all()) for t in (longer, shorter, small, unit))
    assert float(unit) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_bfloat16_as_float16_is_differentiable_when_compiled(backend, size):
    """torch 2.11's compiler dropped the gradients of `_Moved`. A large key makes the last query one that is clamped."""
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))

    def gradient(function):
        w = weight.clone().requires_grad_()
        return torch.autograd.grad(function(w), w)[0]

    def sizes(w):
        query, key = (x @ w * size).bfloat16(), torch.full((5, 8), size).bfloat16()
        longer, _, small, unit = in_float16(query, key, (x @ w).bfloat16(), 0.3)
        return longer.float().sum() + (small.float().square() * unit).sum()

    torch.compiler.reset()
    plain, compiled = gradient(sizes), gradient(torch.compile(sizes, backend=backend, fullgraph=True))
    assert bool((plain != 0).all())
    torch.testing.assert_close(compiled, plain, rtol=1e-2, atol=1e-2 * float(plain.abs().max()))
