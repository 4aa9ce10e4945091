"""Attention between patches in half precision (Definition patch_attention).

    p = softmax(scale Q K^T),   a = p V

on the functions of `project_heads`. Products are fast if sizes are aligned, so p has more columns than patches, zeros:
keys are read on into what follows them in memory, and values have as many functions. Patches are few and functions on
them long, so p is kept for the gradients.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

WARPS = 4


@triton.jit
def _softmax_kernel(scores, patches, slots, width: tl.constexpr):  # type: ignore[no-untyped-def]
    """A row of scores becomes its softmax over the patches, and zero beyond."""
    column = tl.arange(0, width)
    row = scores + tl.program_id(0).to(tl.int64) * slots + column
    x = tl.load(row, column < patches, float("-inf")).to(tl.float32)
    x = tl.exp(x - tl.max(x, 0))
    tl.store(row, (x / tl.sum(x, 0)).to(tl.float16), column < slots)


@triton.jit
def _softmax_gradient_kernel(share, gradient, patches, slots, width: tl.constexpr):  # type: ignore[no-untyped-def]
    """The gradient of a row of shares becomes that of its scores, and zero beyond the patches."""
    column = tl.arange(0, width)
    start = tl.program_id(0).to(tl.int64) * slots + column
    p = tl.load(share + start, column < patches, 0.0).to(tl.float32)
    d = tl.load(gradient + start, column < patches, 0.0).to(tl.float32)
    tl.store(gradient + start, (p * (d - tl.sum(p * d, 0))).to(tl.float16), column < slots)


@torch.library.custom_op("operformer::patched_average", mutates_args=())
def patched_average(heads: Tensor, weights: Tensor, scale: float, patches: int, slots: int) -> tuple[Tensor, Tensor]:
    """p (batch heads, patches, slots) and a (batch heads, patches, points d_k).

    ``weights`` (points,) of the points, relative to their mean; none if all are equal.
    """
    query, key, value = _functions(heads, patches, slots)
    share = torch.baddbmm(query.new_zeros(()), _weighted(query, weights), key.mT, beta=0, alpha=scale)
    _softmax_kernel[(share.shape[0] * patches,)](
        share, patches, slots, width=triton.next_power_of_2(slots), num_warps=WARPS
    )
    return share, torch.bmm(share, value)


@patched_average.register_fake
def _(heads: Tensor, weights: Tensor, scale: float, patches: int, slots: int) -> tuple[Tensor, Tensor]:
    count, points, width = heads.shape
    functions = count // (2 * patches + slots)
    return heads.new_empty(functions, patches, slots), heads.new_empty(functions, patches, points * width)


@torch.library.custom_op("operformer::patched_average_backward", mutates_args=())
def patched_average_backward(
    da: Tensor, heads: Tensor, share: Tensor, weights: Tensor, scale: float, patches: int
) -> Tensor:
    """The gradient of the heads from that of a, in half precision: (3, batch heads, slots, points d_k).

    Slots beyond the patches hold nothing.
    """
    slots = share.shape[-1]
    query, key, value = _functions(heads, patches, slots)
    da = da.reshape(query.shape)
    gradient = heads.new_empty(3, len(share), slots, query.shape[-1])
    torch.bmm(share.mT, da, out=gradient[2])
    d_scores = torch.bmm(da, value.mT)
    _softmax_gradient_kernel[(share.shape[0] * patches,)](
        share, d_scores, patches, slots, width=triton.next_power_of_2(slots), num_warps=WARPS
    )
    nothing = torch.zeros((), dtype=heads.dtype, device=heads.device)
    d_query = gradient[0, :, :patches]
    torch.baddbmm(nothing, d_scores, key, beta=0, alpha=scale, out=d_query)
    torch.baddbmm(nothing, d_scores.mT, _weighted(query, weights), beta=0, alpha=scale, out=gradient[1])
    if weights.numel():
        d_query.copy_(_weighted(d_query, weights))
    return gradient


@patched_average_backward.register_fake
def _(da: Tensor, heads: Tensor, share: Tensor, weights: Tensor, scale: float, patches: int) -> Tensor:
    return heads.new_empty(3, len(share), share.shape[-1], heads.shape[1] * heads.shape[2])


def _functions(heads: Tensor, patches: int, slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query (batch heads, patches, points d_k), and key and value with as many functions as slots."""
    flat = heads.flatten(1)
    size, count = flat.shape[1], len(flat) // (2 * patches + slots)
    query = flat[: count * patches].view(count, patches, size)
    start = flat.storage_offset() + query.numel()
    key = flat.as_strided((count, slots, size), (patches * size, size, 1), start)
    return query, key, flat[2 * count * patches :].view(count, slots, size)


def _weighted(functions: Tensor, weights: Tensor) -> Tensor:
    """The functions times the weights of the points."""
    if not weights.numel():
        return functions
    return (functions.unflatten(-1, (len(weights), -1)) * weights.to(functions).unsqueeze(-1)).flatten(2)
