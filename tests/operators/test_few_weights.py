"""Plain attention, corrected where points weigh less, beside the definition in float64; on a GPU where there is one."""

import math
import sys

import pytest
import torch
import written_out
from draws import noise
from torch.nn.functional import scaled_dot_product_attention
from written_out import literal_attention

from operformer import TNO, Grid, backend
from operformer.domain.interpolation import graded_grid
from operformer.kernels.recording import CudaGraphs
from operformer.operators import backends, few_weights, tno
from operformer.operators.attention import Measure, MultiHeadAttention, attend, log_density, set_precision
from operformer.operators.few_weights import NearlyEqual, attend_nearly_equal, split_weights

NODES = [(37,), (33, 37), (53, 59, 61)]
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CORRECTED = "torch's fused attention, corrected at the boundary"


@pytest.fixture(autouse=True)
def _in_plain_operations(monkeypatch):
    """Without a GPU the sums over S are taken away in plain operations, in the precision of the inputs."""
    if not torch.cuda.is_available():
        monkeypatch.setattr(few_weights, "_mending", lambda: written_out)


def few_of(grid):
    return split_weights(grid, log_density(grid.weights.flatten()))


def heads(points, width, dtype, device="cpu", order="points first"):
    """Query, key and value (2, 3, points, width), as layers make them or with heads before points in memory."""
    made = [noise(2, points, 3, width, seed=seed).to(device, dtype).transpose(1, 2) for seed in range(3)]
    return [(t.contiguous() if order == "heads first" else t).requires_grad_() for t in made]


def compare(found, expected, inputs, tolerance, seed=5):
    """Values, and gradients of a product with some function; tolerances are relative to the largest number."""
    other = noise(*expected.shape, seed=seed).to(expected.device)
    pairs = [(found, expected)]
    pairs += zip(
        torch.autograd.grad(found, inputs, other.to(found.dtype)),
        torch.autograd.grad(expected, inputs, other),
        strict=True,
    )
    for mine, exact in pairs:
        assert bool(torch.isfinite(mine).all())
        error = float((mine.detach().double() - exact.detach().double()).abs().max() / exact.detach().abs().max())
        assert error < tolerance, error


# Which points weigh less


@pytest.mark.parametrize("shape", NODES[:2])
def test_the_boundary_is_where_weights_are_not_the_largest(shape):
    grid = Grid.uniform(shape)
    few, weights = few_of(grid), grid.weights.flatten() / grid.weights.max()
    torch.testing.assert_close(few.index.sort().values, torch.nonzero(weights < 0.9)[:, 0])
    torch.testing.assert_close(few.log_missing.exp(), 1 - weights[few.index], rtol=1e-12, atol=0)
    assert few.most == pytest.approx(float(few.log_missing.exp().max()), rel=1e-12)


def test_missing_weights_by_hand():
    """Of 17 x 33 nodes 96 lie on the boundary: more than an eighth; of 41 x 43 nodes 4 corners lack 3/4, edges 1/2."""
    assert few_of(Grid.uniform((17, 33))) is None
    missing = few_of(Grid.uniform((41, 43))).log_missing.exp()
    assert sorted(set(missing.mul(1e12).round().div(1e12).tolist())) == [0.5, 0.75]
    assert int((missing > 0.6).sum()) == 4
    assert len(missing) == 2 * 41 + 2 * 43 - 4


@pytest.mark.parametrize(
    "grid",
    [
        graded_grid(Grid.uniform((64, 64))),
        Grid.rectilinear(torch.linspace(0, 1, 41).square()),
        Grid.scattered(noise(64, 2).sigmoid(), torch.ones(64)),
        Grid.ragged([noise(64, 2, seed=1).sigmoid(), noise(51, 2, seed=2).sigmoid()]),
        Grid.uniform((13,)),
        Grid.uniform((40, 2)),
        Grid.uniform((11, 12, 13)),
    ],
    ids=["graded", "rectilinear", "scattered", "ragged", "short", "two layers", "small in 3-d"],
)
def test_other_grids_keep_their_logarithms(grid):
    weights = grid.weights.squeeze(1) if grid.counts else grid.weights.flatten()
    assert split_weights(grid, log_density(weights)) is None


