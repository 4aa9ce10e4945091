"""Attention where few points weigh less than all others, as on a grid of nodes (Definition 4): plain attention, mended.

    sum_j w_j e^{s_ij} v_j = sum_j e^{s_ij} v_j - sum_{j in S} (1 - w_j) e^{s_ij} v_j,   w_j = 1 outside of S

Both sums are plain attention, which a GPU has its fastest kernels for. With their logarithms of sums L_0 and L_S and
their averages o_0 and o_S, r = e^{L_S - L_0} <= 1 - min w:

    L = L_0 + log(1 - r),   o = o_0 / (1 - r) - o_S r / (1 - r)

Gradients are sums over j as well: a kernel that is told o and L in place of its own gives the terms of its points, and
those of S are taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from operformer.domain import Grid

LARGEST_SHARE = 1 / 8  # of points in S; rounding is amplified by 1 / min w, which nodes have at 2, 4 or 8
HEADS = range(57, 249)  # with two channels more, and in multiples of 8, larger heads take slower kernels, then none
SCALES = (2.0**-8, 2.0**8)  # that leave log(1 - w) / scale in the range of float16


@dataclass(frozen=True, eq=False)
class NearlyEqual:
    """log w of m points, its largest 0, and where it is not: the places of S (s,) and log(1 - w) there (s,)."""

    log_weights: Tensor
    index: Tensor
    log_missing: Tensor


def split_weights(grid: Grid, log_weights: Tensor, largest_share: float = LARGEST_SHARE) -> NearlyEqual | None:
    """The boundary of a grid of nodes, whose points weigh less; None for other grids, and where it has many points.

    The shape tells, so no value is looked at: nothing waits for a GPU, and compilers know every size.
    """
    inner = prod([max(n - 2, 0) for n in grid.shape])
    if grid.kind != "nodes" or prod(grid.shape) - inner > largest_share * prod(grid.shape):
        return None
    places = torch.arange(prod(grid.shape), device=log_weights.device).reshape(grid.shape)
    faces = []
    for axis, n in enumerate(grid.shape):
        faces += [places.select(axis, 0).flatten(), places.select(axis, n - 1).flatten()]
        places = places.narrow(axis, 1, n - 2)
    index = torch.cat(faces)
    return NearlyEqual(log_weights, index, torch.log(-torch.expm1(log_weights[index])))


def is_faster(dtype: torch.dtype, head: int, device: torch.device) -> bool:
    """Whether heads of this size and precision gain by it: kernels for halves, of channels that are dear to widen."""
    if dtype not in (torch.float16, torch.bfloat16) or head not in HEADS or device.type != "cuda":
        return False
    return torch.version.hip is None and torch.cuda.get_device_properties(device).major >= 8


def can_mend(query: Tensor, value: Tensor, scale: float) -> bool:
    """Whether `attend_nearly_equal` is the way to take for them."""
    head = max(query.shape[-1], value.shape[-1])
    return is_faster(query.dtype, head, query.device) and SCALES[0] <= scale <= SCALES[1] and query.numel() > 0


def attend_nearly_equal(query: Tensor, key: Tensor, value: Tensor, few: NearlyEqual, scale: float) -> Tensor:
    """Attention weighted by w: (batch, heads, n, d), (batch, heads, m, d) twice -> (batch, heads, n, d).

    Halves give float32. On a CPU, for comparisons, by the kernel for CPUs.
    """
    there = (few.index.to(query.device), few.log_missing.to(query.device))
    return _Mended.apply(query, key, value, *there, scale)


class _Mended(torch.autograd.Function):
    """`mended_attention`, its output alone."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, scale: float
    ) -> Tensor:
        average, total = mended_attention(query, key, value, index, log_missing, scale)
        ctx.save_for_backward(query, key, value, index, log_missing, average, total)
        ctx.scale = scale
        return average

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *mended_attention_backward(gradient, *ctx.saved_tensors, ctx.scale), None, None, None


