"""Attention with small heads beside the formula in float64, forward and backward, in float16."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from written_out import literal_attention

from operformer.operators.attention import Measure, attend, log_density
from operformer.operators.backends import SMALL_HEADS, Call, has_small_heads

pytest.importorskip("triton")
from operformer.kernels import small_heads

pytestmark = pytest.mark.kernels

BATCH, HEADS = 2, 2
# Whole tiles and parts of one, as many queries as keys and not; without a GPU tiles are of 32 queries and 16 keys.
SHAPES = {"whole": (64, 32), "odd": (37, 37), "elsewhere": (21, 41), "a few": (5, 3), "one": (33, 1)}


def inputs_of(n, m, width, device="cpu"):
    torch.manual_seed(n + m + width)
    shapes = [(BATCH, HEADS, n, width), (BATCH, HEADS, m, width), (BATCH, HEADS, m, width)]
    return [torch.randn(shape).half().to(device).requires_grad_() for shape in shapes]


def weights_of(kind, m, device="cpu"):
    """None, one rule for all samples, one with absent points among them the first block, or one for each sample."""
    torch.manual_seed(m)
    if kind == "equal":
        return None
    weights = torch.rand(*((BATCH,) if kind == "by sample" else ()), m, dtype=torch.float64) + 0.01
    if kind == "absent":
        weights[: m // 2] = 0
        weights[-1] = 3e-9 if m > 1 else 1
    if kind == "by sample":
        weights[0, (m + 1) // 2 :] = 0
    return weights.to(device)


def compared(inputs, weights, found=None, scale=0.3):
    """The largest errors of the average, over the largest value, and of each gradient, over the largest of all."""
    exact = [t.detach().double().requires_grad_() for t in inputs]
    rule = weights if weights is None or weights.ndim == 1 else weights.unsqueeze(1)
    expected = literal_attention(*exact, rule, scale)
    if found is None:
        logarithms = None if weights is None else log_density(weights)
        found = small_heads.average_points(*inputs, logarithms, scale)
    gradient = torch.randn_like(expected).half().to(expected)
    ours = torch.autograd.grad(found, inputs, gradient.to(found.dtype))
    theirs = torch.autograd.grad(expected, exact, gradient)
    pairs = [(found.detach(), expected.detach()), *zip(ours, theirs, strict=True)]
    largest = max(float(t.abs().max()) for t in theirs)
    sizes = [float(expected.detach().abs().max()), largest, largest, largest]
    return [float((a.double() - b).abs().max()) / size for (a, b), size in zip(pairs, sizes, strict=True)]


@pytest.mark.parametrize("joint", [False, True], ids=["two passes", "joint"])
@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("equal", "whole"), ("equal", "odd"), ("equal", "elsewhere"), ("equal", "a few"), ("equal", "one"),
        ("weighted", "whole"), ("weighted", "a few"), ("absent", "elsewhere"), ("by sample", "odd"),
    ],
)  # fmt: skip
def test_average_and_gradients(device, monkeypatch, kind, shape, joint):
    monkeypatch.setattr(small_heads, "JOINT", joint)
    n, m = SHAPES[shape]
    assert max(compared(inputs_of(n, m, 16, device), weights_of(kind, m, device))) < 2e-3


@pytest.mark.parametrize("joint", [False, True], ids=["two passes", "joint"])
@pytest.mark.parametrize("kind", ["equal", "by sample"])
def test_heads_of_32(device, monkeypatch, kind, joint):
    monkeypatch.setattr(small_heads, "JOINT", joint)
    assert max(compared(inputs_of(37, 21, 32, device), weights_of(kind, 21, device))) < 2e-3


def test_views_of_one_projection_are_read_where_they_stand(device):
    torch.manual_seed(0)
    heads = torch.randn(BATCH, 35, 3, HEADS, 16).half().to(device).requires_grad_()
    query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
    assert not query.is_contiguous()
    found = small_heads.average_points(query, key, value, None, 0.3)
    assert max(compared([query, key, value], None, found=found)) < 2e-3
    apart = [t.detach().contiguous() for t in (query, key, value)]
    torch.testing.assert_close(small_heads.average_points(*apart, None, 0.3), found.detach(), rtol=0, atol=0)


def test_channels_and_gradients_that_do_not_stand_together(device):
    query, key, value = inputs_of(21, 19, 16, device)
    turned = [t.detach().mT.contiguous().mT.requires_grad_() for t in (query, key, value)]
    assert max(compared(turned, None)) < 2e-3
    expected = torch.autograd.grad(small_heads.average_points(query, key, value, None, 1.0).sum(), value)
    found = torch.autograd.grad(small_heads.average_points(*turned, None, 1.0).sum(), turned[2])
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_wide_average_has_more_digits(device):
    inputs, weights = inputs_of(37, 41, 16, device), weights_of("weighted", 41, device)
    logarithms = log_density(weights)
    narrow, wide = (small_heads.average_points(*inputs, logarithms, 0.3, wide) for wide in (False, True))
    assert narrow.dtype == torch.float16
    assert wide.dtype == torch.float32
    torch.testing.assert_close(wide.half(), narrow, rtol=0, atol=0)
    expected = literal_attention(*inputs, weights, 0.3)
    errors = [float((t.double() - expected).detach().norm() / expected.detach().norm()) for t in (narrow, wide)]
    assert errors[1] < min(2e-4, 0.8 * errors[0]) < 1e-3  # the shares are still rounded
    assert max(compared(inputs, weights, found=wide)) < 2e-3


def test_the_logarithm_of_the_sum(device):
    inputs, weights = inputs_of(21, 50, 16, device), weights_of("weighted", 50, device)
    logarithms = log_density(weights)
    _, found = small_heads.small_heads(*inputs, logarithms, 0.3, False)
    scores = 0.3 * inputs[0].double() @ inputs[1].double().mT + logarithms
    torch.testing.assert_close(found, (scores.logsumexp(-1) * small_heads.LOG2_E).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")  # NumPy's, of rows behind the last key
@pytest.mark.parametrize("height", [1e3, -1e3])
def test_high_scores_neither_overflow_nor_vanish(device, height):
    """One coordinate of query and key moves all scores by the same number."""
    query, key, value = (t.detach() for t in inputs_of(21, 37, 16, device))
    query[..., 0], key[..., 0] = 32.0, height / 32
    moved = [t.requires_grad_() for t in (query, key, value)]
    assert max(compared(moved, weights_of("absent", 37, device), scale=1.0)[:1]) < 2e-3
    gradients = torch.autograd.grad(small_heads.average_points(*moved, None, 1.0).sum(), moved)
    assert all(bool(g.isfinite().all()) for g in gradients)


def test_small_gradients_keep_their_digits(device):
    """Shares of 1 / 211 times a gradient of 1e-4: below half precision's smallest normal number, 6e-5."""
    inputs = inputs_of(16, 211, 16, device)
    exact = [t.detach().double().requires_grad_() for t in inputs]
    gradient = (1e-4 * torch.randn(BATCH, HEADS, 16, 16)).half().to(device)
    found = torch.autograd.grad(small_heads.average_points(*inputs, None, 0.3), inputs, gradient)
    expected = torch.autograd.grad(literal_attention(*exact, None, 0.3), exact, gradient.double())
    for ours, theirs in zip(found, expected, strict=True):
        assert float((ours.double() - theirs).abs().max()) < 6e-8 + 0.02 * float(theirs.abs().max())