# The average


@pytest.mark.parametrize(("width", "order"), [(16, "points first"), (64, "heads first")])
@pytest.mark.parametrize("shape", NODES[:2])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 3e-6), (torch.float16, 3e-3)])
def test_values_and_gradients_are_those_of_the_definition(shape, width, order, dtype, tolerance):
    grid = Grid.uniform(shape)
    inputs = heads(math.prod(shape), width, dtype, order=order)
    found = attend_nearly_equal(*inputs, few_of(grid), width**-0.5)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    compare(found, literal_attention(*inputs, grid.weights.flatten(), width**-0.5), inputs, tolerance)


def test_in_three_dimensions_and_across():
    """7 queries attend to the nodes of a cube, whose corners weigh an eighth."""
    grid = Grid.uniform(NODES[2])
    few, n = few_of(grid), math.prod(NODES[2])
    assert float(few.log_missing.exp().max()) == pytest.approx(7 / 8, rel=1e-12)
    inputs = [noise(1, 1, m, 8, seed=m % 5).requires_grad_() for m in (7, n, n)]
    found = attend_nearly_equal(*inputs, few, 0.7)
    compare(found, literal_attention(*inputs, grid.weights.flatten(), 0.7), inputs, 1e-12)


@pytest.mark.parametrize("scale", [0.3, 3.0, 100.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4), (torch.float16, 1e-2)])
def test_rows_that_a_corner_dominates(scale, dtype, tolerance):
    """The sum over all points and that over S nearly cancel, to a quarter: rounding is amplified by 4, not more.

    Scores reach 2e4, which float32 knows to 1e-3; so tolerances are looser than for scores of size one.
    """
    grid = Grid.uniform((33, 37))
    inputs = heads(33 * 37, 16, dtype)
    with torch.no_grad():
        query, key, _ = inputs
        for row, corner in enumerate((0, 36, 32 * 37, 33 * 37 - 1)):
            query[:, :, row + 100] = 4 * key[:, :, corner]  # the largest score by far
    found = attend_nearly_equal(*inputs, few_of(grid), scale)
    exact = literal_attention(*inputs, grid.weights.flatten(), scale)
    compare(found, exact, inputs, tolerance * max(1.0, scale / 10))


# Where it is used


@pytest.fixture
def as_if_on_a_gpu(monkeypatch):
    """What half-precision heads of 64 take on a GPU, for all of 64 on a CPU; the shapes that took it."""
    calls = []

    def counted(*arguments):
        calls.append(arguments[0].shape)
        return attend_nearly_equal(*arguments)

    # `operformer.operators.attention` is a function, too.
    monkeypatch.setattr(sys.modules[attend.__module__], "is_faster", lambda dtype, head, device: head > 56)
    monkeypatch.setattr(backends, "can_mend", lambda query, value: query.shape[-1] > 56)
    monkeypatch.setattr(backends, "attend_nearly_equal", counted)
    return calls


def test_a_cpu_never_takes_it():
    assert not few_weights.is_faster(torch.float16, 64, torch.device("cpu"))
    operator = set_precision(TNO(1, 1, 1, hidden_channels=64, n_layers=1, n_heads=1), torch.float16)
    assert CORRECTED not in backend(operator, Grid.uniform(37))


