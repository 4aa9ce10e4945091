"""Tilings of the kernels for small heads, timed one pass after the other: `attention_speed.py --sweep`.

Each is timed with the others as they are in `TILINGS`; those of the backward pass with all that belongs to it. A tiling
that does not compile, does not fit, or gives other numbers than the table's is told so and left out.
"""

import statistics
import time

import torch
from literal_forms import literal_attention
from torch.nn.functional import scaled_dot_product_attention

from operformer.kernels import small_heads
from operformer.kernels.small_heads import TILINGS, Tiling

# Queries, keys, warps, stages, registers.
CANDIDATES = {
    "average": [
        (128, 64, 4, 3), (128, 64, 4, 2), (64, 128, 4, 3), (64, 128, 4, 3, 128), (64, 64, 4, 3), (128, 128, 4, 3),
        (128, 128, 8, 3, 128), (64, 256, 4, 2), (64, 64, 2, 3), (64, 64, 2, 2), (32, 128, 2, 2), (32, 64, 1, 2),
    ],
    "queries": [
        (64, 128, 4, 3), (64, 64, 4, 3), (64, 64, 4, 2), (128, 64, 4, 3), (64, 64, 2, 3), (64, 64, 2, 2),
        (64, 128, 2, 3), (64, 128, 2, 2), (32, 128, 2, 3), (32, 64, 1, 2),
    ],
    "keys": [
        (64, 128, 4, 3), (64, 128, 4, 2), (64, 64, 4, 3), (64, 64, 4, 2), (128, 64, 4, 2), (64, 64, 2, 3),
        (64, 64, 2, 2), (64, 64, 2, 2, 128), (128, 32, 2, 2), (32, 64, 2, 2), (64, 32, 1, 2),
    ],
    "joint": [
        (64, 128, 4, 2), (64, 128, 4, 3), (64, 64, 4, 2), (64, 64, 4, 3), (128, 64, 4, 2), (64, 256, 8, 2),
        (128, 128, 8, 2), (64, 64, 2, 2), (32, 64, 2, 2), (32, 128, 2, 2),
    ],
}  # fmt: skip
CALLS, LONGEST = 10, 1.5  # calls of each, or as many as fit into so many seconds


def print_errors(inputs, log_weights, weights, scale):
    """Of the average and of the gradients of query, key and value, relative, beside the formula in float64."""
    exact = [t.detach().double().requires_grad_() for t in inputs]
    expected = literal_attention(*exact, weights.to(exact[0].device), scale)
    gradient = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(inputs[0])
    theirs = torch.autograd.grad(expected, exact, gradient.double())
    kept = small_heads.JOINT
    for small_heads.JOINT in (False, True):
        try:
            found = small_heads.average_points(*inputs, log_weights, scale)
            ours = torch.autograd.grad(found, inputs, gradient)
            pairs = [(found.detach(), expected.detach()), *zip(ours, theirs, strict=True)]
            errors = " ".join(f"{float((a.double() - b).norm() / b.norm()):.1e}" for a, b in pairs)
        except Exception as failure:
            errors = _reason(failure)
        print(f"errors, {'dq by atomic additions' if small_heads.JOINT else 'two passes'}: {errors}", flush=True)
    small_heads.JOINT = kept


def sweep(inputs, log_weights, scale):
    """Print the table of every pass, best first; times are milliseconds of a call and of one sample of it."""
    per_sample, width = inputs[0].shape[0], inputs[0].shape[-1]
    for name, action in _by_torch(inputs, scale).items():
        try:
            found = _milliseconds(action)
            print(f"torch {name:9s} {found:9.3f} ms  {found / per_sample:8.4f} a sample, no weights", flush=True)
        except Exception as failure:
            print(f"torch {name}: {_reason(failure)}", flush=True)
    for part, candidates in CANDIDATES.items():
        best = _print_table(part, [Tiling(*numbers) for numbers in candidates], inputs, None, scale)
        _print_table(part, dict.fromkeys([*best[:3], TILINGS[width, part]]), inputs, log_weights, scale)


def _print_table(part, tilings, inputs, log_weights, scale):
    """The times of a pass, which are also returned, best first."""
    per_sample, width = inputs[0].shape[0], inputs[0].shape[-1]
    rows = {}
    for tiling in tilings:
        try:
            rows[tiling] = _time_of(part, tiling, inputs, log_weights, scale)
        except Exception as failure:
            print(f"{part:8s} {_shown(tiling)} {_reason(failure)}", flush=True)
    order = sorted(rows, key=rows.get)
    for tiling in order:
        share = f"{rows[tiling]:9.3f} ms  {rows[tiling] / per_sample:8.4f} a sample"
        mark = "  <- the table's" if tiling == TILINGS[width, part] else ""
        kind = "no weights" if log_weights is None else "weights"
        print(f"{part:8s} {_shown(tiling)} {share}, {kind}{mark}", flush=True)
    return order


def _time_of(part, tiling, inputs, log_weights, scale):
    """One pass with a tiling: forward for "average", all of the backward pass for the others."""
    width = inputs[0].shape[-1]
    kept, joint = TILINGS[width, part], small_heads.JOINT
    detached = [t.detach() for t in inputs]
    out, logarithm = small_heads.small_heads(*detached, log_weights, scale, False)
    d_out = torch.ones_like(out).cumsum(-1) / width

    def forward():
        return small_heads.small_heads(*detached, log_weights, scale, False)[:1]

    def backward():
        return small_heads.small_heads_backward(d_out, *detached, log_weights, out, logarithm, scale)

    action = forward if part == "average" else backward
    try:
        small_heads.JOINT = part == "joint"
        expected = action()
        TILINGS[width, part] = tiling
        for found, known in zip(action(), expected, strict=True):
            error = float((found.float() - known.float()).norm() / known.float().norm())
            if not error < 1e-2:
                raise ArithmeticError(f"other numbers, by {error:.1e}")
        return _milliseconds(action)
    finally:
        TILINGS[width, part], small_heads.JOINT = kept, joint


def _by_torch(inputs, scale):
    out = scaled_dot_product_attention(*inputs, scale=scale)
    gradient = torch.ones_like(out)
    detached = [t.detach() for t in inputs]
    return {
        "forward": lambda: scaled_dot_product_attention(*detached, scale=scale),
        "backward": lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True),
    }


def _milliseconds(action):
    action()
    torch.cuda.synchronize()
    times, started = [], time.perf_counter()
    while len(times) < CALLS and (not times or time.perf_counter() - started < LONGEST):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        action()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last))
    return statistics.median(times)


def _shown(tiling):
    limit = "" if tiling.registers is None else f" <= {tiling.registers} registers"
    return f"{tiling.queries:4d} x {tiling.keys:3d}, {tiling.warps} warps, {tiling.stages} stages{limit:17s}"


def _reason(failure):
    return f"not possible: {(str(failure).strip() or type(failure).__name__).splitlines()[0][:100]}"
