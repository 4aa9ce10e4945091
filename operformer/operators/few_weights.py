"""Attention where few points weigh less than all others, as on nodes (Definition 4): plain attention, corrected.

    sum_j w_j e^{s_ij} v_j = sum_j e^{s_ij} v_j - sum_{j in S} (1 - w_j) e^{s_ij} v_j,   w_j = 1 outside of S

The sum over all points is plain attention, which a GPU has its fastest kernels for, that over S is small. With their
logarithms of sums L_0 and L_S and their averages o_0 and o_S, r = e^{L_S - L_0} <= 1 - min w:

    L = L_0 + log(1 - r),   o = o_0 / (1 - r) - o_S r / (1 - r)

Gradients are sums over j as well: a kernel that is given o and L in place of its own gives the terms of its points, and
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
from operformer.kernels import HAS_TRITON

LARGEST_SHARE = 1 / 8  # of points in S; rounding is amplified by 1 / min w, which nodes have at 2, 4 or 8
HEADS = (64, 128)  # channels that S has kernels for; log w among the channels makes slower kernels of them


@dataclass(frozen=True, eq=False)
class NearlyEqual:
    """log w of m points, its largest 0, and where it is not: the places of S (s,) and log(1 - w) there (s,).

    ``most`` is the largest 1 - w.
    """

    log_weights: Tensor
    index: Tensor
    log_missing: Tensor
    most: float


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
    return NearlyEqual(log_weights, index, torch.log(-torch.expm1(log_weights[index])), 1 - 0.5 ** len(grid.shape))


def is_faster(dtype: torch.dtype, head: int, device: torch.device) -> bool:
    """Whether heads of this size and precision gain by it: kernels for halves, of channels that are expensive to widen.

    Not in a graph that is exported, which has to run without this library.
    """
    if dtype not in (torch.float16, torch.bfloat16) or head not in HEADS or device.type != "cuda" or not HAS_TRITON:
        return False
    if torch.version.hip is not None or is_exported():
        return False
    return torch.cuda.get_device_properties(device).major >= 8


def is_exported() -> bool:
    """Whether a graph is made that has to run without this library.

    torch 2.11's compiler calls its own such, too, so what the compiler traces does not count: not torch.export's strict
    mode either, which `operformer.export` has no use for.
    """
    return torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()


def can_mend(query: Tensor, value: Tensor) -> bool:
    """Whether `attend_nearly_equal` is the way to take for them."""
    head = query.shape[-1]
    return head == value.shape[-1] and is_faster(query.dtype, head, query.device) and query.numel() > 0


def attend_nearly_equal(
    query: Tensor, key: Tensor, value: Tensor, few: NearlyEqual, scale: float, wide: bool = True
) -> Tensor:
    """Attention weighted by w: (batch, heads, n, d), (batch, heads, m, d) twice -> (batch, heads, n, d).

    Halves give float32, if ``wide``.
    """
    # Fused kernels get one layout only, which all their plans are made for.
    query, key, value = (t.contiguous() for t in (query, key, value))
    there = (few.index.to(query.device), few.log_missing.to(query.device))
    return _Mended.apply(query, key, value, *there, few.most, scale, wide)


class _Mended(torch.autograd.Function):
    """`mended_attention`, its output alone."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, most: float,
        scale: float, wide: bool,
    ) -> Tensor:  # fmt: skip
        average, total = mended_attention(query, key, value, index, log_missing, most, scale, wide)
        ctx.save_for_backward(query, key, value, index, log_missing, average, total)
        ctx.scale = scale
        return average

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *mended_attention_backward(gradient, *ctx.saved_tensors, ctx.scale), *[None] * 5


@torch.library.custom_op("operformer::mended_attention", mutates_args=())
def mended_attention(
    query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, most: float, scale: float, wide: bool
) -> tuple[Tensor, Tensor]:
    """The average o (batch, heads, n, d), and L (batch, heads, n)."""
    query, key, value = (t.contiguous() for t in (query, key, value))
    every, every_sum = _fused(query, key, value, scale)
    group = (query, key.index_select(2, index), value.index_select(2, index), log_missing)
    return _mending().take_away(*group, every, every_sum, most, scale, wide)


@mended_attention.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, most: float, scale: float, wide: bool
) -> tuple[Tensor, Tensor]:
    sums = torch.float64 if query.dtype == torch.float64 else torch.float32
    out = query.new_empty(query.shape, dtype=sums if wide else query.dtype)
    return out, query.new_empty(query.shape[:-1], dtype=sums)


@torch.library.custom_op("operformer::mended_attention_backward", mutates_args=())
def mended_attention_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, average: Tensor,
    total: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of query, key and value."""
    query, key, value, average, total = (t.contiguous() for t in (query, key, value, average, total))
    told, out = gradient.to(query.dtype).contiguous(), average.to(query.dtype)
    to_query, to_key, to_value = _fused_backward(told, query, key, value, out, total, scale)
    group = (query, key.index_select(2, index), value.index_select(2, index), log_missing)
    less = _mending().take_gradients_away(told, *group, average, total, to_query, key.shape[2], scale)
    for gradients, missing in zip((to_key, to_value), less, strict=True):
        gradients.index_add_(2, index, missing, alpha=-1)
    return to_query, to_key, to_value


@mended_attention_backward.register_fake
def _(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, index: Tensor, log_missing: Tensor, average: Tensor,
    total: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _mending() -> Any:
    """Who takes the sums over S away."""
    from operformer.kernels import mending

    return mending


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
    return out.contiguous(), total.reshape(query.shape[:-1]).contiguous()


def _fused_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, total: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of plain attention, for an output and a logarithm that are those of other weights."""
    aten: Any = torch.ops.aten
    tensors = {"grad_out": gradient, "query": query, "key": key, "value": value, "out": out, "logsumexp": total}
    options: dict[str, Any] = {"dropout_p": 0.0, "is_causal": False, "scale": scale}
    if query.device.type == "cpu":
        kernel = aten._scaled_dot_product_flash_attention_for_cpu_backward
    else:
        # Without dropout the state of its random numbers is not read; sequences of several lengths are not meant.
        state = torch.zeros((), dtype=torch.long, device=query.device)
        options |= {"philox_seed": state, "philox_offset": state, "cum_seq_q": None, "cum_seq_k": None}
        options |= {"max_q": query.shape[2], "max_k": key.shape[2]}
        kernel = aten._scaled_dot_product_flash_attention_backward
        if _prefers_cudnn(query, key, value):
            tensors["logsumexp"] = total.unsqueeze(-1) if _statistics_axes(query.device) == 4 else total
            options["attn_bias"] = None
            kernel = aten._scaled_dot_product_cudnn_attention_backward
    to_query, to_key, to_value = kernel(**tensors, **options)
    return to_query.contiguous(), to_key.contiguous(), to_value.contiguous()


def _prefers_cudnn(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether `scaled_dot_product_attention` would take cuDNN's kernel; flash attention is there for all others."""
    return torch._fused_sdp_choice(query, key, value) == SDPBackend.CUDNN_ATTENTION.value


@cache
def _statistics_axes(device: torch.device) -> int:
    """The axes of cuDNN's logarithms of sums: versions of torch differ by a last one of size one."""
    some = torch.zeros(1, 1, 64, 64, dtype=torch.float16, device=device)
    kernel: Any = torch.ops.aten._scaled_dot_product_cudnn_attention
    return kernel(some, some, some, attn_bias=None, compute_log_sumexp=True)[1].ndim
