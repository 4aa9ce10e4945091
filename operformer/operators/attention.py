"""Continuum attention (Section 2, Definitions 1-8) and its multi-head form (equation multihead1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from operformer.domain.grid import check_weights
from operformer.errors import UsageError
from operformer.kernels import HAS_TRITON
from operformer.operators.few_weights import NearlyEqual, attend_nearly_equal, can_mend, is_exported

_HALF = (torch.float16, torch.bfloat16)
SMALL_HEADS = (16, 32)  # channels of heads that have a kernel of their own
TENSOR_CORES = 8  # the first compute capability whose tensor cores Triton's kernels are written for


def attention(query: Tensor, key: Tensor, value: Tensor, weights: Tensor | None = None, scale: float = 1.0) -> Tensor:
    """E_{y ~ q(.; u, v, x)}[V v(y)], q(y) ~ w(y) exp(scale <Q u(x), K v(y)>) (Definitions 4 and 8).

    Adding log w before the softmax turns its sums into the quadrature rule w; equal weights give Definitions 2 and 6.
    Shapes: (..., n, d_k), (..., m, d_k), (..., m, d_v), weights (..., m) or (m,) -> (..., n, d_v). A point of weight
    zero is absent. Memory grows linearly with n and m. Half-precision inputs give a float32 output: averages tolerate
    rounding, what is kept point by point does not. On a GPU bfloat16 has float16's accuracy; a network's heads of 64 or
    128 on a grid of nodes have that of torch's own kernel for bfloat16.
    """
    _check_shapes(query, key, value, weights)
    if weights is None:
        return attend(query, key, value, None, scale)
    if not torch.compiler.is_compiling():
        check_weights(weights)
    return attend(query, key, value, log_density(weights), scale)


def log_density(weights: Tensor) -> Tensor:
    """log w, up to a constant that the softmax does not see: its largest value is 0, so equal weights are exact."""
    weights = weights.double()
    present = weights > 0
    logarithm = torch.where(present, torch.where(present, weights, 1.0).log(), -torch.inf)
    return logarithm - logarithm.amax(-1, keepdim=True)


def attend(query: Tensor, key: Tensor, value: Tensor, log_weights: Tensor | NearlyEqual | None, scale: float) -> Tensor:
    """`attention` for weights that were checked and turned into `log_density` before: no look at values.

    Kernels of the CPU add log w to the scores as they are; fused ones of a GPU want it among the channels
    (`with_bias`), or plain attention mended where few weights differ. All want four axes and one head size for query,
    key and value, on a GPU a multiple of 8; hence the padding with zeros. Small heads in half precision have a kernel
    of their own there, which adds log w as it is.
    """
    few = log_weights if isinstance(log_weights, NearlyEqual) and can_mend(query, value) else None
    if isinstance(log_weights, NearlyEqual):
        log_weights = log_weights.log_weights if few is None else None
    by_small_heads = few is None and has_small_heads(query, value, log_weights, scale)
    on_cpu = query.device.type == "cpu"
    unit: Tensor | None = None
    if query.dtype in _HALF and on_cpu and not by_small_heads:
        # The inputs stay rounded, the average is float32: CPUs gain nothing from half precision.
        query, key, value = query.float(), key.float(), value.float()
    elif query.dtype == torch.bfloat16 and few is None:
        # A kernel that rounds its shares, or its output, to bfloat16 is off by 0.6 %.
        query, key, value, unit = in_float16(query, key, value, scale)
        scale = 1.0
    if by_small_heads:
        average = _attend_by_small_heads(query, key, value, log_weights, scale)
        return average if unit is None else average * unit
    bias = None
    if log_weights is not None and on_cpu and not log_weights.requires_grad:
        bias = _finite(log_weights, query.dtype).unsqueeze(-2)
    elif log_weights is not None:
        query, key, scale = *with_bias(query * scale, key, log_weights), 1.0
    batches = [t.shape[:-2] for t in (query, key, value)]
    leading = torch.broadcast_shapes(*batches, () if bias is None else bias.shape[:-2])
    channels = value.shape[-1]
    width = max(query.shape[-1], channels)
    width = width if on_cpu else -(-width // 8) * 8
    query, key, value = (_four_axes(t, leading, width) for t in (query, key, value))
    if few is not None:
        average = attend_nearly_equal(query, key, value, few, scale)  # whose heads need no padding
    else:
        mask = None if bias is None else _four_axes(bias, leading, bias.shape[-1])
        average = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)[..., :channels]
    if average.dtype == torch.float16:
        average = average.float()
    average = average.reshape(*leading, *average.shape[-2:])
    return average if unit is None else average * unit


def has_small_heads(query: Tensor, value: Tensor, log_weights: Tensor | None, scale: float) -> bool:
    """Whether kernels/small_heads.py is used: half precision on a GPU, heads of 16 or 32 channels, constant weights.

    Not in a graph that is exported, which has to run without this library.
    """
    return (
        query.device.type == "cuda"
        and query.dtype in _HALF
        and query.shape[-1] == value.shape[-1]
        and query.shape[-1] in SMALL_HEADS
        and HAS_TRITON
        and scale > 0
        and (log_weights is None or not log_weights.requires_grad)
        and query.numel() > 0
        and torch.cuda.get_device_properties(query.device).major >= TENSOR_CORES
        and not is_exported()
    )


def _attend_by_small_heads(
    query: Tensor, key: Tensor, value: Tensor, log_weights: Tensor | None, scale: float
) -> Tensor:
    from operformer.kernels.small_heads import average_points

    batches = [t.shape[:-2] for t in (query, key, value)]
    leading = torch.broadcast_shapes(*batches, () if log_weights is None else log_weights.shape[:-1])
    channels = value.shape[-1]
    query, key, value = (_four_axes(t, leading, channels) for t in (query, key, value))
    if log_weights is not None and log_weights.ndim > 1:
        log_weights = _four_axes(log_weights.unsqueeze(-2), leading, log_weights.shape[-1]).squeeze(-2)
    average = average_points(query, key, value, log_weights, scale, wide=True)
    return average.reshape(*leading, *average.shape[-2:])


@dataclass(frozen=True, eq=False)
class Sources:
    """The points that are attended to, in place of all: which they are (m,), and log w of their own quadrature (m,)."""

    index: Tensor
    log_weights: Tensor


class MultiHeadAttention(nn.Module):
    """W_MultiHead (A(v; Q_1, K_1, V_1), ..., A(v; Q_H, K_H, V_H)) with d_K = d_model / H (equation multihead1).

    ``average_dtype`` is the precision of query, key and value inside the average (see `set_precision`).
    """

    def __init__(self, channels: int, n_heads: int) -> None:
        super().__init__()
        check_heads(channels, n_heads)
        self.n_heads = n_heads
        # Paper: <Qu, Kv>. Divided by sqrt(d_K), as in the authors' code: the same functions, from a better start.
        self.scale = (channels // n_heads) ** -0.5
        self.average_dtype: torch.dtype | None = None
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.merge = nn.Linear(channels, channels)

    def forward(
        self, v: Tensor, measure: Tensor | NearlyEqual | Sources | None, source: Tensor | None = None
    ) -> Tensor:
        """Self-attention of v (batch, n, c), or its cross-attention to ``source`` (batch, m, c).

        ``measure`` is log w of what is attended to, (m,) or (batch, m), or says which of its points stand for all.
        """
        source = v if source is None else source
        log_weights = measure.log_weights if isinstance(measure, Sources) else measure
        if isinstance(measure, Sources):
            source = source.index_select(1, measure.index.to(v.device))
        query, key, value = (self._split(t) for t in (self.query(v), self.key(source), self.value(source)))
        if isinstance(log_weights, Tensor) and log_weights.ndim == 2:
            log_weights = log_weights.unsqueeze(1)
        average = attend(query, key, value, log_weights, self.scale)
        return self.merge(average.to(v.dtype).transpose(-3, -2).flatten(-2))

    def _split(self, t: Tensor) -> Tensor:
        return t.to(self.average_dtype or t.dtype).unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)


class SelfAttention(nn.Module):
    """A(v; Q, K, V)(x) = E_{y ~ p(y; v, x)}[V v(y)] (Definition 4): one head, no merge, no bias, as in Section 5."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.average_dtype: torch.dtype | None = None
        self.query = nn.Linear(channels, channels, bias=False)
        self.key = nn.Linear(channels, channels, bias=False)
        self.value = nn.Linear(channels, channels, bias=False)

    def forward(self, v: Tensor, log_weights: Tensor | NearlyEqual | None, source: Tensor | None = None) -> Tensor:
        """Self-attention of v (batch, n, c), or its cross-attention to ``source`` (batch, m, c)."""
        source = v if source is None else source
        projected = (self.query(v), self.key(source), self.value(source))
        query, key, value = (t.to(self.average_dtype or t.dtype) for t in projected)
        return attend(query, key, value, log_weights, 1.0).to(v.dtype)


