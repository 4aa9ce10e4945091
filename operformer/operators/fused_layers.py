"""Encoder layers on a GPU in few kernels, averages in half precision: the functions of encoder.py, made for speed.

Layers hand each other v in float32, for what is added up point by point, and in half precision, for what is averaged.
Needs Triton; `encode` of composition.py chooses.
"""

# DESIGN.md: Fused layers keep two parts

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from operformer.domain.blending import BlendedTransform
from operformer.kernels.head_projection import project_heads, project_heads_backward
from operformer.kernels.patched_average import patched_average, patched_average_backward
from operformer.kernels.pointwise_block import block_backward, block_forward, block_readout
from operformer.operators.attention import Measure, MultiHeadAttention, attend, for_heads
from operformer.operators.encoder import EncoderLayer
from operformer.operators.fused_dilation import DilatedTables, can_be_fused, tables_of
from operformer.operators.fused_modes import (
    ALIGNED,
    aligned,
    grouped_weights,
    has_tables,
    in_two_parts,
    is_blended,
    products,
    tables,
    unaligned,
    wide_product,
)
from operformer.operators.patched_attention import Coefficients, CommonPoints, FourierAttention, PatchedAttention

SOME = 1024  # points that are enough for a rough mean

Parameters = tuple[Tensor, Tensor, Tensor, Tensor, float, float]


def encode(layers: Sequence[EncoderLayer], v: Tensor, measure: Any, readout: nn.Linear | None = None) -> Tensor:
    """E_L (equation recurrence_enc_def): (batch, n, c), or (batch, P, *points, c) between patches.

    With a ``readout`` that of E_L, without gradients.
    """
    shape = v.shape
    v = v.contiguous()
    v_half = v.to(torch.float16)
    apply = _layer_kind(layers[0].attention, measure)
    for layer in layers[:-1]:
        v, v_half = apply(layer, v, v_half, _End(is_halved=True))
    v, _ = apply(layers[-1], v, v_half, _End(readout=None if readout is None else readout.weight))
    return v.reshape(shape) if readout is None else v.reshape(*shape[:-1], -1) + readout.bias


@dataclass(frozen=True)
class _End:
    """What becomes of a layer's output: kept in half precision besides, for the next layer, or read by a matrix."""

    is_halved: bool = False
    readout: Tensor | None = None


def _layer_kind(attention: Any, measure: Any) -> Callable[[EncoderLayer, Tensor, Tensor, _End], tuple[Tensor, Tensor]]:
    if isinstance(attention, FourierAttention) and isinstance(measure.transform, BlendedTransform):
        matrices = tuple(matrix.to(torch.float16) for matrix in measure.transform.analysis)
        return partial(_blended_layer, measure, replace(measure.transform, analysis=matrices))
    if isinstance(attention, FourierAttention):
        analysis, synthesis = tables(attention.modes, measure.transform)
        gram = products(attention.modes, measure.transform)
        return partial(_fourier_layer, measure.volume, analysis.to(torch.float16), in_two_parts(synthesis), gram)
    if isinstance(attention, PatchedAttention) and measure.dilation is not None:
        return partial(_dilated_layer, measure, tables_of(measure.dilation, measure.weights.device))
    if isinstance(attention, PatchedAttention):
        return partial(_patched_layer, measure)
    return partial(_pointwise_layer, measure)


