"""kernels/mending.py in plain operations, all scores of S at once: for comparisons, and where there is no GPU."""

from __future__ import annotations

import torch
from torch import Tensor


def take_away(
    query: Tensor, key: Tensor, value: Tensor, log_missing: Tensor, every: Tensor, every_sum: Tensor, most: float,
    scale: float, wide: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """L = L_0 + log(1 - r) and o = o_0 / (1 - r) - o_S r / (1 - r), r = e^{L_S - L_0} <= ``most``."""
    exact = every_sum.dtype
    scores = scale * (query.to(exact) @ key.to(exact).mT) + log_missing.to(exact)
    few = torch.softmax(scores, -1) @ value.to(exact)
    ratio = (scores.logsumexp(-1) - every_sum).exp().clamp(max=most)
    share = (ratio / (1 - ratio)).unsqueeze(-1)
    out = every.to(exact) * (1 + share) - few * share
    return out if wide else out.to(query.dtype), every_sum + torch.log1p(-ratio)


def take_gradients_away(
    d_out: Tensor, query: Tensor, key: Tensor, value: Tensor, log_missing: Tensor, out: Tensor, total: Tensor,
    d_query: Tensor, points: int, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """dk and dv of S, and ds k less in ``d_query``: p = (1 - w) e^{s - L}, ds = scale p (<do, v> - <do, o>)."""
    exact = total.dtype
    q, k, v, g = (t.to(exact) for t in (query, key, value, d_out))
    p = (scale * (q @ k.mT) + log_missing.to(exact) - total.unsqueeze(-1)).exp()
    ds = scale * p * (g @ v.mT - (g * out.to(exact)).sum(-1, keepdim=True))
    d_query.copy_(d_query.to(exact) - ds @ k)
    return (ds.mT @ q).to(key.dtype), (p.mT @ g).to(value.dtype)
