"""What an encoder layer does at each point by itself, in one kernel forward and two backward (recurrence_enc_def).

    y = LayerNorm(v + a + b),   z = LayerNorm(y + W_3 f(W_4 y + b_1) + b_2),   f = GELU

a is the attention without its bias b, or it is W_MultiHead (h + s): h are the averages of the heads in half precision,
of values from which s was taken away before, a vector for each sample, so that rounding does not see the mean.

The H1 loss differentiates what is rounded point by point, not what is rounded alike at all points. So values enter a
product as two half-precision numbers, x = high + low, 22 bits in all, and weights as one of 11 bits, as TF32 rounds
them: two half-precision products cost what one in TF32 does and leave no noise from point to point. The backward pass
rounds once, gradients to bfloat16 where they are kept.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from operformer.kernels.tiles import half, head_start, put_heads, rows_of, take_heads, tile_of

FORWARD_ROWS, BACKWARD_ROWS, WARPS = 64, 64, 4
SOME_CHANNELS = 64
KEPT = torch.bfloat16  # gradients and what they are multiplied with, for the gradients of weights
# Rows of ``vectors``: gain and shift of the first norm, biases inside and outside, gain and shift of the second, merge.


@triton.jit
def _normalise(x, epsilon, channels: tl.constexpr):  # type: ignore[no-untyped-def]
    """(x - mean) / std along the rows, and 1 / std."""
    centred = x - (tl.sum(x, 1) / channels)[:, None]
    inverse = tl.rsqrt(tl.sum(centred * centred, 1) / channels + epsilon)
    return centred * inverse[:, None], inverse


@triton.jit
def _norm_gradient(gradient, x, inverse, channels: tl.constexpr):  # type: ignore[no-untyped-def]
    """The gradient before a normalisation with output x, from that after it."""
    along = tl.sum(gradient * x, 1) / channels
    mean = tl.sum(gradient, 1) / channels
    return (gradient - mean[:, None] - x * along[:, None]) * inverse[:, None]


@triton.jit
def _product(x, weight, total):  # type: ignore[no-untyped-def]
    """total + x @ weight, x in two half-precision parts."""
    high = x.to(tl.float16)
    low = (x - high.to(tl.float32)).to(tl.float16)
    return tl.dot(low, weight, tl.dot(high, weight, total))


@triton.jit
def _gradient_product(x, weight):  # type: ignore[no-untyped-def]
    """x @ weight, the rows of x brought into the range of half precision."""
    scale = tl.maximum(tl.max(tl.abs(x), 1), 1e-30)
    return tl.dot((x * (1.0 / scale)[:, None]).to(tl.float16), weight) * scale[:, None]


@triton.jit
def _gelu_parts(x):  # type: ignore[no-untyped-def]
    """P(normal < x), x times which is GELU, and exp(-x^2 / 2); Abramowitz and Stegun 7.1.26, good to 1.5e-7."""
    bell = tl.exp(-0.5 * x * x)
    t = 1.0 / (1.0 + 0.2316419 * tl.abs(x))
    tail = t * (0.127414796 + t * (-0.142248368 + t * (0.710706871 + t * (-0.7265760135 + t * 0.5307027145)))) * bell
    return tl.where(x < 0, tail, 1.0 - tail), bell


@triton.jit
def _forward_kernel(  # type: ignore[no-untyped-def]
    v, a, offset, z, z_half, inner, outer, merge, vectors, readout, epsilon_1, epsilon_2, points, patches,
    channels: tl.constexpr, width: tl.constexpr, block: tl.constexpr, merged: tl.constexpr, halved: tl.constexpr,
    some_channels: tl.constexpr, n_out: tl.constexpr,
):  # fmt: skip
    patch, first, start, present = tile_of(tl.program_id(0), points, channels, block)
    column = tl.arange(0, channels)
    local = rows_of(channels, block)
    x = tl.load(v + start + local, present, 0.0)
    if merged:
        there = head_start(patch, first, points, patches, patches, channels // width, width)
        h = take_heads(a + there, first, points, patches, channels, width, block)
        x += tl.dot(h, tl.load(merge + column[:, None] * channels + column[None, :]))
        x += tl.load(offset + (patch // patches) * channels + column)[None, :]
    else:
        x += tl.load(a + start + local, present, 0.0)
    x += tl.load(vectors + 6 * channels + column)[None, :]
    x, _ = _normalise(x, epsilon_1, channels)
    y = x * tl.load(vectors + column)[None, :] + tl.load(vectors + channels + column)[None, :]
    high = y.to(tl.float16)
    low = (y - high.to(tl.float32)).to(tl.float16)
    y += tl.load(vectors + 3 * channels + column)[None, :]
    for part in tl.static_range(channels // some_channels):  # parts need fewer registers than all at once
        some = part * some_channels + tl.arange(0, some_channels)
        weight = tl.load(inner + column[:, None] * channels + some[None, :])
        hidden = tl.dot(low, weight, tl.dot(high, weight)) + tl.load(vectors + 2 * channels + some)[None, :]
        share, _ = _gelu_parts(hidden)
        y = _product(hidden * share, tl.load(outer + some[:, None] * channels + column[None, :]), y)
    y, _ = _normalise(y, epsilon_2, channels)
    y = y * tl.load(vectors + 4 * channels + column)[None, :] + tl.load(vectors + 5 * channels + column)[None, :]
    if n_out == 0:
        tl.store(z + start + local, y, present)
    row = tl.arange(0, block)
    for channel in tl.static_range(n_out):  # z = W y, without y
        read = tl.sum(y * tl.load(readout + channel * channels + column)[None, :], 1)
        tl.store(z + (start // channels + row) * n_out + channel, read, first + row < points)
    if halved:
        tl.store(z_half + start + local, y.to(tl.float16), present)


@triton.jit
def _upper_kernel(  # type: ignore[no-untyped-def]
    v, a, shift, dz, dz_half, x_kept, h_kept, active_kept, slope_kept, dt_kept, inverses, sums,
    inner, outer, merge, vectors, epsilon_1, epsilon_2, points, patches,
    channels: tl.constexpr, width: tl.constexpr, block: tl.constexpr, merged: tl.constexpr, halved: tl.constexpr,
):  # fmt: skip
    """The forward pass again, then back through the second norm: dt, the gradient before it."""
    patch, first, start, present = tile_of(tl.program_id(0), points, channels, block)
    column = tl.arange(0, channels)
    local = rows_of(channels, block)
    square = column[:, None] * channels + column[None, :]
    x = tl.load(v + start + local, present, 0.0)
    if merged:
        there = head_start(patch, first, points, patches, patches, channels // width, width)
        h = take_heads(a + there, first, points, patches, channels, width, block).to(tl.float32)
        h += tl.load(shift + (patch // patches) * channels + column)[None, :]
        tl.store(h_kept + start + local, h.to(h_kept.dtype.element_ty), present)
        x += tl.dot(h.to(tl.float16), tl.load(merge + square))
    else:
        x += tl.load(a + start + local, present, 0.0)
    x += tl.load(vectors + 6 * channels + column)[None, :]
    x, inverse = _normalise(x, epsilon_1, channels)
    row = tl.arange(0, block)
    tl.store(inverses + start // channels + row, inverse, first + row < points)
    tl.store(x_kept + start + local, x.to(x_kept.dtype.element_ty), present)
    y = x * tl.load(vectors + column)[None, :] + tl.load(vectors + channels + column)[None, :]
    hidden = tl.dot(y.to(tl.float16), tl.load(inner + square)) + tl.load(vectors + 2 * channels + column)[None, :]
    share, bell = _gelu_parts(hidden)
    slope = share + hidden * bell * 0.3989422804014327
    tl.store(slope_kept + start + local, slope.to(tl.float16), present)
    hidden *= share
    tl.store(active_kept + start + local, hidden.to(active_kept.dtype.element_ty), present)
    y += tl.dot(hidden.to(tl.float16), tl.load(outer + square)) + tl.load(vectors + 3 * channels + column)[None, :]
    y, inverse = _normalise(y, epsilon_2, channels)
    gradient = tl.load(dz + start + local, present, 0.0)
    if halved:
        gradient += tl.load(dz_half + start + local, present, 0.0).to(tl.float32)
    mine = sums + tl.program_id(0) * 3 * channels + column
    tl.store(mine + channels, tl.sum(gradient * y, 0))
    tl.store(mine + 2 * channels, tl.sum(gradient, 0))
    gradient = _norm_gradient(gradient * tl.load(vectors + 4 * channels + column)[None, :], y, inverse, channels)
    tl.store(mine, tl.sum(gradient, 0))
    tl.store(dt_kept + start + local, gradient.to(dt_kept.dtype.element_ty), present)


@triton.jit
def _lower_kernel(  # type: ignore[no-untyped-def]
    dt, slope, x_kept, inverses, dh_kept, dx, dx_kept, da, sums, inner, outer, merge, vectors, points, patches,
    channels: tl.constexpr, width: tl.constexpr, block: tl.constexpr, merged: tl.constexpr,
):  # fmt: skip
    """Back through the feed-forward and the first norm: the gradients of v and a. Weights come transposed."""
    patch, first, start, present = tile_of(tl.program_id(0), points, channels, block)
    column = tl.arange(0, channels)
    local = rows_of(channels, block)
    square = column[:, None] * channels + column[None, :]
    mine = sums + tl.program_id(0) * 4 * channels + column
    gradient = tl.load(dt + start + local, present, 0.0).to(tl.float32)
    hidden = _gradient_product(gradient, tl.load(outer + square))
    hidden *= tl.load(slope + start + local, present, 0.0).to(tl.float32)
    tl.store(mine + 2 * channels, tl.sum(hidden, 0))
    tl.store(dh_kept + start + local, hidden.to(dh_kept.dtype.element_ty), present)
    gradient += _gradient_product(hidden, tl.load(inner + square))
    x = tl.load(x_kept + start + local, present, 0.0).to(tl.float32)
    row = tl.arange(0, block)
    inverse = tl.load(inverses + start // channels + row, first + row < points, 0.0)
    tl.store(mine, tl.sum(gradient * x, 0))
    tl.store(mine + channels, tl.sum(gradient, 0))
    gradient = _norm_gradient(gradient * tl.load(vectors + column)[None, :], x, inverse, channels)
    tl.store(dx + start + local, gradient, present)
    tl.store(mine + 3 * channels, tl.sum(gradient, 0))
    if merged:
        tl.store(dx_kept + start + local, gradient.to(dx_kept.dtype.element_ty), present)
        there = head_start(patch, first, points, patches, patches, channels // width, width)
        heads = _gradient_product(gradient, tl.load(merge + square))
        put_heads(heads, da + there, first, points, patches, channels, width, block)
    else:
        tl.store(da + start + local, gradient.to(da.dtype.element_ty), present)


@torch.library.custom_op("operformer::pointwise_block", mutates_args=())
def block_forward(
    v: Tensor, a: Tensor, shift: Tensor, inner: Tensor, outer: Tensor, merge: Tensor, vectors: Tensor,
    epsilon_1: float, epsilon_2: float, points: int, patches: int, width: int, halved: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """z and, if ``halved``, z in half precision.

    ``a`` is h, in half precision, or with an empty ``merge`` the attention itself, in float32.
    """
    z = torch.empty_like(v)
    z_half = torch.empty_like(v, dtype=torch.float16) if halved else v.new_empty(0, dtype=torch.float16)
    weights = (inner, outer, merge, vectors)
    _forward(v, a, shift, z, z_half, weights, v.new_empty(0), (epsilon_1, epsilon_2), (points, patches), width)
    return z, z_half


@block_forward.register_fake
def _(
    v: Tensor, a: Tensor, shift: Tensor, inner: Tensor, outer: Tensor, merge: Tensor, vectors: Tensor,
    epsilon_1: float, epsilon_2: float, points: int, patches: int, width: int, halved: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    half = torch.empty_like(v, dtype=torch.float16) if halved else v.new_empty(0, dtype=torch.float16)
    return torch.empty_like(v), half


@torch.library.custom_op("operformer::pointwise_block_readout", mutates_args=())
def block_readout(
    v: Tensor, a: Tensor, shift: Tensor, inner: Tensor, outer: Tensor, merge: Tensor, vectors: Tensor,
    epsilon_1: float, epsilon_2: float, points: int, patches: int, width: int, readout: Tensor,
) -> Tensor:  # fmt: skip
    """z W^T in place of z, W = ``readout`` (few, channels): the function is not stored. There are no gradients."""
    z = v.new_empty(*v.shape[:-1], len(readout))
    weights, nothing = (inner, outer, merge, vectors), v.new_empty(0, dtype=torch.float16)
    _forward(v, a, shift, z, nothing, weights, readout, (epsilon_1, epsilon_2), (points, patches), width)
    return z


@block_readout.register_fake
def _(
    v: Tensor, a: Tensor, shift: Tensor, inner: Tensor, outer: Tensor, merge: Tensor, vectors: Tensor,
    epsilon_1: float, epsilon_2: float, points: int, patches: int, width: int, readout: Tensor,
) -> Tensor:  # fmt: skip
    return v.new_empty(*v.shape[:-1], len(readout))


def _forward(
    v: Tensor, a: Tensor, shift: Tensor, z: Tensor, z_half: Tensor, weights: tuple[Tensor, Tensor, Tensor, Tensor],
    readout: Tensor, epsilons: tuple[float, float], layout: tuple[int, int], width: int,
) -> None:  # fmt: skip
    """Fill z, and z_half if it is not empty."""
    inner, outer, merge, vectors = weights
    channels, merged = v.shape[-1], merge.numel() > 0
    offset = shift @ merge.T if merged else shift
    _forward_kernel[_programs(v, layout[0], FORWARD_ROWS)](
        v, a, offset, z, z_half, half(inner.T), half(outer.T), half(merge.T), vectors, readout.contiguous(),
        *epsilons, *layout, channels=channels, width=width, block=FORWARD_ROWS, merged=merged,
        halved=z_half.numel() > 0, some_channels=min(channels, SOME_CHANNELS), n_out=len(readout), num_warps=WARPS,
    )  # fmt: skip


@torch.library.custom_op("operformer::pointwise_block_backward", mutates_args=())
def block_backward(
    dz: Tensor, dz_half: Tensor, v: Tensor, a: Tensor, shift: Tensor, inner: Tensor, outer: Tensor, merge: Tensor,
    vectors: Tensor, epsilon_1: float, epsilon_2: float, points: int, patches: int, width: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of v, a (in half precision), inner, outer, merge and vectors; ``dz_half`` may be empty."""
    channels, rows = v.shape[-1], v.numel() // v.shape[-1]
    merged = merge.numel() > 0
    grid = _programs(v, points, BACKWARD_ROWS)
    common = {"channels": channels, "width": width, "block": BACKWARD_ROWS, "merged": merged, "num_warps": WARPS}

    def kept(dtype: torch.dtype = KEPT, needed: bool = True) -> Tensor:
        return torch.empty(rows if needed else 0, channels, dtype=dtype, device=v.device)

    x, active, dt, dh, slope = kept(), kept(), kept(), kept(), kept(torch.float16)
    heads, dx_kept = kept(needed=merged), kept(needed=merged)
    inverses = torch.empty(rows, dtype=torch.float32, device=v.device)
    upper = torch.empty(grid[0], 3, channels, dtype=torch.float32, device=v.device)
    _upper_kernel[grid](
        v, a, shift, dz, dz_half, x, heads, active, slope, dt, inverses, upper,
        half(inner.T), half(outer.T), half(merge.T), vectors, epsilon_1, epsilon_2, points, patches,
        halved=dz_half.numel() > 0, **common,
    )  # fmt: skip
    dx = torch.empty_like(v)
    da = torch.empty_like(a, dtype=torch.float16)
    lower = torch.empty(grid[0], 4, channels, dtype=torch.float32, device=v.device)
    _lower_kernel[grid](
        dt, slope, x, inverses, dh, dx, dx_kept, da, lower, half(inner), half(outer), half(merge), vectors,
        points, patches, **common,
    )  # fmt: skip
    d_outside, d_gain_2, d_shift_2 = upper.sum(0)
    d_gain_1, d_shift_1, d_inside, d_merge_bias = lower.sum(0)
    d_vectors = torch.stack([d_gain_1, d_shift_1, d_inside, d_outside, d_gain_2, d_shift_2, d_merge_bias])
    # y = gain x + shift, so that sum dh y^T needs no y.
    d_inner = (dh.T @ x).float() * vectors[0] + d_inside[:, None] * vectors[1]
    d_merge = (dx_kept.T @ heads).float() if merged else torch.empty_like(merge)
    return dx, da, d_inner, (dt.T @ active).float(), d_merge, d_vectors


@block_backward.register_fake
def _(
    dz: Tensor, dz_half: Tensor, v: Tensor, a: Tensor, shift: Tensor, inner: Tensor, outer: Tensor, merge: Tensor,
    vectors: Tensor, epsilon_1: float, epsilon_2: float, points: int, patches: int, width: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    half = torch.empty_like(a, dtype=torch.float16)
    gradients = [torch.empty_like(t) for t in (inner, outer, merge, vectors)]
    return torch.empty_like(v), half, gradients[0], gradients[1], gradients[2], gradients[3]


def _programs(v: Tensor, points: int, block: int) -> tuple[int]:
    return (v.numel() // (v.shape[-1] * points) * triton.cdiv(points, block),)