def check_heads(channels: int, n_heads: int) -> None:
    """Refuse a number of heads that does not divide the channels, and name those that do."""
    if not isinstance(n_heads, int):
        raise UsageError(f"n_heads must be a whole number: got {n_heads!r}")
    if n_heads >= 1 and channels >= 1 and channels % n_heads == 0:
        return
    divisors = [h for h in range(1, max(channels, 1) + 1) if channels % h == 0]
    near = sorted(sorted(divisors, key=lambda h: abs(h - n_heads))[:2])
    remedy = f"try {' or '.join(map(str, near))}" if near else "give more channels"
    raise UsageError(f"n_heads must divide hidden_channels: got {n_heads} and {channels}; {remedy}")


def with_bias(query: Tensor, key: Tensor, log_weights: Tensor) -> tuple[Tensor, Tensor]:
    """log w is a rank-one bias: q' = [q, 1] and k' = [k, log w] make weighted attention plain.

    In half precision it takes two channels, whose sum has twice the digits.
    """
    bias = log_weights.unsqueeze(-1).to(key.device)
    parts = [_finite(bias, key.dtype)]
    if key.dtype in _HALF:
        parts.append(_finite(bias - parts[0].to(bias.dtype), key.dtype))
    query = torch.cat([query, query.new_ones(1).expand(*query.shape[:-1], len(parts))], -1)
    shared = torch.broadcast_shapes(key.shape[:-1], bias.shape[:-1])
    return query, torch.cat([t.expand(*shared, -1) for t in (key, *parts)], -1)


