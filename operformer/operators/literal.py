"""The definitions, written out (Section 2, Appendix B.1): float64, no fused kernels, every sum visible.

These are what the fast forms are compared with, in tests and in benchmarks. They hold n x m scores in memory.
"""

from __future__ import annotations

import torch
from torch import Tensor


def literal_attention(
    query: Tensor, key: Tensor, value: Tensor, weights: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """sum_j w_j exp(scale <q_i, k_j>) v_j / sum_j w_j exp(scale <q_i, k_j>), in float64 (Definitions 1-8)."""
    query, key, value = query.double(), key.double(), value.double()
    scores = scale * torch.einsum("...ic,...jc->...ij", query, key)
    if weights is not None:
        scores = scores.masked_fill(weights.unsqueeze(-2) == 0, -torch.inf)
    # Dividing both sums by the same number keeps exp from overflowing and changes nothing.
    density = torch.exp(scores - scores.amax(-1, keepdim=True))
    if weights is not None:
        density = density * weights.double().unsqueeze(-2)
    return torch.einsum("...ij,...jc->...ic", density, value) / density.sum(-1, keepdim=True)


def literal_trapezoidal_attention(query: Tensor, key: Tensor, value: Tensor, x: Tensor) -> Tensor:
    """The trapezoidal sums of equations (riemann_expect) and (riemann_p) on sorted points x of an interval.

    One Python sum per point, as the paper writes it: query (n, d_k), key (n, d_k), value (n, d_v) -> (n, d_v).
    """
    query, key, value, x = query.double(), key.double(), value.double(), x.double()
    rows = []
    for j in range(len(x)):
        density = torch.exp(key @ query[j])
        normaliser = torch.zeros((), dtype=torch.float64)
        average = torch.zeros(value.shape[-1], dtype=torch.float64)
        for k in range(1, len(x)):
            step = x[k] - x[k - 1]
            normaliser = normaliser + 0.5 * (density[k] + density[k - 1]) * step
            average = average + 0.5 * (value[k] * density[k] + value[k - 1] * density[k - 1]) * step
        rows.append(average / normaliser)
    return torch.stack(rows)
