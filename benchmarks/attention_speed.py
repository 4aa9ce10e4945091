"""Weighted attention beside plain attention, in one run: ours, and other ways to bring the weights in.

    python benchmarks/attention_speed.py [--points 1024 4096 16384] [--heads 16 64] [--dtypes float32 float16 bfloat16]
        [--forms ours channel mask flex] [--batch 2] [--number 8] [--repetitions 10] [--processor] [--out table.json]
    python benchmarks/attention_speed.py --sweep [--points 4096] [--batch 16] [--heads 16] [--dtypes float16]

Times are medians of calls that take turns; "ratio" is over plain `scaled_dot_product_attention` of the same dtype and
shapes. Before anything is timed, every form is compared with the formula in float64 at 289 points: "error" is its
largest difference in the dtype of the row; more than 1e-5 in float32, gradients included, ends the run. The weights are
those of a square of nodes: one for inner points, one for edges, one for corners.

    ours            what the networks call, with an output in float32: few-weights for heads of 64 and 128 in the dtype
                    itself; small-heads where they apply, else log w as a key channel on a GPU, as a mask on a CPU,
                    both by float16 for bfloat16
    channel         [q, 1] and [k, log w] in the dtype itself; channel-cudnn: by that kernel
    narrow-value    the same with the value's channels as they are; narrow-value-cudnn
    through-fp16    bfloat16 as float16, which is exact but for its range: three more bits in the output
    mask            log w as an additive mask that is broadcast; mask-cudnn
    value-channel   softmax(q k) applied to [w v, w], then divided by the last channel; value-channel-cudnn
    few-weights     plain attention to all points, less that to the boundary, for heads of 64 and 128 in half precision
    flex            flex_attention with score + log w, compiled
    small-heads     kernels/small_heads.py, for 16 or 32 channels in half precision; small-heads-atomic: dq by atomic
                    additions; plain-small-heads, plain-small-heads-atomic: without weights

--sweep times the tilings of that kernel instead, pass by pass (small_heads_tilings.py); on a GPU only.
"""

import argparse
import json
import statistics
import time
from functools import cache
from importlib.util import find_spec
from math import isqrt
from pathlib import Path

import torch
from literal_forms import literal_attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import pad, scaled_dot_product_attention

from operformer import Grid
from operformer.operators.attention import attend, log_density
from operformer.operators.backends import SMALL_HEADS, with_bias
from operformer.operators.few_weights import attend_nearly_equal, is_faster, split_weights
from operformer.runs.provenance import provenance


def plain(query, key, value, log_weights, scale):
    return scaled_dot_product_attention(query, key, value, scale=scale)


def ours(query, key, value, log_weights, scale):
    _choose_backward(by_default=True)
    return attend(query, key, value, measure_of(query, log_weights), scale)


def measure_of(query, log_weights):
    """What networks tell their attention of a grid of nodes."""
    takes_few = is_faster(query.dtype, query.shape[-1], query.device)
    return few_of(log_weights) if takes_few else log_weights


def small(is_joint, is_plain=False):
    def form(query, key, value, log_weights, scale):
        small_heads = _choose_backward(is_joint)
        return small_heads.average_points(query, key, value, None if is_plain else log_weights, scale)

    return form


def _choose_backward(is_joint=False, by_default=False):
    """The kernels, told how to make dq from here on; None where there is no Triton."""
    if find_spec("triton") is None:
        return None
    from operformer.kernels import small_heads

    DEFAULTS.setdefault("joint", small_heads.JOINT)
    small_heads.JOINT = DEFAULTS["joint"] if by_default else is_joint
    return small_heads


DEFAULTS = {}


def channel(query, key, value, log_weights, scale):
    longer, biased = with_bias(query * scale, key, log_weights)
    width = -(-longer.shape[-1] // 8) * 8
    padded = (pad(t, (0, width - t.shape[-1])) for t in (longer, biased, value))
    return scaled_dot_product_attention(*padded, scale=1.0)[..., : value.shape[-1]]


def narrow_value(query, key, value, log_weights, scale):
    longer, biased = with_bias(query * scale, key, log_weights)
    longer, biased = (pad(t, (0, -t.shape[-1] % 8)) for t in (longer, biased))
    return scaled_dot_product_attention(longer, biased, value, scale=1.0)


def through_fp16(query, key, value, log_weights, scale):
    return channel(query.half(), key.half(), value.half(), log_weights, scale).float()


def mask(query, key, value, log_weights, scale):
    bias = log_weights.to(query.dtype).expand(*query.shape[:-1], -1)
    return scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scale)


