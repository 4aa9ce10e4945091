"""Attention against its definitions, written out in plain loops (Definitions 1-8, Appendix B.1)."""

import math

import numpy as np
import pytest
import torch
from draws import noise
from torch.profiler import ProfilerActivity, profile
from written_out import literal_attention, literal_trapezoidal_attention

from operformer import Grid, attention
from operformer.errors import UsageError
from operformer.operators.attention import Measure, MultiHeadAttention, log_density
from operformer.operators.backends import with_bias

FORMS = pytest.mark.parametrize("form", [attention, literal_attention], ids=["fused", "literal"])


def by_definition(query, key, value, weights, scale=1.0):
    """sum_j w_j exp(scale <q_i, k_j>) v_j / sum_j w_j exp(scale <q_i, k_j>), one number at a time."""
    q, k, v, w = (np.asarray(t, dtype=np.float64) for t in (query, key, value, weights))
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        total = 0.0
        for j in range(len(k)):
            mass = w[j] * math.exp(scale * sum(q[i, c] * k[j, c] for c in range(q.shape[1])))
            total += mass
            for c in range(v.shape[1]):
                out[i, c] += mass * v[j, c]
        out[i] /= total
    return torch.from_numpy(out)


def problem(n=11, m=13, d_k=3, d_v=5):
    """Query, key, value and the weights of an irregular grid of m points."""
    x = torch.rand(m, generator=torch.Generator().manual_seed(7), dtype=torch.float64).sort().values
    return noise(n, d_k, seed=1), noise(m, d_k, seed=2), noise(m, d_v, seed=3), Grid.rectilinear(x)


# The definition


@FORMS
@pytest.mark.parametrize(("scale", "expected"), [(1.0, 25 / 7), (2.0, 49 / 13)])
def test_a_value_by_hand(form, scale, expected):
    # exp(0) = 1 and exp(log 2) = 2: (1 * 1 * 1 + 3 * 2 * 4) / (1 * 1 + 3 * 2); with scale 2, exp(2 log 2) = 4.
    key = torch.tensor([[0.0], [math.log(2)]], dtype=torch.float64)
    value, weights = torch.tensor([[1.0], [4.0]], dtype=torch.float64), torch.tensor([1.0, 3.0])
    out = form(torch.ones(1, 1, dtype=torch.float64), key, value, weights, scale)
    assert float(out) == pytest.approx(expected, rel=1e-14)


@FORMS
@pytest.mark.parametrize("n", [13, 7], ids=["self", "cross"])
def test_attention_is_its_definition_on_an_irregular_grid(form, n):
    query, key, value, grid = problem(n=n)
    out = form(query, key, value, grid.weights, 0.7)
    torch.testing.assert_close(out, by_definition(query, key, value, grid.weights, 0.7), rtol=1e-12, atol=1e-12)


