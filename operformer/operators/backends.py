"""The table of backends that attention is computed by, asked in order, and which of them ran.

A row says when it applies and how it computes. The encoder's fused layers have a table of the same kind
(composition.py).
"""

# DESIGN.md: One table of backends

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from operformer.checking import checked
from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.kernels import HAS_TRITON
from operformer.operators.few_weights import NearlyEqual, attend_nearly_equal, can_mend, is_exported
from operformer.settings import check_count

__all__ = ["ATTENTION", "HAS_TRITON", "Backend", "Call", "backend", "compute", "listening"]

C = TypeVar("C")

HALF = (torch.float16, torch.bfloat16)
SMALL_HEADS = (16, 32)  # channels of heads that have a kernel of their own
TENSOR_CORES = 8  # the first compute capability whose tensor cores Triton's kernels are written for


@dataclass(frozen=True)
class Backend(Generic[C]):
    """A way to compute something: its name, whether it applies to a call, and the computation."""

    name: str
    applies: Callable[[C], bool]
    compute: Callable[[C], Tensor]


_heard: set[str] | None = None  # names of what ran, while somebody listens


def compute(table: Sequence[Backend[C]], call: C) -> Tensor:
    """The call by the first backend of the table that applies; the last one always does."""
    backend = next(row for row in table if row.applies(call))
    if _heard is not None:
        _heard.add(backend.name)
    return backend.compute(call)


@contextmanager
def listening() -> Iterator[set[str]]:
    """The names of the backends that run inside the context."""
    global _heard
    before, _heard = _heard, set()
    try:
        yield _heard
    finally:
        _heard = before


@checked
def backend(operator: nn.Module, grid: Grid, batch: int = 1) -> tuple[str, ...]:
    """Which code computes an operator's attention and layers on a grid; the operator is applied to zeros once.

    Args:
        operator: any operator.
        grid: where u would be known.
        batch: samples at once.

    Returns:
        The names of the backends that ran, sorted.

    Example:
        >>> backend(TNO(dim=1, in_channels=1, out_channels=1, hidden_channels=16), Grid.uniform(101))
        ('layer by layer', "torch's fused attention, log w as a mask")
    """
    like: Any = getattr(operator, "input_mean", None)
    if like is None:
        raise UsageError(f"backend needs an operator: got {type(operator).__name__}")
    check_count("batch", batch)
    with listening() as names, torch.no_grad():
        operator(like.new_zeros(batch, operator.in_channels, *grid.shape), grid.to(like.device))
    return tuple(sorted(names))


@dataclass(frozen=True, eq=False)
class Call:
    """Attention as it was asked for: (..., n, d_k), (..., m, d_k), (..., m, d_v), log w (..., m) or None for equal w.

    ``nearly_equal`` stands for ``log_weights`` where few of the points weigh less than the others. Half-precision
    inputs give float32 if ``wide``, else their own precision.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    log_weights: Tensor | None
    nearly_equal: NearlyEqual | None
    scale: float
    wide: bool


def mends(call: Call) -> bool:
    """Plain attention on a GPU, corrected for the few points that weigh less (few_weights.py)."""
    return call.nearly_equal is not None and can_mend(call.query, call.value)


def _mended(call: Call) -> Tensor:
    leading, (query, key, value) = _four_axes(replace(call, log_weights=None))
    average = attend_nearly_equal(query, key, value, call.nearly_equal, call.scale, call.wide)  # type: ignore[arg-type]
    return average.reshape(*leading, *average.shape[-2:])


def has_small_heads(call: Call) -> bool:
    """Half precision on a GPU, heads of 16 or 32 channels, constant weights: kernels/small_heads.py.

    Not in a graph that is exported, which has to run without this library.
    """
    query, value, log_weights = call.query, call.value, call.log_weights
    return (
        query.device.type == "cuda"
        and query.dtype in HALF
        and query.shape[-1] == value.shape[-1]
        and query.shape[-1] in SMALL_HEADS
        and HAS_TRITON
        and call.scale > 0
        and (log_weights is None or not log_weights.requires_grad)
        and query.numel() > 0
        and torch.cuda.get_device_properties(query.device).major >= TENSOR_CORES
        and not is_exported()
    )


def _by_small_heads(call: Call) -> Tensor:
    from operformer.kernels.small_heads import average_points

    call, unit = _without_bfloat16(call)
    leading, (query, key, value) = _four_axes(call)
    log_weights = call.log_weights
    if log_weights is not None and log_weights.ndim > 1:
        log_weights = _with_four_axes(log_weights.unsqueeze(-2), leading).squeeze(-2)
    average = average_points(query, key, value, log_weights, call.scale, wide=call.wide)
    average = average.reshape(*leading, *average.shape[-2:])
    return average if unit is None else average * unit


def _on_cpu(call: Call) -> bool:
    """torch's kernels of the CPU, which add constant log w to the scores as a mask."""
    return call.query.device.type == "cpu" and (call.log_weights is None or not call.log_weights.requires_grad)