def value_channel(query, key, value, log_weights, scale):
    weights = log_weights.exp().to(value.dtype).unsqueeze(-1).expand(*value.shape[:-1], 1)
    wide = torch.cat([weights * value, weights], -1)
    wide = pad(wide, (0, -wide.shape[-1] % 8))
    sums = scaled_dot_product_attention(query, key, wide, scale=scale)
    return sums[..., : value.shape[-1]] / sums[..., value.shape[-1], None]


_compiled_flex = torch.compile(flex_attention)


def flex(query, key, value, log_weights, scale):
    bias = log_weights.float()
    return _compiled_flex(query, key, value, lambda score, b, h, i, j: score + bias[j], scale=scale)


def few(query, key, value, log_weights, scale):
    return attend_nearly_equal(query, key, value, few_of(log_weights), scale, wide=False)


@cache
def few_of(log_weights):
    """Where weights differ: known with the grid, so not timed."""
    return split_weights(grid_of(len(log_weights)), log_weights, largest_share=1.0)


def by_cudnn(form):
    def forced(*arguments):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return form(*arguments)

    return forced


FORMS = {
    "plain": plain,
    "ours": ours,
    "channel": channel,
    "channel-cudnn": by_cudnn(channel),
    "narrow-value": narrow_value,
    "narrow-value-cudnn": by_cudnn(narrow_value),
    "through-fp16": through_fp16,
    "mask": mask,
    "mask-cudnn": by_cudnn(mask),
    "value-channel": value_channel,
    "value-channel-cudnn": by_cudnn(value_channel),
    "few-weights": few,
    "flex": flex,
    "plain-cudnn": by_cudnn(plain),
    "small-heads": small(False),
    "small-heads-atomic": small(True),
    "plain-small-heads": small(False, is_plain=True),
    "plain-small-heads-atomic": small(True, is_plain=True),
}


def takes(name, dtype, device, head):
    """Whether a form is meant for that dtype and device; cuDNN's kernels are for halves."""
    if "small-heads" in name:
        return device == "cuda" and dtype != torch.float32 and head in SMALL_HEADS
    if name == "through-fp16":
        return dtype == torch.bfloat16
    if name == "few-weights":
        return device == "cpu" or is_faster(dtype, head, torch.device(device))
    return not name.endswith("cudnn") or (device == "cuda" and dtype != torch.float32)


def has_gradients(name, device):
    """Whether a form can be trained with: flex_attention cannot on a CPU."""
    return name != "flex" or device == "cuda"


def grid_of(points):
    """So many nodes of a square, or of an interval."""
    side = isqrt(points)
    return Grid.uniform((side, side) if side**2 == points else points)


def problem(points, head, dtype, arguments):
    """Query, key, value (batch, heads, N, d), and log w of N nodes of a square, or of an interval."""
    generator = torch.Generator().manual_seed(0)
    weights = grid_of(points).weights.flatten()
    shape = (arguments.batch, arguments.number, points, head)
    inputs = [torch.randn(shape, generator=generator).to(arguments.device, dtype) for _ in range(3)]
    log_weights = log_density(weights)
    return [t.requires_grad_() for t in inputs], log_weights.to(arguments.device), weights


def check(name, head, dtype, arguments):
    """The largest difference from the formula, for inputs that are rounded alike; in float32 gradients count, too."""
    inputs, log_weights, weights = problem(289, head, dtype, arguments)
    trained = has_gradients(name, arguments.device)
    inputs = inputs if trained else [t.detach() for t in inputs]
    exact = literal_attention(*inputs, None if "plain" in name else weights.to(inputs[0].device), head**-0.5)
    found = FORMS[name](*inputs, log_weights, head**-0.5)
    error = float((found.double() - exact).detach().abs().max())
    if dtype == torch.float32:
        worst = error
        if trained:
            gradients, expected = (torch.autograd.grad(out.sum(), inputs) for out in (found, exact))
            worst = max(worst, *(float((g - e).abs().max()) for g, e in zip(gradients, expected, strict=True)))
        if worst > 1e-5:
            raise SystemExit(f"{name} is not weighted attention: it differs by {worst:.1e} at heads of {head}")
    return error