def _pointwise_layer(
    measure: Measure, layer: EncoderLayer, v: Tensor, v_half: Tensor, end: _End
) -> tuple[Tensor, Tensor]:
    """Attention between the n points of v (batch, n, c)."""
    attention: Any = layer.attention
    layout = (v.shape[1], 1, v.shape[-1] // attention.n_heads)
    weights, biases, shift = _projection(attention, v_half)
    heads = project_heads(v_half, weights, biases, shift, layout[0], 1, 1, layout[2])
    query, key, value = heads.unflatten(0, (3, len(v), -1)).unbind(0)
    average = attend(query, key, value, for_heads(measure), attention.scale, wide=False).contiguous()
    parameters = _parameters(layer, merge=True)
    if end.readout is not None:
        return _read(v, average, shift, parameters, layout, end.readout)
    return _Block.apply(v, average, None, shift, *parameters, layout, end.is_halved)


def _patched_layer(
    measure: CommonPoints, layer: EncoderLayer, v: Tensor, v_half: Tensor, end: _End
) -> tuple[Tensor, Tensor]:
    """Attention between patches, pointwise Q, K, V: v is (batch, P, *points, c)."""
    attention: Any = layer.attention
    patches, points = v.shape[1], v.shape[2:-1].numel()
    layout = (points, patches, v.shape[-1] // attention.n_heads)
    slots = -(-patches // ALIGNED) * ALIGNED
    projection = _projection(attention, v_half)
    scale = measure.volume / points
    weights = v.new_empty(0) if measure.has_equal_weights else measure.weights / scale
    parameters = _parameters(layer, merge=True)
    if end.readout is not None:
        heads = project_heads(v_half, *projection, points, patches, slots, layout[2])
        _, average = patched_average(heads, weights, scale, patches, slots)
        return _read(v, average, projection[2], parameters, layout, end.readout)
    return _PatchedBlock.apply(v, v_half, *projection, *parameters, layout, end.is_halved, slots, weights, scale)


def _dilated_layer(
    measure: CommonPoints, tables: DilatedTables, layer: EncoderLayer, v: Tensor, v_half: Tensor, end: _End
) -> tuple[Tensor, Tensor]:
    """The same between patches that overlap: v is (batch, *shape, c), on D."""
    attention: Any = layer.attention
    points, patches, width = len(measure.weights), prod(tables.patches), v.shape[-1] // attention.n_heads
    layout = (v.shape[1:-1].numel(), 1, width)
    slots = -(-patches // ALIGNED) * ALIGNED
    projection = _projection(attention, v_half)
    scale = measure.volume / points
    weights = v.new_empty(0) if measure.has_equal_weights else measure.weights / scale
    parameters = _parameters(layer, merge=True)
    if end.readout is not None:
        heads = _dilated(tables, project_heads(v_half, *projection, *layout[:2], 1, width), slots)
        average = tables.blend(patched_average(heads, weights, scale, patches, slots)[1], width)
        return _read(v, average, projection[2], parameters, layout, end.readout)
    return _DilatedBlock.apply(
        v, v_half, *projection, *parameters, layout, end.is_halved, slots, weights, scale, tables
    )


def _dilated(tables: DilatedTables, heads: Tensor, slots: int) -> Tensor:
    """Query, key and value on D as functions on dilated patches, as `project_heads` makes those on patches."""
    return tables.cut(heads, padded=len(heads) // 3, slots=slots)


def _fourier_layer(
    volume: float, analysis: Tensor, synthesis: Tensor, gram: Tensor | None, layer: EncoderLayer, v: Tensor,
    v_half: Tensor, end: _End,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention between patches in coefficient space: v is (batch, P, *points, c)."""
    attention: Any = layer.attention
    batch, patches, channels = v.shape[0], v.shape[1], v.shape[-1]
    entries = torch.matmul(analysis, v_half.flatten(2, -2))
    merged = _average_modes(attention, entries.flatten(0, 1), batch, volume, gram)
    layout = (synthesis.shape[0], patches, channels)
    shift, coefficients = v.new_empty(0), merged.flatten(0, 1)
    parameters = _parameters(layer, merge=False)
    if end.readout is not None:
        return _read(v, wide_product(synthesis, coefficients), shift, parameters, layout, end.readout)
    return _Block.apply(v, synthesis, coefficients, shift, *parameters, layout, end.is_halved)


def _blended_layer(
    measure: Coefficients, halved: BlendedTransform, layer: EncoderLayer, v: Tensor, v_half: Tensor, end: _End
) -> tuple[Tensor, Tensor]:
    """The same between patches that overlap: v is (batch, *shape, c), on D. ``halved`` analyses in half precision."""
    attention: Any = layer.attention
    modes, batch, channels = attention.modes, v.shape[0], v.shape[-1]
    entries = aligned(modes, modes.gather(halved.analyse(v_half).flatten(0, 1))).transpose(0, 1)
    merged = _average_modes(attention, entries, batch, measure.volume, None)
    kept = unaligned(modes, merged.flatten(0, 1).transpose(0, 1)).float()
    # Rounded coefficients are a function all the same; its values at points are not rounded.
    average = measure.transform.synthesise(modes.scatter(kept).unflatten(0, (batch, -1))).contiguous()
    layout, shift = (v.shape[1:-1].numel(), 1, channels), v.new_empty(0)
    parameters = _parameters(layer, merge=False)
    if end.readout is not None:
        return _read(v, average, shift, parameters, layout, end.readout)
    return _Block.apply(v, average, None, shift, *parameters, layout, end.is_halved)


def _average_modes(attention: Any, entries: Tensor, batch: int, volume: float, gram: Tensor | None) -> Tensor:
    """From coefficients (batch P, E, c), aligned, to those of what attention merges: (batch, P, E, c)."""
    count, patches = entries.shape[1], len(entries) // batch
    group, weights = grouped_weights(attention.mixing, count)
    rows = entries.unflatten(1, (-1, group)).flatten(2).transpose(0, 1)
    mixed = torch.bmm(rows, weights).unflatten(-1, (group, 3, attention.n_heads, -1)).unflatten(1, (batch, patches))
    if gram is not None:
        mixed = _with_weighed_keys(mixed, gram)
    absent = -patches % ALIGNED
    heads = pad(mixed.permute(4, 1, 5, 2, 0, 3, 6), (0, 0, 0, 0, 0, 0, 0, absent))
    query, key, value = heads.flatten(1, 2).flatten(3).unbind(0)
    average = torch.bmm(_softmax(query, key, volume, patches), value)
    average = average.unflatten(0, (batch, -1)).unflatten(-1, (count, -1))[:, :, :patches]
    return average.permute(0, 2, 3, 1, 4).flatten(-2) @ attention.merge.weight.T.to(torch.float16)


def _with_weighed_keys(mixed: Tensor, gram: Tensor) -> Tensor:
    """Keys whose dot products with queries are those of functions: (groups, batch, P, group, 3, heads, d_k)."""
    query, key, value = mixed.unbind(4)
    rows = key.transpose(2, 3).transpose(1, 2)
    weighed = (gram @ rows.flatten(0, 1).flatten(1)).view(rows.shape)
    return torch.stack([query, weighed.transpose(1, 2).transpose(2, 3), value], 4)


def _projection(attention: Any, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights and biases of query, key and value, and what is taken away from the values, for `project_heads`."""
    parts = (attention.query, attention.key, attention.value)
    weights, biases = torch.stack([p.weight for p in parts]), torch.stack([p.bias for p in parts])
    with torch.no_grad():
        # An average of a constant is that constant, so any vector will do; near the mean, little is left to round.
        flat = v.flatten(1, -2)
        mean = flat[:, :: max(1, flat.shape[1] // SOME)].float().mean(1)
        shift = torch.addmm(attention.value.bias, mean, attention.value.weight.T)
    return weights, biases, shift


def _softmax(query: Tensor, key: Tensor, scale: float, patches: int) -> Tensor:
    """The shares of the patches (batch heads, slots, slots), none for slots that are not patches."""
    scores = torch.baddbmm(query.new_zeros(()), query, key.transpose(1, 2), beta=0, alpha=scale).float()
    if scores.shape[-1] > patches:
        absent = torch.arange(scores.shape[-1], device=scores.device) >= patches
        scores = scores.masked_fill(absent, -torch.inf)
    return torch.softmax(scores, -1).to(query.dtype)


def _read(
    v: Tensor, a: Tensor, shift: Tensor, parameters: Parameters, layout: tuple[int, int, int], readout: Tensor
) -> tuple[Tensor, Tensor]:
    """The readout of a layer, and nothing in half precision."""
    return block_readout(v, a, shift, *parameters, *layout, readout), v.new_empty(0)


def _parameters(layer: Any, merge: bool) -> Parameters:
    """Weights and vectors of a layer as `block_forward` takes them."""
    inside, _, outside = layer.feed_forward
    merging = layer.attention.merge
    norm_1, norm_2 = layer.norm_1, layer.norm_2
    vectors = torch.stack(
        [norm_1.weight, norm_1.bias, inside.bias, outside.bias, norm_2.weight, norm_2.bias, merging.bias]
    )  # fmt: skip
    weight = merging.weight if merge else inside.weight.new_empty(0, 0)
    return inside.weight, outside.weight, weight, vectors, norm_1.eps, norm_2.eps


class _Block(torch.autograd.Function):
    """`block_forward` with the averages ``left``, or with the function left @ right, whose ``left`` is constant."""

    @staticmethod
    def forward(
        ctx: Any, v: Tensor, left: Tensor, right: Tensor | None, shift: Tensor, inner: Tensor, outer: Tensor,
        merge: Tensor, vectors: Tensor, epsilon_1: float, epsilon_2: float, layout: tuple[int, int, int],
        halved: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        a = left if right is None else wide_product(left, right)
        ctx.save_for_backward(left, right, v, a, shift, inner, outer, merge, vectors)
        ctx.numbers = (epsilon_1, epsilon_2, *layout)
        return block_forward(v, a, shift, inner, outer, merge, vectors, *ctx.numbers, halved)

    @staticmethod
    def backward(ctx: Any, dz: Tensor, dz_half: Tensor) -> tuple[Tensor | None, ...]:
        left, right, *saved = ctx.saved_tensors
        dx, da, *rest = block_backward(dz.contiguous(), dz_half.contiguous(), *saved, *ctx.numbers)
        if right is None:
            return dx, da, None, None, *rest, *[None] * 4
        da = da.reshape(right.shape[0], -1, right.shape[-1])
        return dx, None, torch.matmul(left[:, : right.shape[1]].T, da), None, *rest, *[None] * 4


class _PatchedBlock(torch.autograd.Function):
    """`block_forward` with the average of `patched_average` of the heads of v."""

    @staticmethod
    def forward(
        ctx: Any, v: Tensor, v_half: Tensor, weights: Tensor, biases: Tensor, shift: Tensor, inner: Tensor,
        outer: Tensor, merge: Tensor, vectors: Tensor, epsilon_1: float, epsilon_2: float,
        layout: tuple[int, int, int], halved: bool, slots: int, point_weights: Tensor, scale: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        points, patches, width = layout
        heads = project_heads(v_half, weights, biases, shift, points, patches, slots, width)
        share, a = patched_average(heads, point_weights, scale, patches, slots)
        ctx.save_for_backward(
            v_half, weights, heads, share, point_weights, v, a, shift, inner, outer, merge, vectors
        )  # fmt: skip
        ctx.numbers, ctx.scale, ctx.slots = (epsilon_1, epsilon_2, *layout), scale, slots
        return block_forward(v, a, shift, inner, outer, merge, vectors, *ctx.numbers, halved)

    @staticmethod
    def backward(ctx: Any, dz: Tensor, dz_half: Tensor) -> tuple[Tensor | None, ...]:
        v_half, weights, heads, share, point_weights, *saved = ctx.saved_tensors
        _, _, points, patches, width = ctx.numbers
        dx, da, *rest = block_backward(dz.contiguous(), dz_half.contiguous(), *saved, *ctx.numbers)
        d_heads = patched_average_backward(da, heads, share, point_weights, ctx.scale, patches)
        dv, *projected = project_heads_backward(d_heads, v_half, weights, points, patches, ctx.slots, width)
        return dx, dv, *projected, None, *rest, *[None] * 7


class _DilatedBlock(torch.autograd.Function):
    """`block_forward` with sum_j chi_j a_j, a the average of `patched_average` of the heads of v on dilated patches."""

    @staticmethod
    def forward(
        ctx: Any, v: Tensor, v_half: Tensor, weights: Tensor, biases: Tensor, shift: Tensor, inner: Tensor,
        outer: Tensor, merge: Tensor, vectors: Tensor, epsilon_1: float, epsilon_2: float,
        layout: tuple[int, int, int], halved: bool, slots: int, point_weights: Tensor, scale: float,
        tables: DilatedTables,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        points, _, width = layout
        heads = _dilated(tables, project_heads(v_half, weights, biases, shift, points, 1, 1, width), slots)
        share, a = patched_average(heads, point_weights, scale, prod(tables.patches), slots)
        a = tables.blend(a, width)
        ctx.save_for_backward(
            v_half, weights, heads, share, point_weights, v, a, shift, inner, outer, merge, vectors
        )  # fmt: skip
        ctx.numbers, ctx.scale, ctx.tables = (epsilon_1, epsilon_2, *layout), scale, tables
        return block_forward(v, a, shift, inner, outer, merge, vectors, *ctx.numbers, halved)

    @staticmethod
    def backward(ctx: Any, dz: Tensor, dz_half: Tensor) -> tuple[Tensor | None, ...]:
        v_half, weights, heads, share, point_weights, *saved = ctx.saved_tensors
        _, _, points, _, width = ctx.numbers
        tables = ctx.tables
        dx, da, *rest = block_backward(dz.contiguous(), dz_half.contiguous(), *saved, *ctx.numbers)
        da = tables.blend_backward(da)
        d_heads = patched_average_backward(da, heads, share, point_weights, ctx.scale, prod(tables.patches))
        d_heads = tables.cut_backward(d_heads.flatten(0, 1), width)
        dv, *projected = project_heads_backward(d_heads, v_half, weights, points, 1, 1, width)
        return dx, dv, *projected, None, *rest, *[None] * 8


def takes(attention: Any, measure: Any) -> bool:
    """Whether there is a layer for this attention on this kind of grid."""
    if isinstance(attention, FourierAttention):
        return has_tables(measure.transform) or is_blended(measure.transform)
    if isinstance(attention, MultiHeadAttention):
        return measure.cells is None
    return isinstance(attention, PatchedAttention) and (measure.dilation is None or can_be_fused(measure.dilation))
