"""Attention for heads of 16 or 32 channels, quadrature weights included (Definitions 4 and 8, equation multihead1).

    a_i = sum_j p_ij v_j,   p_ij = w_j exp(scale <q_i, k_j>) / sum_l w_l exp(scale <q_i, k_l>)

in half precision, sums in float32, n x m scores never stored. Libraries pad such heads to 64 channels; here the
exponentials are the cost, one for each score forward, two backward. log w is one addition for each. Backward,

    dv_j = sum_i p_ij da_i,   ds_ij = p_ij (<da_i, v_j> - <da_i, a_i>),   dq_i = scale sum_j ds_ij k_j,
    dk_j = scale sum_i ds_ij q_i

p is about 1 / m, so that float16 would lose digits of p and ds at its lower end. So backward p is sqrt(m) times as
large, by a constant less in the logarithm of the sum, and dq, dk and dv are divided by that again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log2

import torch
import triton
from torch import Tensor

from operformer.kernels.small_heads_tiles import average_kernel, key_kernel, query_kernel, slope_kernel


@dataclass(frozen=True)
class Tiling:
    """How many queries and keys meet at a time, by how many warps, with how many blocks on their way from memory.

    ``registers`` of a thread, if not as many as the compiler wants: fewer let more programs stand side by side.
    """

    queries: int
    keys: int
    warps: int
    stages: int
    registers: int | None = None


# Four warps or eight take Hopper's own products, two those of earlier GPUs, without waiting for each other.
# By channels and pass: "average" forward; "queries" and "keys" backward, one after the other; "joint" backward in one.
TILINGS = {
    (16, "average"): Tiling(64, 128, 4, 3, 128),
    (16, "queries"): Tiling(64, 64, 4, 3),
    (16, "keys"): Tiling(64, 64, 2, 3),
    (16, "joint"): Tiling(32, 128, 2, 2),
    (32, "average"): Tiling(64, 128, 4, 3),
    (32, "queries"): Tiling(64, 64, 4, 3),
    (32, "keys"): Tiling(128, 64, 4, 2),
    (32, "joint"): Tiling(64, 64, 4, 2),
    # Wide heads are for mending.py.
    (64, "average"): Tiling(128, 64, 4, 3),
    (64, "queries"): Tiling(64, 64, 4, 3),
    (64, "keys"): Tiling(64, 64, 4, 2),
    (128, "average"): Tiling(64, 32, 4, 2),
    (128, "queries"): Tiling(64, 32, 4, 2),
    (128, "keys"): Tiling(32, 64, 4, 2),
}
JOINT = True  # dq by atomic additions in the pass that makes dk and dv: half the exponentials, but no fixed order
LOG2_E = log2(e)
ROWS = 128  # of a program that makes slopes
ABSENT = -1e30  # log2 of weight zero: below every score, and no NaN where a block has no other points


def average_points(
    query: Tensor, key: Tensor, value: Tensor, log_weights: Tensor | None, scale: float, wide: bool = False
) -> Tensor:
    """a (batch, heads, n, d) in half precision, or if ``wide`` in float32.

    query (batch, heads, n, d), key and value (batch, heads, m, d), all float16 or all bfloat16, d 16 or 32; log w
    (m,), (batch, m), or whatever broadcasts to (batch, heads, m), -inf for an absent point; ``scale`` is positive.
    There is no gradient for log w.
    """
    return small_heads(query, key, value, log_weights, scale, wide)[0]


@torch.library.custom_op("operformer::small_heads", mutates_args=())
def small_heads(
    query: Tensor, key: Tensor, value: Tensor, log_weights: Tensor | None, scale: float, wide: bool
) -> tuple[Tensor, Tensor]:
    """The averages a, and log2 sum_j w_j exp(scale <q_i, k_j>) (batch, heads, n) in float32."""
    query, key, value = (_with_channels_together(t) for t in (query, key, value))
    (batch, heads, n, width), m = query.shape, key.shape[2]
    out = query.new_empty(query.shape, dtype=torch.float32 if wide else query.dtype)
    logarithm = query.new_empty(query.shape[:3], dtype=torch.float32)
    weights = binary_logarithms(log_weights, batch, heads, logarithm)
    tiling = TILINGS[width, "average"]
    average_kernel[(batch * heads * triton.cdiv(n, tiling.queries),)](
        query, key, value, weights, out, logarithm, out, logarithm, scale * LOG2_E, 0.0, n, m, heads,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *weights.stride()[:2],
        width=width, weighted=log_weights is not None, even=m % tiling.keys == 0, less=False, **launch(tiling),
    )  # fmt: skip
    return out, logarithm


@small_heads.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, log_weights: Tensor | None, scale: float, wide: bool
) -> tuple[Tensor, Tensor]:
    out = query.new_empty(query.shape, dtype=torch.float32 if wide else query.dtype)
    return out, query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op("operformer::small_heads_backward", mutates_args=())
def small_heads_backward(
    d_out: Tensor, query: Tensor, key: Tensor, value: Tensor, log_weights: Tensor | None, out: Tensor,
    logarithm: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of query, key and value, in their precision."""
    d_out, query, key, value = (_with_channels_together(t) for t in (d_out.to(query.dtype), query, key, value))
    (batch, heads, n, width), m = query.shape, key.shape[2]
    lowered, slope, value_factor = slopes(d_out, out, logarithm, m)
    weights = binary_logarithms(log_weights, batch, heads, logarithm)
    inputs = (query, key, value, weights, d_out, lowered, slope)
    strides = (*query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *weights.stride()[:2], *d_out.stride()[:3])
    d_key, d_value = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (key, value))
    joint = JOINT and not torch.are_deterministic_algorithms_enabled()
    if joint:
        d_query = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
    else:
        d_query = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    weighted = log_weights is not None
    tiling = TILINGS[width, "joint" if joint else "keys"]
    key_kernel[(batch * heads * triton.cdiv(m, tiling.keys),)](
        *inputs, d_query, d_key, d_value, scale * LOG2_E, scale * value_factor, value_factor, n, m, heads, *strides,
        width=width, weighted=weighted, even=n % tiling.queries == 0,
        biased=weighted or (joint and m % tiling.keys != 0), joint=joint, parted=False, **launch(tiling),
    )  # fmt: skip
    if joint:
        return (d_query * (scale * value_factor)).to(query.dtype), d_key, d_value
    tiling = TILINGS[width, "queries"]
    query_kernel[(batch * heads * triton.cdiv(n, tiling.queries),)](
        *inputs, d_query, scale * LOG2_E, scale * value_factor, n, m, heads, *strides,
        width=width, weighted=weighted, even=m % tiling.keys == 0, less=False, **launch(tiling),
    )  # fmt: skip
    return d_query, d_key, d_value