@FORMS
def test_every_form_equals_the_trapezoidal_sums_of_the_paper(form):
    query, key, value, grid = problem(n=13)
    expected = literal_trapezoidal_attention(query, key, value, grid.points[:, 0])
    torch.testing.assert_close(form(query, key, value, grid.weights), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("m", [11, 7], ids=["self", "cross"])
def test_multi_head_attention_is_a_loop_over_heads(m):
    channels, heads, n = 15, 3, 11
    torch.manual_seed(0)
    module = MultiHeadAttention(channels, heads).double()
    u, v = noise(2, n, channels, seed=4), noise(2, m, channels, seed=5)
    if m == n:
        v = u
    weights = torch.rand(2, m, generator=torch.Generator().manual_seed(6), dtype=torch.float64) + 0.1
    expected = torch.zeros(2, n, channels, dtype=torch.float64)
    for b in range(2):
        outputs = []
        for h in range(heads):
            rows = slice(h * channels // heads, (h + 1) * channels // heads)
            q, k, val = (
                t @ layer.weight[rows].T + layer.bias[rows]
                for t, layer in ((u[b], module.query), (v[b], module.key), (v[b], module.value))
            )
            outputs.append(by_definition(q.detach(), k.detach(), val.detach(), weights[b], 1 / math.sqrt(5)))
        expected[b] = torch.cat(outputs, -1) @ module.merge.weight.detach().T + module.merge.bias.detach()
    out = module(u, Measure(log_density(weights)), None if m == n else v)
    torch.testing.assert_close(out.detach(), expected, rtol=1e-12, atol=1e-12)
    shared = module(u, Measure(log_density(weights[0])), None if m == n else v)
    torch.testing.assert_close(shared[0].detach(), expected[0], rtol=1e-12, atol=1e-12)


def test_the_log_of_the_weights_starts_at_zero():
    """Small weights cost no digits in single precision: log(w / max w), and practically -infinity for weight zero."""
    found = log_density(1e-30 * torch.tensor([4.0, 1.0, 0.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(found[[0, 1, 3]], torch.tensor([0, -2, -1], dtype=torch.float64) * math.log(2))
    assert float(found[2]) < -1e4


def test_batches_heads_and_their_own_weights():
    query, key, value = noise(2, 3, 5, 4, seed=1), noise(2, 3, 7, 4, seed=2), noise(2, 3, 7, 2, seed=3)
    weights = torch.rand(2, 1, 7, generator=torch.Generator().manual_seed(4), dtype=torch.float64) + 0.01
    out = attention(query, key, value, weights)
    one_axis = attention(query[:, 0], key[:, 0], value[:, 0], weights[:, 0])
    for b in range(2):
        for h in range(3):
            expected = by_definition(query[b, h], key[b, h], value[b, h], weights[b, 0])
            torch.testing.assert_close(out[b, h], expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(one_axis[b], out[b, 0], rtol=1e-12, atol=1e-12)


# Invariants of a measure


@FORMS
def test_a_permutation_of_the_points_permutes_the_output(form):
    u, _, value, grid = problem(n=13)
    order = torch.randperm(13, generator=torch.Generator().manual_seed(0))
    out = form(u, 2 * u, value, grid.weights)
    shuffled = form(u[order], 2 * u[order], value[order], grid.weights[order])
    torch.testing.assert_close(shuffled, out[order], rtol=1e-12, atol=1e-12)


@FORMS
def test_a_point_split_in_two_halves_changes_nothing(form):
    query, key, value, grid = problem()
    split = torch.cat([torch.arange(13), torch.tensor([4])])
    weights = grid.weights[split].clone()
    weights[[4, 13]] /= 2
    out = form(query, key[split], value[split], weights)
    torch.testing.assert_close(out, form(query, key, value, grid.weights), rtol=1e-12, atol=1e-12)


@FORMS
@pytest.mark.parametrize("score", [1.0, 1e3, 1e8])
def test_weight_zero_is_absence_even_of_large_scores(form, score):
    query, key, value, grid = problem()
    key, value, weights = key.clone(), value.clone(), grid.weights.clone()
    weights[[2, 9]] = 0
    key[2], key[9], value[9] = score * key[2], score, 1e10
    left = [j for j in range(13) if j not in (2, 9)]
    expected = by_definition(query, key[left], value[left], weights[left])
    torch.testing.assert_close(form(query, key, value, weights), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_weight_zero_has_the_gradients_of_absence(dtype):
    query, key, value, grid = problem()
    key[2] *= 1e3
    weights, left = grid.weights.clone(), [j for j in range(13) if j != 2]
    weights[2] = 0
    inputs = [t.to(dtype).requires_grad_() for t in (query, key, value)]
    full = torch.autograd.grad(attention(*inputs, weights).square().sum(), inputs)
    without = attention(inputs[0], inputs[1][left], inputs[2][left], weights[left])
    expected = torch.autograd.grad(without.square().sum(), inputs)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    for gradient, wanted in zip(full, expected, strict=True):
        assert bool(torch.isfinite(gradient).all())
        torch.testing.assert_close(gradient, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.float16, 2e-3)])
def test_the_logarithm_among_the_channels_is_the_weight(dtype, tolerance):
    """What GPUs are given: plain attention of [q, 1] and [k, log w]; in float16 log w has two channels."""
    query, key, value, grid = problem(n=13)
    weights = grid.weights.clone()
    weights[4] = 0
    query, key = query.to(dtype), key.to(dtype)
    longer, biased = with_bias(query, key, log_density(1e-3 * weights))
    assert longer.dtype == biased.dtype == dtype
    scores = longer.double() @ biased.double().T
    expected = query.double() @ key.double().T + torch.where(weights > 0, weights, 1.0).log()
    present = weights > 0
    shift = scores[:, present] - expected[:, present]  # one constant, which the softmax does not see
    torch.testing.assert_close(shift, shift[0, 0].expand_as(shift), rtol=0, atol=min(tolerance, 1e-5))
    assert float(scores[:, ~present].max()) < -3e4
    found = torch.softmax(scores, -1) @ value
    torch.testing.assert_close(
        found, by_definition(query, key, value, weights), rtol=tolerance, atol=tolerance
    )  # float16: its inputs are rounded alike


def test_weights_have_gradients():
    """d/dw_j of sum_i w_i e_i v_i / sum_i w_i e_i = e_j (v_j - average) / sum_i w_i e_i."""
    query, key, value, grid = problem(n=1)
    weights = grid.weights.clone().requires_grad_()
    attention(query, key, value, weights).sum().backward()
    mass = torch.exp(key @ query[0])
    average = (grid.weights * mass) @ value / (grid.weights * mass).sum()
    expected = mass * (value - average).sum(-1) / (grid.weights * mass).sum()
    torch.testing.assert_close(weights.grad, expected, rtol=1e-10, atol=1e-10)


@FORMS
def test_equal_weights_are_the_attention_of_vaswani(form):
    query, key, value, _ = problem()
    expected = torch.softmax(0.5 * query @ key.T, -1) @ value
    torch.testing.assert_close(form(query, key, value, None, 0.5), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(form(query, key, value, torch.full((13,), 0.3), 0.5), expected, rtol=1e-12, atol=1e-12)


@FORMS
@pytest.mark.parametrize("factor", [1e-30, 7.0, 1e30])
def test_weights_count_only_relative_to_each_other(form, factor):
    query, key, value, grid = problem()
    out = form(query, key, value, factor * grid.weights)
    torch.testing.assert_close(out, form(query, key, value, grid.weights), rtol=1e-12, atol=1e-12)


def test_gradients_by_finite_differences():
    query, key, value = noise(2, 3, 2, seed=1), noise(2, 5, 2, seed=2), noise(2, 5, 3, seed=3)
    weights = torch.rand(5, generator=torch.Generator().manual_seed(4), dtype=torch.float64) + 0.1
    inputs = [t.requires_grad_() for t in (query, key, value, weights)]
    assert torch.autograd.gradcheck(lambda q, k, v, w: attention(q, k, v, w, 0.7), inputs)


# Memory


def peak_memory(form, n):
    """Bytes held at most at one time, forward and backward, besides the inputs."""
    inputs = [noise(n, 8, seed=s).float().requires_grad_() for s in range(3)]
    weights = torch.rand(n, generator=torch.Generator().manual_seed(4), dtype=torch.float64) + 0.1
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        form(*inputs, weights).sum().backward()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = np.cumsum([event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())])
    return int(held.max())


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")  # of torch 2.11
def test_memory_grows_linearly_with_the_number_of_points():
    assert 3.5 < peak_memory(literal_attention, 1024) / peak_memory(literal_attention, 512) < 4.5  # the yardstick works
    small, large = peak_memory(attention, 4096), peak_memory(attention, 8192)
    print(f"peak memory: {small / 2**20:.2f} MiB at 4096 points, {large / 2**20:.2f} MiB at 8192")
    # Less than 2 where the kernel's scratch space, which does not grow, is a part of it.
    assert 1 < large / small < 2.2


# Errors

ONES = torch.ones(5, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ONES, ONES, ONES, torch.tensor([1.0, 1, -2, 1, 1])), "must not be negative: got -2"),
        ((ONES, ONES, ONES, torch.zeros(5)), "must not all be zero"),
        ((ONES[None], ONES[None], ONES[None], torch.zeros(1, 5)), "must not all be zero"),
        ((ONES, ONES, ONES, torch.tensor([1.0, 1, math.nan, 1, 1])), "must be finite"),
        ((ONES, ONES, ONES, torch.tensor([1.0, 1, math.inf, 1, 1])), "must be finite"),
        ((ONES, ONES, ONES, torch.ones(4)), r"weights must be \(..., 5\), one for each key: got \(4,\)"),
        ((ONES, torch.ones(5, 2), ONES), "query and key must have as many channels"),
        ((ONES, ONES, torch.ones(4, 3)), "key and value must live on the same points"),
        ((torch.ones(3), ONES, ONES), r"needs \(..., points, channels\)"),
        ((ONES.expand(2, 5, 3), ONES.expand(4, 5, 3), ONES), "query"),
        ((ONES, ONES.expand(2, 5, 3), ONES, torch.ones(4, 5)), "weights"),
        ((ONES, ONES.double(), ONES), "must share a dtype: got torch.float32, torch.float64"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(arguments, message):
    with pytest.raises(UsageError, match=message) as caught:
        attention(*arguments)
    assert "\n" not in str(caught.value)
