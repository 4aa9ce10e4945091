"""Attention between patches in half precision (Definition patch_attention).

    p = softmax(scale Q K^T),   a = p V

on heads (3, batch, heads, slots, points, d_k) of which ``patches`` slots are used. Patches are few and functions on
them long, so the shares p are kept. Gradients of Q, K and V are written where they stand, without a copy.
"""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("operformer::patched_average", mutates_args=())
def patched_average(heads: Tensor, weights: Tensor, scale: float, patches: int) -> tuple[Tensor, Tensor]:
    """p (batch heads, slots, slots) and a (batch heads, slots, points d_k).

    ``weights`` (points,) of the points, relative to their mean; none if all are equal.
    """
    query, key, value = _functions(heads)
    scores = torch.baddbmm(query.new_zeros(()), _weighted(query, weights), key.mT, beta=0, alpha=scale).float()
    scores[..., patches:] = -torch.inf
    share = torch.softmax(scores, -1).to(heads.dtype)
    return share, torch.bmm(share, value)


@patched_average.register_fake
def _(heads: Tensor, weights: Tensor, scale: float, patches: int) -> tuple[Tensor, Tensor]:
    _, batch, n_heads, slots, points, width = heads.shape
    share = heads.new_empty(batch * n_heads, slots, slots)
    return share, heads.new_empty(batch * n_heads, slots, points * width)


@torch.library.custom_op("operformer::patched_average_backward", mutates_args=())
def patched_average_backward(da: Tensor, heads: Tensor, share: Tensor, weights: Tensor, scale: float) -> Tensor:
    """The gradient of the heads from that of a, in half precision."""
    query, key, value = _functions(heads)
    da = da.reshape(value.shape)
    gradient = torch.empty_like(heads)
    d_query, d_key, d_value = _functions(gradient)
    torch.bmm(share.mT, da, out=d_value)
    d_share, p = torch.bmm(da, value.mT).float(), share.float()
    d_scores = (p * (d_share - (p * d_share).sum(-1, keepdim=True))).to(heads.dtype)
    nothing = torch.zeros((), dtype=heads.dtype, device=heads.device)
    torch.baddbmm(nothing, d_scores, key, beta=0, alpha=scale, out=d_query)
    torch.baddbmm(nothing, d_scores.mT, _weighted(query, weights), beta=0, alpha=scale, out=d_key)
    if weights.numel():
        d_query.copy_(_weighted(d_query, weights))
    return gradient


@patched_average_backward.register_fake
def _(da: Tensor, heads: Tensor, share: Tensor, weights: Tensor, scale: float) -> Tensor:
    return torch.empty_like(heads)


def _functions(heads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value, each (batch heads, slots, points d_k)."""
    query, key, value = heads.flatten(1, 2).flatten(3).unbind(0)
    return query, key, value


def _weighted(functions: Tensor, weights: Tensor) -> Tensor:
    """The functions times the weights of the points."""
    if not weights.numel():
        return functions
    return (functions.unflatten(-1, (len(weights), -1)) * weights.to(functions).unsqueeze(-1)).flatten(2)