def _with_mask(call: Call) -> Tensor:
    # The inputs stay rounded, the average is float32: CPUs gain nothing from half precision.
    call = _in_float32(call) if call.query.dtype in HALF else call
    leading, (query, key, value) = _four_axes(call, max(call.query.shape[-1], call.value.shape[-1]))
    mask = None
    if call.log_weights is not None:
        mask = _with_four_axes(_finite(call.log_weights, call.query.dtype).unsqueeze(-2), leading)
    average = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=call.scale)[
        ..., : call.value.shape[-1]
    ]
    return average.reshape(*leading, *average.shape[-2:])


def has_tangents(call: Call) -> bool:
    """Forward-mode derivatives (jvp, jacfwd, hessian) of attention, which torch's fused kernels do not have."""
    if torch.compiler.is_compiling():  # a dual tensor is not traced
        return False
    tensors = (call.query, call.key, call.value, call.log_weights)
    return any(t is not None and unpack_dual(t).tangent is not None for t in tensors)


def _in_parts(call: Call) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return _with_mask(call)


def _always(call: Call) -> bool:
    return True


def _with_channel(call: Call) -> Tensor:
    """torch's fused kernels with log w among the channels; they want one head size, on a GPU a multiple of 8."""
    on_cpu = call.query.device.type == "cpu"
    unit = None
    if call.query.dtype in HALF and on_cpu:
        call = _in_float32(call)
    else:
        call, unit = _without_bfloat16(call)
    if call.log_weights is not None:
        query, key = with_bias(call.query * call.scale, call.key, call.log_weights)
        call = replace(call, query=query, key=key, log_weights=None, scale=1.0)
    width = max(call.query.shape[-1], call.value.shape[-1])
    leading, (query, key, value) = _four_axes(call, width if on_cpu else -(-width // 8) * 8)
    average = scaled_dot_product_attention(query, key, value, scale=call.scale)[..., : call.value.shape[-1]]
    if average.dtype == torch.float16 and call.wide:
        average = average.float()
    average = average.reshape(*leading, *average.shape[-2:])
    return average if unit is None else average * unit


ATTENTION: tuple[Backend[Call], ...] = (
    Backend("torch's attention in parts, for forward derivatives", has_tangents, _in_parts),
    Backend("torch's fused attention, corrected at the boundary", mends, _mended),
    Backend("Triton kernel for small heads", has_small_heads, _by_small_heads),
    Backend("torch's fused attention, log w as a mask", _on_cpu, _with_mask),
    Backend("torch's fused attention, log w as a channel", _always, _with_channel),
)


def _in_float32(call: Call) -> Call:
    return replace(call, query=call.query.float(), key=call.key.float(), value=call.value.float())


def _without_bfloat16(call: Call) -> tuple[Call, Tensor | None]:
    """bfloat16 as float16, and the unit of the result: kernels that round their shares to bfloat16 are off by 0.6 %."""
    if call.query.dtype != torch.bfloat16:
        return call, None
    query, key, value, unit = in_float16(call.query, call.key, call.value, call.scale)
    return replace(call, query=query, key=key, value=value, scale=1.0), unit


def _four_axes(call: Call, width: int | None = None) -> tuple[torch.Size, list[Tensor]]:
    """The leading axes of the result, and query, key and value as (batch, heads, points, width)."""
    tensors = (call.query, call.key, call.value)
    weights = () if call.log_weights is None else call.log_weights.shape[:-1]
    leading = torch.broadcast_shapes(*[t.shape[:-2] for t in tensors], weights)
    if width is not None:  # padding copies, even by nothing
        tensors = tuple(t if t.shape[-1] == width else pad(t, (0, width - t.shape[-1])) for t in tensors)  # type: ignore[assignment]
    return leading, [_with_four_axes(t, leading) for t in tensors]


def _with_four_axes(t: Tensor, leading: torch.Size) -> Tensor:
    t = t.expand(*leading, *t.shape[-2:])
    outer = leading[0] if leading else 1
    return t.reshape(outer, prod(leading[1:]), *t.shape[-2:])


def with_bias(query: Tensor, key: Tensor, log_weights: Tensor) -> tuple[Tensor, Tensor]:
    """log w is a rank-one bias: q' = [q, 1] and k' = [k, log w] make weighted attention plain.

    In half precision it takes two channels, whose sum has twice the digits.
    """
    bias = log_weights.unsqueeze(-1).to(key.device)
    parts = [_finite(bias, key.dtype)]
    if key.dtype in HALF:
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