@torch.library.custom_op("operformer::mended_attention", mutates_args=())
def mended_attention(
    query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """The average o (batch, heads, n, d), laid out like the query, and L (batch, heads, n)."""
    query, key, value = (_adjacent(t) for t in (query, key, value))
    every, total = _fused(query, key, value, scale)
    few, less = _fused(*_widened_group(query, key, value, index, log_missing, scale), scale)
    # Rounding must not bring it to 1, whatever the scores.
    ratio = torch.minimum((less - total).exp(), log_missing.max().exp().to(total))
    share = (ratio / (1 - ratio)).unsqueeze(-1)
    average = torch.mul(every, 1 + share, out=torch.empty_like(query, dtype=total.dtype))
    average.addcmul_(few[..., : query.shape[-1]], share, value=-1)
    return average, total + torch.log1p(-ratio)


@mended_attention.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    return torch.empty_like(query, dtype=wide), query.new_empty(query.shape[:-1], dtype=wide)


@torch.library.custom_op("operformer::mended_attention_backward", mutates_args=())
def mended_attention_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, average: Tensor,
    total: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of query, key and value."""
    given = (query, key, value)
    query, key, value = (_adjacent(t) for t in given)
    # cuDNN knows a plan by the layouts of query, key and value: all others have to follow from these.
    told, out = (torch.empty_like(query).copy_(t) for t in (gradient, average))
    found = _fused_backward(told, query, key, value, out, total, scale)
    group = _widened_group(query, key, value, index, log_missing, scale)
    width, wide = query.shape[-1], group[0].shape[-1]
    less = _fused_backward(_widened(told, wide), *group, _widened(out, wide), total, scale)
    to_query, to_key, to_value = (_laid_out_like(t, like) for t, like in zip(found, given, strict=True))
    to_query -= less[0][..., :width]
    for gradients, missing in ((to_key, less[1]), (to_value, less[2])):
        gradients.index_add_(2, index, missing[..., :width], alpha=-1)
    return to_query, to_key, to_value


@mended_attention_backward.register_fake
def _(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, average: Tensor,
    total: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _widened_group(
    query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """[q, 1, 1], [k, high, low] and [v, 0, 0] of the points S, high + low = log(1 - w) / scale.

    Not scale q, whose rounding would make these scores differ from those of all points.
    """
    width = query.shape[-1]
    wide = -(-(width + 2) // 8) * 8
    bias = log_missing / scale
    high = bias.to(key.dtype)
    longer, biased = _widened(query, wide), _widened(key.index_select(2, index), wide)
    longer[..., width : width + 2] = 1
    biased[..., width], biased[..., width + 1] = high, (bias - high.to(bias.dtype)).to(key.dtype)
    return longer, biased, _widened(value.index_select(2, index), wide)


def _widened(t: Tensor, width: int) -> Tensor:
    """More channels, zero; points before heads in memory, as flash attention wants outputs and gradients."""
    batch, heads, points, channels = t.shape
    wide = t.new_zeros(batch, points, heads, width).transpose(1, 2)
    wide[..., :channels] = t
    return wide


def _adjacent(t: Tensor) -> Tensor:
    return t if t.stride(-1) == 1 else t.contiguous()


def _laid_out_like(t: Tensor, like: Tensor) -> Tensor:
    """What compilers were told of the layout holds, whatever a kernel returns."""
    wanted = torch.empty_like(like)
    return t if t.stride() == wanted.stride() else wanted.copy_(t)


def _fused(query: Tensor, key: Tensor, value: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Plain attention, and the logarithm of the sum of e^s (batch, heads, n)."""
    aten: Any = torch.ops.aten
    if query.device.type == "cpu":
        out, total = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, scale=scale)
    elif _prefers_cudnn(query, key, value):
        kernel = aten._scaled_dot_product_cudnn_attention
        out, total, *_ = kernel(query, key, value, attn_bias=None, compute_log_sumexp=True, scale=scale)
    else:
        out, total, *_ = aten._scaled_dot_product_flash_attention(query, key, value, scale=scale)
    return out, total.reshape(query.shape[:-1]).contiguous()


def _fused_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, total: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the terms with these keys, for an output and a logarithm that may be those of more."""
    aten: Any = torch.ops.aten
    tensors = {"grad_out": gradient, "query": query, "key": key, "value": value, "out": out, "logsumexp": total}
    options: dict[str, Any] = {"dropout_p": 0.0, "is_causal": False, "scale": scale}
    if query.device.type == "cpu":
        kernel = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return kernel(**tensors, **options)
    # Without dropout the state of its random numbers is not read; sequences of several lengths are not meant.
    state = torch.zeros((), dtype=torch.long, device=query.device)
    options |= {"philox_seed": state, "philox_offset": state, "cum_seq_q": None, "cum_seq_k": None}
    options |= {"max_q": query.shape[2], "max_k": key.shape[2]}
    if _prefers_cudnn(query, key, value):
        tensors["logsumexp"] = total.unsqueeze(-1) if _statistics_axes(query.device) == 4 else total
        kernel = aten._scaled_dot_product_cudnn_attention_backward
        return kernel(**tensors, **options, attn_bias=None)
    return aten._scaled_dot_product_flash_attention_backward(**tensors, **options)


def _prefers_cudnn(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether `scaled_dot_product_attention` would take cuDNN's kernel; flash attention is there for all others."""
    return torch._fused_sdp_choice(query, key, value) == SDPBackend.CUDNN_ATTENTION.value


@cache
def _statistics_axes(device: torch.device) -> int:
    """The axes of cuDNN's logarithms of sums: versions of torch differ by a last one of size one."""
    some = torch.zeros(1, 1, 64, 64, dtype=torch.float16, device=device)
    kernel: Any = torch.ops.aten._scaled_dot_product_cudnn_attention
    return kernel(some, some, some, attn_bias=None, compute_log_sumexp=True)[1].ndim