@pytest.mark.parametrize(("dtype", "tolerance"), [(None, 1e-5), (torch.float16, 1e-3), (torch.bfloat16, 1e-2)])
def test_a_tno_on_nodes_is_the_same_function(dtype, tolerance, as_if_on_a_gpu):
    """Plain attention rounds its average to the inputs' precision, as on a GPU; gradients are rounded, too."""
    torch.manual_seed(0)
    operator = set_precision(TNO(2, 1, 1, hidden_channels=128, n_layers=2, n_heads=2), dtype)
    grid, u = Grid.uniform((37, 41)), noise(2, 1, 37, 41).float()
    out = operator(u, grid)
    assert as_if_on_a_gpu == [(2, 2, 37 * 41, 64)] * 2
    weighted = tno.apply_pointwise(
        operator.network, operator, u, grid, None, Measure(log_density(grid.weights.flatten()))
    )
    difference = float((out - weighted).detach().norm() / weighted.detach().norm())
    assert difference < (4e-3 if dtype == torch.bfloat16 else 1e-4)
    mine, other = (
        torch.cat([g.flatten() for g in torch.autograd.grad(z.square().sum(), list(operator.parameters()))])
        for z in (out, weighted)
    )
    assert float((mine - other).norm() / other.norm()) < tolerance


@pytest.mark.parametrize(
    ("operator", "grid"),
    [
        (TNO(1, 1, 1, hidden_channels=64, n_layers=1, n_heads=4), Grid.uniform(37)),
        (TNO(1, 1, 1, hidden_channels=64, n_layers=1, n_heads=1, sources=8), Grid.uniform(37)),
        (TNO(1, 1, 1, hidden_channels=64, n_layers=1, n_heads=1), graded_grid(Grid.uniform(37))),
        (TNO(1, 1, 1, hidden_channels=64, n_layers=1, n_heads=1), Grid.uniform(37, kind="cells")),
        (TNO(1, 1, 1, hidden_channels=64, n_layers=1, n_heads=1), Grid.ragged([noise(37, 1).sigmoid()])),
    ],
    ids=["small heads", "sources", "graded", "cells", "ragged"],
)
def test_all_others_are_as_before(operator, grid, as_if_on_a_gpu):
    operator(noise(1, 1, 37).float(), grid)
    assert as_if_on_a_gpu == []


def test_heads_that_are_not_taken_get_the_logarithms():
    """A measure that knows where weights differ means the same to an attention that makes no use of it."""
    grid, module, v = Grid.uniform(37), MultiHeadAttention(16, 2), noise(2, 37, 16).float()
    few = few_of(grid)
    assert isinstance(few, NearlyEqual)
    weighted = Measure(few.log_weights)
    torch.testing.assert_close(module(v, Measure(few.log_weights, few)), module(v, weighted), rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_is_compiled_in_one_graph(backend, as_if_on_a_gpu):
    operator = TNO(2, 1, 1, hidden_channels=64, n_layers=1, n_heads=1)
    grid, u = Grid.uniform((37, 41)), noise(2, 1, 37, 41).float()
    torch.compiler.reset()
    compiled = torch.compile(operator, fullgraph=True, backend=backend, dynamic=False)
    parameters = list(operator.parameters())
    plain, graph = operator(u, grid), compiled(u, grid)
    torch.testing.assert_close(graph, plain, rtol=1e-5, atol=1e-6)
    for mine, other in zip(*(torch.autograd.grad(z.sum(), parameters) for z in (graph, plain)), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()) + 1e-7)


@pytest.mark.parametrize("order", ["points first", "heads first"])
def test_the_operators_are_what_compilers_are_told(order):
    grid = Grid.uniform((31, 37))
    few, inputs = few_of(grid), heads(31 * 37, 8, torch.float32, order=order)
    inputs = [t.detach() for t in inputs]
    rest = (few.index, few.log_missing)
    torch.library.opcheck(few_weights.mended_attention, (*inputs, *rest, few.most, 0.5, True))
    average, total = few_weights.mended_attention(*inputs, *rest, few.most, 0.5, True)
    gradient = torch.ones_like(average)
    torch.library.opcheck(few_weights.mended_attention_backward, (gradient, *inputs, *rest, average, total, 0.5))