def test_shapes_that_the_compiler_is_told(device):
    query, key, value = inputs_of(21, 50, 16, device)
    torch.library.opcheck(
        small_heads.small_heads,
        (query, key, value, log_density(weights_of("by sample", 50, device)), 0.3, True),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )


@pytest.mark.parametrize("kind", ["equal", "weighted", "by sample"])
def test_attend_by_this_kernel(device, small_heads_are_taken, kind):
    """What axes stand before the points is the caller's choice; log w broadcasts with them."""
    inputs, weights = inputs_of(21, 37, 16, device), weights_of(kind, 37, device)
    logarithms = None if weights is None else log_density(weights)
    shaped = logarithms.unsqueeze(1) if kind == "by sample" else logarithms
    found = attend(*inputs, Measure(shaped), 0.3)
    assert found.dtype == torch.float32
    assert max(compared(inputs, weights, found=found)) < 2e-3
    query, key, value = (t.detach() for t in inputs)
    if kind != "by sample":
        alone = attend(query[0, 0], key[0, 0], value[0, 0], Measure(logarithms), 0.3)
        torch.testing.assert_close(alone, found[0, 0].detach(), rtol=0, atol=0)
        shared = attend(query.unsqueeze(0), key[:1], value[:1], Measure(logarithms), 0.3)
        assert shared.shape == (1, BATCH, HEADS, 21, 16)
        torch.testing.assert_close(shared[0, 0], found[0].detach(), rtol=0, atol=0)