def milliseconds_of(action, arguments):
    """One call: CUDA events on a GPU, the clock of the wall or of the processor elsewhere."""
    if arguments.device != "cuda":
        clock = time.process_time if arguments.processor else time.perf_counter
        started = clock()
        action()
        return 1e3 * (clock() - started)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    action()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last)


def actions_of(name, inputs, log_weights, scale):
    """One call forward, and where it has gradients one forward and backward."""
    detached = [t.detach() for t in inputs]

    def forward():
        with torch.no_grad():
            FORMS[name](*detached, log_weights, scale)

    def both():
        out = FORMS[name](*inputs, log_weights, scale)
        torch.autograd.grad(out, inputs, torch.ones_like(out))

    device = inputs[0].device.type
    return {"forward": forward} | ({"forward and backward": both} if has_gradients(name, device) else {})


def measure(points, head, dtype, arguments):
    rows, usable = [], {}
    inputs, log_weights, _ = problem(points, head, dtype, arguments)
    for name in ["plain", *(form for form in arguments.forms if form != "plain")]:
        if not takes(name, dtype, arguments.device, head):
            continue
        try:
            error = check(name, head, dtype, arguments)
            actions = actions_of(name, inputs, log_weights, head**-0.5)
            for action in actions.values():
                action()
            usable[name] = error, actions
        except Exception as failure:  # a kernel that is not there has many ways to say so
            reason = (str(failure).strip() or type(failure).__name__).splitlines()[0]
            print(f"{points:6d} x {head:2d} {str(dtype)[6:]:9s} {name:20s} not possible: {reason[:80]}", flush=True)
    for what in ("forward", "forward and backward"):
        times = {name: [] for name, (_, actions) in usable.items() if what in actions}
        for _ in range(arguments.repetitions):
            for name in times:
                actions = usable[name][1]
                times[name].append(milliseconds_of(actions[what], arguments))
        for name in times:
            error = usable[name][0]
            milliseconds = statistics.median(times[name])
            row = {"points": points, "head": head, "dtype": str(dtype)[6:], "what": what, "form": name}
            row |= {"ms": milliseconds, "ratio": milliseconds / statistics.median(times["plain"]), "error": error}
            rows.append(row)
            place = f"{points:6d} x {head:2d} {row['dtype']:9s} {what:21s} {name:20s}"
            print(f"{place} {milliseconds:10.3f} ms  ratio {row['ratio']:6.3f}  error {error:.1e}", flush=True)
    return rows


def sweep_tilings(arguments):
    if arguments.device != "cuda" or find_spec("triton") is None:
        raise SystemExit("tilings are those of a GPU: --sweep needs one, and Triton")
    from small_heads_tilings import print_errors, sweep

    for dtype in arguments.dtypes or ["float16"]:
        for head in [head for head in arguments.heads if head in SMALL_HEADS]:
            print_errors(*problem(289, head, getattr(torch, dtype), arguments), head**-0.5)
            for points in arguments.points or [4096]:
                print(f"{points} points, {arguments.batch} samples, {arguments.number} heads of {head}, {dtype}")
                inputs, log_weights, _ = problem(points, head, getattr(torch, dtype), arguments)
                sweep(inputs, log_weights, head**-0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--points", type=int, nargs="+", help="1024 4096 16384; on a CPU 256 1024")
    parser.add_argument("--heads", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--dtypes", nargs="+", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--forms", nargs="+", choices=list(FORMS), default=list(FORMS))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--number", type=int, default=8, help="of heads")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--processor", action="store_true", help="its time, on a CPU that does other things as well")
    parser.add_argument("--sweep", action="store_true", help="time the tilings of the kernel for small heads")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    on_gpu = arguments.device == "cuda"
    if arguments.sweep:
        sweep_tilings(arguments)
        return
    points = arguments.points or ([1024, 4096, 16384] if on_gpu else [256, 1024])
    dtypes = arguments.dtypes or (["float32", "float16", "bfloat16"] if on_gpu else ["float32"])
    rows = []
    for dtype in dtypes:
        for head in arguments.heads:
            for count in points:
                rows += measure(count, head, getattr(torch, dtype), arguments)
                if arguments.out:
                    arguments.out.write_text(json.dumps({"made": provenance(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