def in_float16(query: Tensor, key: Tensor, value: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """bfloat16 as float16, its range moved to where the values are: scale c q, k / c, v / unit, and the unit.

    c and the unit are powers of two, so key and value are off by at most 2^-24 of their largest number, and the query
    by float16's rounding of its product with the scale. Scores whose query does not fit all the same are beyond any
    difference that a softmax can see.
    """
    with torch.no_grad():
        largest = torch.stack([torch.linalg.vector_norm(t, torch.inf) for t in (key, value)])
        c, unit = _power_of_two(largest.float()).split(1)
    return _moved(query, scale * c), _moved(key, 1 / c), _moved(value, 1 / unit), unit


def _moved(t: Tensor, factor: Tensor) -> Tensor:
    """t times a factor (1,), in float16 and inside its range; what is clamped keeps its gradient.

    Compilers get plain operations, which they join by themselves: torch 2.11's drops the gradients of the function.
    """
    if not torch.compiler.is_compiling():
        return _Moved.apply(t, factor)
    product, largest = t * factor, torch.finfo(torch.float16).max
    beyond = (product - product.clamp(-largest, largest)).detach()
    return (product - beyond).to(torch.float16)


class _Moved(torch.autograd.Function):
    """`_moved`; there and back one reading of t."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        ctx.dtype = t.dtype
        largest = torch.finfo(torch.float16).max
        return _product(t, factor, torch.float16).clamp_(-largest, largest)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return _product(gradient, factor, ctx.dtype), None


def _product(t: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
    """Their product in float32, rounded where it is made."""
    return torch.mul(t, factor, out=torch.empty_like(t, dtype=dtype))


def _power_of_two(t: Tensor) -> Tensor:
    """The least power of two that is not below it, as far as its inverse is a number, too; 1 for zero."""
    return torch.where(t > 0, torch.exp2(torch.ceil(torch.log2(t)).clamp(-126, 126)), 1.0)


def _finite(bias: Tensor, dtype: torch.dtype) -> Tensor:
    """Minus infinity, weight zero, as a number so low that no score makes up for it; as such it makes gradients NaN."""
    return bias.clamp(min=torch.finfo(dtype).min / 2).to(dtype)


def _four_axes(t: Tensor, leading: torch.Size, width: int) -> Tensor:
    t = t if t.shape[-1] == width else pad(t, (0, width - t.shape[-1]))  # which copies, even by nothing
    t = t.expand(*leading, *t.shape[-2:])
    outer = leading[0] if leading else 1
    return t.reshape(outer, prod(leading[1:]), *t.shape[-2:])


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, weights: Tensor | None) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise UsageError(f"attention needs (..., points, channels): got {shapes}")
    if query.shape[-1] != key.shape[-1]:
        raise UsageError(f"query and key must have as many channels as each other: got {shapes}")
    if key.shape[-2] != value.shape[-2]:
        raise UsageError(f"key and value must live on the same points: got {shapes}")
    if not query.dtype == key.dtype == value.dtype:
        raise UsageError(
            f"query, key and value must share a dtype: got {query.dtype}, {key.dtype}, {value.dtype}; cast them"
        )
    if key.shape[-2] == 0:
        raise UsageError(f"attention needs at least one key to attend to: got {shapes}")
    if weights is not None and (weights.ndim < 1 or weights.shape[-1] != key.shape[-2]):
        raise UsageError(f"weights must be (..., {key.shape[-2]}), one for each key: got {tuple(weights.shape)}")
    try:
        batches = [t.shape[:-2] for t in (query, key, value)]
        torch.broadcast_shapes(*batches, () if weights is None else weights.shape[:-1])
    except RuntimeError:
        given = "" if weights is None else f", weights {tuple(weights.shape)}"
        raise UsageError(f"what stands before the points must broadcast: got {shapes}{given}") from None