def test_bfloat16_goes_through_float16(device, small_heads_are_taken):
    """Far from one, so that its range has to be moved; the interpreter itself has no bfloat16."""
    factors = (1e-3, 1e3, 1e6)
    made = zip(inputs_of(21, 37, 16, device), factors, strict=True)
    inputs = [(factor * t.detach().float()).bfloat16().requires_grad_() for t, factor in made]
    weights = weights_of("weighted", 37, device)
    found, expected = attend(*inputs, Measure(log_density(weights)), 0.3), literal_attention(*inputs, weights, 0.3)
    assert found.dtype == torch.float32
    assert float((found - expected).detach().norm() / expected.detach().norm()) < 5e-4
    gradients = [torch.autograd.grad(t, inputs, torch.ones_like(t) / 1e6) for t in (found, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        assert float((ours.double() - theirs.double()).norm() / theirs.double().norm()) < 5e-3  # bfloat16's rounding


@pytest.mark.filterwarnings("ignore")  # what the compiler says of itself
def test_attend_compiles_as_one_graph(device, small_heads_are_taken):
    inputs, weights = inputs_of(21, 37, 16, device), weights_of("weighted", 37, device)
    compiled = torch.compile(attend, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    assert max(compared(inputs, weights, found=compiled(*inputs, Measure(log_density(weights)), 0.3))) < 2e-3


def test_which_heads_are_small(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(major=9))
    head = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float16, shape=(2, 3, 5, 16), numel=lambda: 480)

    def is_small(log_weights=None, scale=0.3, value=None, **changes):
        query = SimpleNamespace(**vars(head) | changes)
        return has_small_heads(Call(query, query, value or query, log_weights, None, scale, True))

    assert is_small()
    assert is_small(log_weights=torch.zeros(5))
    assert is_small(dtype=torch.bfloat16)
    assert is_small(shape=(7, 32))
    assert not is_small(log_weights=torch.zeros(5, requires_grad=True))
    assert not is_small(scale=-0.3)
    assert not is_small(shape=(7, 64))
    assert not is_small(value=head, shape=(7, 32))
    assert not is_small(dtype=torch.float32)
    assert not is_small(device=torch.device("cpu"))
    assert not is_small(numel=lambda: 0)
    assert {(width, "joint") for width in SMALL_HEADS} <= set(small_heads.TILINGS)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(major=7))
    assert not is_small()


def test_on_a_cpu_attend_is_as_it_was(monkeypatch):
    def refuse(*_):
        raise AssertionError("a kernel for a GPU was called")

    monkeypatch.setattr(small_heads, "average_points", refuse)
    inputs, weights = [t.detach() for t in inputs_of(21, 37, 16)], weights_of("weighted", 37)
    found = attend(*inputs, Measure(log_density(weights)), 0.3)
    expected = literal_attention(*inputs, weights, 0.3)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_kernels_compile_for_hopper():
    """What the interpreter cannot see: a compiler's types, registers, shared memory; bfloat16, which it has not."""
    from triton.backends.nvidia import driver

    tools = Path(driver.__file__).parent / "bin"
    if not (tools / "ptxas").exists() or not (tools / "cuobjdump").exists():
        pytest.skip("this Triton comes without the tools for CUDA")
    script = Path(__file__).parents[2] / "benchmarks" / "kernel_resources.py"
    order, environment = [sys.executable, script, "bf16"], os.environ | {"TRITON_INTERPRET": "0"}
    done = subprocess.run(order, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(small_heads.TILINGS) + 1
    for kernel in found:
        assert kernel["spilled"] <= 128, kernel  # bytes of a thread, by versions of Triton; hundreds were slow
        assert kernel["shared"] < 113_000, kernel  # two programs fit on a multiprocessor
        assert kernel["products"] > 0 or kernel["part"] == "slope", kernel
        # Not one by one; but with few registers programs hide each other's waiting, which was measured as faster.
        assert kernel["groups"] <= kernel["products"] / 2 or kernel["registers"] <= 128, kernel
