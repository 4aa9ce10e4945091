"""Averages of all points less those of a few, beside the definition in float64, forward and backward, in float16."""

import pytest
import torch
import written_out
from written_out import literal_attention

from operformer import Grid
from operformer.operators import few_weights
from operformer.operators.attention import log_density
from operformer.operators.few_weights import attend_nearly_equal, split_weights

pytest.importorskip("triton")
from operformer.kernels import mending

pytestmark = pytest.mark.kernels

BATCH, HEADS = 2, 2
# S has 2, 72 and 152 points; tiles are of 32 queries and 16 keys in the interpreter.
SHAPES = {"two": (37,), "squares": (19, 19), "many": (37, 41)}


def few_of(shape):
    """The weights of the nodes, and what is to know of their boundary."""
    grid = Grid.uniform(shape)
    return grid.weights.flatten(), split_weights(grid, log_density(grid.weights.flatten()), largest_share=0.5)


def inputs_of(n, m, width, device):
    torch.manual_seed(n + m + width)
    shapes = [(BATCH, HEADS, n, width), (BATCH, HEADS, m, width), (BATCH, HEADS, m, width)]
    return [torch.randn(shape).half().to(device).requires_grad_() for shape in shapes]


@pytest.fixture
def by_kernels(device):
    """Without a GPU all points are the CPU's, and S is the interpreter's."""
    yield device
    if device == "cuda":
        torch.cuda.synchronize()


def compared(found, expected, inputs):
    """The largest errors of the average and of each gradient, over the largest value of each kind."""
    gradient = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).half().to(expected)
    ours = torch.autograd.grad(found, inputs, gradient.to(found.dtype))
    theirs = torch.autograd.grad(expected, inputs, gradient)
    sizes = [expected.detach().abs().max(), *[max(t.abs().max() for t in theirs)] * 3]
    pairs = zip((found.detach(), *ours), (expected.detach(), *theirs), sizes, strict=True)
    return [float((a.double() - b.double()).abs().max() / size) for a, b, size in pairs]


@pytest.mark.parametrize(
    ("shape", "queries", "width", "wide"),
    [("two", None, 64, True), ("two", 5, 64, False), ("squares", 67, 64, False), ("many", 33, 64, True),
     ("two", 33, 128, True)],
)  # fmt: skip
def test_average_and_gradients_are_those_of_the_definition(by_kernels, shape, queries, width, wide):
    weights, few = few_of(SHAPES[shape])
    inputs = inputs_of(queries or len(weights), len(weights), width, by_kernels)
    found = attend_nearly_equal(*inputs, few, width**-0.5, wide)
    assert found.dtype == (torch.float32 if wide else torch.float16)
    expected = literal_attention(*inputs, weights.to(by_kernels), width**-0.5)
    assert max(compared(found, expected, inputs)) < 2e-3


def test_an_odd_part_of_the_points(by_kernels):
    """S of 3 and of 17 points, anywhere, of weights that a grid does not have."""
    torch.manual_seed(0)
    for count in (3, 17):
        inputs, index = inputs_of(41, 59, 64, by_kernels), torch.randperm(59)[:count]
        missing = 0.1 + 0.6 * torch.rand(count, dtype=torch.float64)
        weights = torch.ones(59, dtype=torch.float64).index_add(0, index, -missing)
        few = few_weights.NearlyEqual(weights.log(), index, missing.log(), float(missing.max()))
        found = attend_nearly_equal(*inputs, few, 0.2)
        assert max(compared(found, literal_attention(*inputs, weights.to(by_kernels), 0.2), inputs)) < 2e-3


@pytest.mark.parametrize("programs", [1, 40])
def test_the_same_as_plain_operations(by_kernels, monkeypatch, programs):
    """Also where the sum over queries is taken in parts, of which the last has less to add, or nothing."""
    monkeypatch.setattr(mending, "PROGRAMS", programs)
    monkeypatch.setattr(mending, "SHORTEST", 1)
    _, few = few_of(SHAPES["two"])
    query, key, value = (t.detach() for t in inputs_of(203, 37, 64, by_kernels))
    index, log_missing = few.index.to(by_kernels), few.log_missing.to(by_kernels)
    group = (query, key[:, :, index].contiguous(), value[:, :, index].contiguous(), log_missing)
    scores = 0.2 * query.float() @ key.float().mT
    every, every_sum = (scores.softmax(-1) @ value.float()).half(), scores.logsumexp(-1)
    made = [m.take_away(*group, every, every_sum, few.most, 0.2, True) for m in (mending, written_out)]
    torch.testing.assert_close(*made, rtol=0, atol=1e-3)
    out, total = made[1]
    d_out = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).half().to(by_kernels)
    from_query = [torch.ones_like(query), torch.ones_like(query)]
    found, expected = (
        m.take_gradients_away(d_out, *group, out, total, changed, 37, 0.2)
        for m, changed in zip((mending, written_out), from_query, strict=True)
    )
    for ours, plain in zip((*found, from_query[0]), (*expected, from_query[1]), strict=True):
        torch.testing.assert_close(ours, plain, rtol=2e-3, atol=2e-3 * float(plain.abs().max()))


def test_rows_that_a_corner_dominates(by_kernels):
    """The two sums nearly cancel, to a quarter, so that rounding is amplified by 4; with scores of 100 as with 10."""
    weights, few = few_of(SHAPES["squares"])
    query, key, value = (t.detach() for t in inputs_of(7, 361, 64, by_kernels))
    query[:, :, 3] = 2 * key[:, :, 0]
    for scale in (0.1, 1.0):
        found = attend_nearly_equal(query, key, value, few, scale)
        expected = literal_attention(query, key, value, weights.to(by_kernels), scale)
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-2)