@small_heads_backward.register_fake
def _(
    d_out: Tensor, query: Tensor, key: Tensor, value: Tensor, log_weights: Tensor | None, out: Tensor,
    logarithm: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    query, key, value, log_weights, scale, _ = inputs
    ctx.save_for_backward(query, key, value, log_weights, *output)
    ctx.scale = scale
    ctx.mark_non_differentiable(output[1])


def _backward(ctx, d_out, _):  # type: ignore[no-untyped-def]
    query, key, value, log_weights, out, logarithm = ctx.saved_tensors
    gradients = small_heads_backward(d_out, query, key, value, log_weights, out, logarithm, ctx.scale)
    return (*gradients, None, None, None)


small_heads.register_autograd(_backward, setup_context=_setup)


def slopes(d_out: Tensor, out: Tensor, logarithm: Tensor, points: int) -> tuple[Tensor, Tensor, float]:
    """For each query: its logarithm, lowered so that p is about sqrt(points) times as large; d_out . out; 1 / that."""
    (batch, heads, n), shift = logarithm.shape, round(log2(points) / 2)
    lowered, slope = torch.empty_like(logarithm), torch.empty_like(logarithm)
    slope_kernel[(batch * heads * triton.cdiv(n, ROWS),)](
        d_out, out, logarithm, slope, lowered, float(shift), n, heads, *d_out.stride()[:3],
        width=d_out.shape[-1], queries=ROWS,
    )  # fmt: skip
    return lowered, slope, 2.0**-shift


def binary_logarithms(log_weights: Tensor | None, batch: int, heads: int, unused: Tensor) -> Tensor:
    """log2 w (batch, heads, m), without copies for heads or samples that share it."""
    if log_weights is None:
        return unused
    logarithms = (log_weights * LOG2_E).clamp(min=ABSENT).to(unused.device, torch.float32)
    logarithms = _with_channels_together(logarithms)
    if logarithms.ndim == 2:
        logarithms = logarithms.unsqueeze(1)
    return logarithms.expand(batch, heads, -1)


def launch(tiling: Tiling) -> dict[str, int]:
    """What a kernel needs to know of it."""
    form = {"queries": tiling.queries, "keys": tiling.keys, "stages": tiling.stages, "num_warps": tiling.warps}
    return form if tiling.registers is None else form | {"maxnreg": tiling.registers}


def _with_channels_together(t: Tensor) -> Tensor:
    return t if t.stride(-1) == 1 else t.contiguous()
