"""Query, key and value of every head from one reading of the latent function (equation multihead1).

(batch patches points, channels) -> functions (points, channels / heads) in half precision, one after the other: batch
heads patches of query, as many of key, and batch heads slots of value, of which those beyond the patches are zero. So
attention between patches has products of aligned size: keys are read on into what follows, values are not, since even
a share of zero would take on what is not finite in the next sample. Over points there is one patch and one slot.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from operformer.kernels.tiles import half, head_start, heads_of, put_heads, rows_of, take_heads, tile_of

ROWS, WARPS = 64, 4
SPLITS, STAGES = 88, 3  # of the sum over rows
# Of the projection: rows, warps, registers and stages, of which the third has the next tile read beside a product;
# programs for each of query, key and value, so that all of an H200's multiprocessors have two.
TILE, TILE_WARPS, TILE_REGISTERS, TILE_STAGES, COLUMNS = 64, 8, 128, 3, 88


@triton.jit
def _project_kernel(  # type: ignore[no-untyped-def]
    v, heads, weights, biases, shift, n_tiles, points, patches, slots, apart, columns,
    channels: tl.constexpr, width: tl.constexpr, block: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """Every program has one of the three weights, which it keeps, and every ``columns``-th tile."""
    part = tl.program_id(0) % 3
    column = tl.arange(0, channels)
    weight = tl.load(weights + part * channels * channels + column[:, None] * channels + column[None, :])
    bias = tl.load(biases + part * channels + column)
    own = tl.where(part == 2, slots, patches)
    to_part = part.to(tl.int64) * apart
    for tile in tl.range(tl.program_id(0) // 3, n_tiles, columns, num_stages=stages):
        patch, first, start, present = tile_of(tile, points, channels, block)
        there = head_start(patch, first, points, patches, own, channels // width, width)
        x = tl.load(v + start + rows_of(channels, block), present, 0.0)
        taken = tl.load(shift + (patch // patches) * channels + column)
        y = tl.dot(x, weight) + (bias - tl.where(part == 2, taken, 0.0))[None, :]
        put_heads(y, heads + to_part + there, first, points, own, channels, width, block)


@triton.jit
def _gather_kernel(  # type: ignore[no-untyped-def]
    d_heads, dv, weights, points, patches, slots, apart,
    channels: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The gradient of v from those of query, key and value; weights come transposed."""
    patch, first, start, present = tile_of(tl.program_id(0), points, channels, block)
    there = head_start(patch, first, points, patches, slots, channels // width, width)
    column = tl.arange(0, channels)
    total = tl.zeros([block, channels], tl.float32)
    wide = tl.program_id(0).to(tl.int64) * 0
    for part in tl.static_range(3):
        weight = tl.load(weights + part * channels * channels + column[:, None] * channels + column[None, :])
        gradient = take_heads(d_heads + (wide + part) * apart + there, first, points, slots, channels, width, block)
        total = tl.dot(gradient, weight, total)
    tl.store(dv + start + rows_of(channels, block), total.to(tl.float16), present)


@triton.jit
def _weight_kernel(  # type: ignore[no-untyped-def]
    d_heads, v, products, sums, n_tiles, points, patches, slots, apart, splits,
    channels: tl.constexpr, width: tl.constexpr, block: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """The gradients of the three weights (channels of v, channels of the heads) and biases, in ``splits`` parts."""
    column = tl.arange(0, channels)
    part = tl.program_id(0) % 3
    total = tl.zeros([channels, channels], tl.float32)
    along = tl.zeros([channels], tl.float32)
    across = heads_of(points, slots, channels, width, block)
    to_part = part.to(tl.int64) * apart
    for tile in tl.range(tl.program_id(0) // 3, n_tiles, splits, num_stages=stages):
        patch, first, start, present = tile_of(tile, points, channels, block)
        there = head_start(patch, first, points, patches, slots, channels // width, width)
        x = tl.load(v + start + rows_of(channels, block), present, 0.0)
        gradient = tl.load(d_heads + to_part + there + across, present, 0.0)
        total = tl.dot(tl.trans(x), gradient, total)
        along += tl.sum(gradient.to(tl.float32), 0)
    square = column[:, None] * channels + column[None, :]
    tl.store(products + tl.program_id(0).to(tl.int64) * channels * channels + square, total)
    tl.store(sums + tl.program_id(0) * channels + column, along)


@torch.library.custom_op("operformer::project_heads", mutates_args=())
def project_heads(
    v: Tensor, weights: Tensor, biases: Tensor, shift: Tensor, points: int, patches: int, slots: int, width: int
) -> Tensor:
    """v (rows, channels) in half precision, weights (3, channels, channels) as of nn.Linear -> heads.

    ``shift`` (batch, channels) is taken away from the values; averages of a constant are that constant.
    """
    channels = v.shape[-1]
    functions = v.numel() // (points * patches * width)
    heads = torch.empty(functions * (2 * patches + slots), points, width, dtype=torch.float16, device=v.device)
    if slots > patches:
        heads[2 * functions * patches :].unflatten(0, (functions, slots))[:, patches:] = 0
    n_tiles = v.numel() // (channels * points) * triton.cdiv(points, TILE)
    columns = min(n_tiles, COLUMNS)
    _project_kernel[(3 * columns,)](
        v, heads, half(weights.mT), biases, shift, n_tiles, points, patches, slots, v.numel(), columns,
        channels=channels, width=width, block=TILE, stages=TILE_STAGES, num_warps=TILE_WARPS, maxnreg=TILE_REGISTERS,
    )  # fmt: skip
    return heads


@project_heads.register_fake
def _(
    v: Tensor, weights: Tensor, biases: Tensor, shift: Tensor, points: int, patches: int, slots: int, width: int
) -> Tensor:
    functions = v.numel() // (points * patches * width)
    return v.new_empty(functions * (2 * patches + slots), points, width, dtype=torch.float16)


@torch.library.custom_op("operformer::project_heads_backward", mutates_args=())
def project_heads_backward(
    d_heads: Tensor, v: Tensor, weights: Tensor, points: int, patches: int, slots: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of v (in half precision), weights and biases.

    Those of the heads may stand apart: (3 batch heads, slots, points, width), of which as many slots as patches count.
    """
    channels = v.shape[-1]
    n_tiles = v.numel() // (channels * points) * triton.cdiv(points, ROWS)
    apart = v.numel() // patches * slots
    dv = torch.empty_like(v)
    _gather_kernel[(n_tiles,)](
        d_heads, dv, half(weights), points, patches, slots, apart,
        channels=channels, width=width, block=ROWS, num_warps=WARPS,
    )  # fmt: skip
    products = torch.empty(SPLITS, 3, channels, channels, dtype=torch.float32, device=v.device)
    sums = torch.empty(SPLITS, 3, channels, dtype=torch.float32, device=v.device)
    _weight_kernel[(3 * SPLITS,)](
        d_heads, v, products, sums, n_tiles, points, patches, slots, apart, SPLITS,
        channels=channels, width=width, block=ROWS, stages=STAGES, num_warps=WARPS,
    )  # fmt: skip
    return dv, products.sum(0).mT.contiguous(), sums.sum(0)


@project_heads_backward.register_fake
def _(
    d_heads: Tensor, v: Tensor, weights: Tensor, points: int, patches: int, slots: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(v), torch.empty_like(weights), weights.new_empty(3, v.shape[-1])


def _setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    v, weights, _, _, points, patches, _, width = inputs
    ctx.save_for_backward(v, weights)
    ctx.layout = (points, patches, patches, width)


def _backward(ctx, d_heads):  # type: ignore[no-untyped-def]
    v, weights = ctx.saved_tensors
    return *project_heads_backward(d_heads.contiguous(), v, weights, *ctx.layout), *[None] * 5


project_heads.register_autograd(_backward, setup_context=_setup)
