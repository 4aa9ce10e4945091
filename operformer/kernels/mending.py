"""Attention to all points, known already, less a part of that to a few of them, S (operators/few_weights.py).

    L = L_0 + log(1 - r),   o = o_0 / (1 - r) - o_S r / (1 - r),   r = e^{L_S - L_0}

The kernels are those for small heads, with S as their points and log(1 - w) as its weights. They join the two averages
and the two gradients of the query before they store anything, in float32: what belongs to all points is read once.
Backward they are given o and L; few keys make few programs, so the sums over queries are taken in parts.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from operformer.kernels.small_heads import LOG2_E, TILINGS, binary_logarithms, launch, slopes
from operformer.kernels.small_heads_tiles import average_kernel, key_kernel, query_kernel

PROGRAMS = 512  # that keep a GPU busy
SHORTEST = 8  # blocks of queries in a part


def take_away(
    query: Tensor, key: Tensor, value: Tensor, log_missing: Tensor, every: Tensor, every_sum: Tensor, most: float,
    scale: float, wide: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """o (batch, heads, n, d), in float32 if ``wide``, and L (batch, heads, n), from o_0 and L_0.

    query (batch, heads, n, d), key and value of S (batch, heads, s, d), log(1 - w) of S (s,), whose largest w is
    1 - ``most``; all are contiguous, d is 64 or 128.
    """
    (batch, heads, n, width), m = query.shape, key.shape[2]
    out = query.new_empty(query.shape, dtype=torch.float32 if wide else query.dtype)
    total = torch.empty_like(every_sum)
    weights = binary_logarithms(log_missing, batch, heads, total)
    tiling = TILINGS[width, "average"]
    average_kernel[(batch * heads * triton.cdiv(n, tiling.queries),)](
        query, key, value, weights, out, total, every, every_sum, scale * LOG2_E, most, n, m, heads,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *weights.stride()[:2],
        width=width, weighted=True, even=m % tiling.keys == 0, less=True, **launch(tiling),
    )  # fmt: skip
    return out, total


def take_gradients_away(
    d_out: Tensor, query: Tensor, key: Tensor, value: Tensor, log_missing: Tensor, out: Tensor, total: Tensor,
    d_query: Tensor, points: int, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of key and value of S; that of the query is taken away from ``d_query``, which has those of all.

    ``points`` is how many there are in all: backward, p of about 1 / points is sqrt(points) times as large, as in
    small_heads.py.
    """
    (batch, heads, n, width), m = query.shape, key.shape[2]
    lowered, slope, factor = slopes(d_out, out, total * LOG2_E, points)
    weights = binary_logarithms(log_missing, batch, heads, total)
    inputs = (query, key, value, weights, d_out, lowered, slope)
    strides = (*query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *weights.stride()[:2], *d_out.stride()[:3])
    tiling = TILINGS[width, "queries"]
    query_kernel[(batch * heads * triton.cdiv(n, tiling.queries),)](
        *inputs, d_query, scale * LOG2_E, scale * factor, n, m, heads, *strides,
        width=width, weighted=True, even=m % tiling.keys == 0, less=True, **launch(tiling),
    )  # fmt: skip
    tiling = TILINGS[width, "keys"]
    programs = batch * heads * triton.cdiv(m, tiling.keys)
    parts = _parts(programs, n // tiling.queries)
    d_key, d_value = query.new_empty(2, parts, *key.shape, dtype=torch.float32).unbind(0)
    key_kernel[(programs, parts)](
        *inputs, d_query, d_key, d_value, scale * LOG2_E, scale * factor, factor, n, m, heads, *strides,
        width=width, weighted=True, even=n % tiling.queries == 0, biased=True, joint=False, parted=True,
        **launch(tiling),
    )  # fmt: skip
    return d_key.sum(0).to(key.dtype), d_value.sum(0).to(value.dtype)


def _parts(programs: int, blocks: int) -> int:
    """Into how many parts the sum over all blocks of queries falls."""
    return max(1, min(-(-PROGRAMS // programs), blocks // SHORTEST))