# On a GPU, where an error of a kernel is told at the next wait: each test waits at its end


@pytest.fixture
def finished():
    yield
    torch.cuda.synchronize()


@on_gpu
@pytest.mark.parametrize(
    ("shape", "width", "order", "dtype"),
    [
        ((37,), 64, "points first", torch.float16),
        ((129,), 64, "heads first", torch.float16),
        ((64, 64), 64, "points first", torch.bfloat16),
        ((64, 64), 128, "heads first", torch.float16),
        ((41, 43), 64, "heads first", torch.float16),
        ((41, 43), 128, "points first", torch.bfloat16),
    ],
)
def test_kernels_of_a_gpu_give_the_definition(shape, width, order, dtype, finished):
    grid = Grid.uniform(shape)
    inputs = heads(math.prod(shape), width, dtype, "cuda", order)
    exact = literal_attention(*inputs, grid.weights.flatten().cuda(), width**-0.5)
    found = attend_nearly_equal(*inputs, few_of(grid), width**-0.5)
    torch.cuda.synchronize()
    compare(found, exact, inputs, 4e-3 if dtype == torch.float16 else 2e-2)


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_attend_on_a_gpu_is_no_less_exact_than_torch(dtype, finished):
    """Beside plain attention, whose inner points weigh as much."""
    grid = Grid.uniform((64, 64)).to("cuda")
    inputs = heads(64 * 64, 64, dtype, "cuda")
    few, exact = few_of(grid), literal_attention(*inputs, grid.weights.flatten(), 0.125)
    assert few_weights.can_mend(inputs[0], inputs[2])
    measure = Measure(few.log_weights, few)
    found, plain = attend(*inputs, measure, 0.125), scaled_dot_product_attention(*inputs, scale=0.125)
    assert found.dtype == torch.float32
    errors = [(t - e).detach().norm() for t, e in ((found, exact), (plain, literal_attention(*inputs, None, 0.125)))]
    assert float(errors[0]) < 1.2 * float(errors[1])
    compare(found, exact, inputs, 4e-3 if dtype == torch.float16 else 2e-2)


@on_gpu
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")  # which fused layers would take
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_it_is_compiled_in_one_graph_on_a_gpu(dtype, finished, monkeypatch):
    torch.manual_seed(0)
    operator = set_precision(TNO(2, 1, 1, hidden_channels=128, n_layers=2, n_heads=2), dtype).cuda()
    grid, u = Grid.uniform((64, 64)).to("cuda"), noise(2, 1, 64, 64).float().cuda()
    torch.compiler.reset()
    calls = []
    monkeypatch.setattr(
        few_weights, "_fused", lambda *given, plain=few_weights._fused: calls.append(1) or plain(*given)
    )
    outputs = [operator(u, grid), torch.compile(operator, fullgraph=True, dynamic=False)(u, grid)]
    assert len(calls) == 4  # two layers, compiled and not
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-2, atol=1e-2)
    plain, graph = (
        torch.cat([g.flatten() for g in torch.autograd.grad(z.square().sum(), list(operator.parameters()))])
        for z in outputs
    )
    assert float((graph - plain).norm() / plain.norm()) < 2e-2


@on_gpu
def test_it_is_recorded_as_a_cuda_graph(finished):
    torch.manual_seed(0)
    operator = set_precision(TNO(2, 1, 1, hidden_channels=128, n_layers=2, n_heads=2), torch.float16).cuda()
    grid, u = Grid.uniform((64, 64)).to("cuda"), noise(2, 1, 64, 64).float().cuda()
    assert CORRECTED in backend(operator, grid)
    with torch.no_grad():
        expected = operator(u, grid)
        graphs = CudaGraphs()
        replay = graphs(lambda: operator(u, grid))
        assert graphs._recorded  # an action that waits for values would not have been
        torch.testing.assert_close(replay(), expected, rtol=1e-3, atol=1e-3)
