"""Encoder layers on a GPU in few kernels, averages in half precision: the functions of encoder.py, made for speed.

Layers hand each other v in float32, for what is added up point by point, and in half precision, for what is averaged.
Needs Triton; `encode` of composition.py chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from operformer.domain.transform import TensorTransform
from operformer.kernels.head_projection import project_heads
from operformer.kernels.patched_average import patched_average, patched_average_backward
from operformer.kernels.pointwise_block import block_backward, block_forward, block_readout
from operformer.kernels.small_heads import average_points
from operformer.operators.attention import MultiHeadAttention, has_small_heads, with_bias
from operformer.operators.encoder import EncoderLayer
from operformer.operators.few_weights import NearlyEqual, attend_nearly_equal
from operformer.operators.integral import ModeTables, SpectralMixing
from operformer.operators.patched_attention import CommonPoints, FourierAttention, PatchedAttention

ALIGNED = 8  # tensor cores want sizes in half precision to be multiples of this
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
    if isinstance(attention, FourierAttention):
        analysis, synthesis = _tables(attention.modes, measure.transform)
        gram = _gram(attention.modes, measure.transform)
        return partial(_fourier_layer, measure.volume, analysis.to(torch.float16), _in_two_parts(synthesis), gram)
    if isinstance(attention, PatchedAttention):
        return partial(_patched_layer, measure)
    return partial(_pointwise_layer, measure)


def _pointwise_layer(
    log_weights: Tensor | NearlyEqual | None, layer: EncoderLayer, v: Tensor, v_half: Tensor, end: _End
) -> tuple[Tensor, Tensor]:
    """Attention between the n points of v (batch, n, c)."""
    attention: Any = layer.attention
    layout = (v.shape[1], 1, 1, v.shape[-1] // attention.n_heads)
    heads, shift = _heads(attention, v_half, layout)
    query, key, value = heads.squeeze(3).unbind(0)
    average = _average_points(query, key, value, log_weights, attention.scale)
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
    layout = (points, patches, -(-patches // ALIGNED) * ALIGNED, v.shape[-1] // attention.n_heads)
    heads, shift = _heads(attention, v_half, layout)
    scale = measure.volume / points
    weights = v.new_empty(0) if measure.has_equal_weights else measure.weights / scale
    parameters = _parameters(layer, merge=True)
    if end.readout is not None:
        _, average = patched_average(heads, weights, scale, patches)
        return _read(v, average, shift, parameters, layout, end.readout)
    return _PatchedBlock.apply(v, heads, shift, *parameters, layout, end.is_halved, weights, scale)


def _fourier_layer(
    volume: float, analysis: Tensor, synthesis: Tensor, gram: Tensor | None, layer: EncoderLayer, v: Tensor,
    v_half: Tensor, end: _End,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention between patches in coefficient space: v is (batch, P, *points, c)."""
    attention: Any = layer.attention
    batch, patches, channels = v.shape[0], v.shape[1], v.shape[-1]
    entries = torch.matmul(analysis, v_half.flatten(2, -2))
    count = entries.shape[2]
    group, weights = _grouped_weights(attention.mixing, count)
    rows = entries.flatten(0, 1).unflatten(1, (-1, group)).flatten(2).transpose(0, 1)
    mixed = torch.bmm(rows, weights).unflatten(-1, (group, 3, attention.n_heads, -1)).unflatten(1, (batch, patches))
    if gram is not None:
        mixed = _with_weighed_keys(mixed, gram)
    absent = -patches % ALIGNED
    heads = pad(mixed.permute(4, 1, 5, 2, 0, 3, 6), (0, 0, 0, 0, 0, 0, 0, absent))
    query, key, value = heads.flatten(1, 2).flatten(3).unbind(0)
    average = torch.bmm(_softmax(query, key, volume, patches), value)
    average = average.unflatten(0, (batch, -1)).unflatten(-1, (count, -1))[:, :, :patches]
    merged = average.permute(0, 2, 3, 1, 4).flatten(-2) @ attention.merge.weight.T.to(torch.float16)
    layout = (synthesis.shape[0], patches, patches, channels)
    shift, coefficients = v.new_empty(0), merged.flatten(0, 1)
    parameters = _parameters(layer, merge=False)
    if end.readout is not None:
        return _read(v, wide_product(synthesis, coefficients), shift, parameters, layout, end.readout)
    return _Block.apply(v, synthesis, coefficients, shift, *parameters, layout, end.is_halved)


def _with_weighed_keys(mixed: Tensor, gram: Tensor) -> Tensor:
    """Keys whose dot products with queries are those of functions: (groups, batch, P, group, 3, heads, d_k)."""
    query, key, value = mixed.unbind(4)
    rows = key.transpose(2, 3).transpose(1, 2)
    weighed = (gram @ rows.flatten(0, 1).flatten(1)).view(rows.shape)
    return torch.stack([query, weighed.transpose(1, 2).transpose(2, 3), value], 4)


def _heads(attention: Any, v_half: Tensor, layout: tuple[int, int, int, int]) -> tuple[Tensor, Tensor]:
    """Query, key and value (3, batch, heads, slots, points, d_k), and what was taken away from the values."""
    parts = (attention.query, attention.key, attention.value)
    weights, biases = torch.stack([p.weight for p in parts]), torch.stack([p.bias for p in parts])
    with torch.no_grad():
        # An average of a constant is that constant, so any vector will do; near the mean, little is left to round.
        flat = v_half.flatten(1, -2)
        mean = flat[:, :: max(1, flat.shape[1] // SOME)].float().mean(1)
        shift = torch.addmm(attention.value.bias, mean, attention.value.weight.T)
    return project_heads(v_half, weights, biases, shift, *layout), shift


def _average_points(
    query: Tensor, key: Tensor, value: Tensor, log_weights: Tensor | NearlyEqual | None, scale: float
) -> Tensor:
    """`attend` with an output in half precision: (batch, heads, n, d_k) each."""
    if isinstance(log_weights, NearlyEqual):
        return attend_nearly_equal(query, key, value, log_weights, scale, wide=False)
    if has_small_heads(query, value, log_weights, scale):
        return average_points(query, key, value, log_weights, scale)
    if log_weights is None:
        return scaled_dot_product_attention(query, key, value, scale=scale).contiguous()
    width = value.shape[-1]
    logarithms = log_weights if log_weights.ndim == 1 else log_weights.unsqueeze(1)
    query, key = with_bias(query * scale, key, logarithms)
    query, key = (pad(t, (0, -t.shape[-1] % ALIGNED)) for t in (query, key))
    value = pad(value, (0, query.shape[-1] - width))
    return scaled_dot_product_attention(query, key, value, scale=1.0)[..., :width].contiguous()


def _softmax(query: Tensor, key: Tensor, scale: float, patches: int) -> Tensor:
    """The shares of the patches (batch heads, slots, slots), none for slots that are not patches."""
    scores = torch.baddbmm(query.new_zeros(()), query, key.transpose(1, 2), beta=0, alpha=scale).float()
    if scores.shape[-1] > patches:
        absent = torch.arange(scores.shape[-1], device=scores.device) >= patches
        scores = scores.masked_fill(absent, -torch.inf)
    return torch.softmax(scores, -1).to(query.dtype)


def _read(
    v: Tensor, a: Tensor, shift: Tensor, parameters: Parameters, layout: tuple[int, int, int, int], readout: Tensor
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


def synthesise(entries: Tensor, modes: ModeTables, transform: TensorTransform, patches: int) -> Tensor:
    """Functions on patches (batch, P, *points, c) in float32 from their coefficients (E, batch P, c)."""
    _, synthesis = _tables(modes, transform)
    first = entries[:1]
    if modes.n_single < modes.count:
        first = torch.cat([first, torch.zeros_like(first)])
    padded = pad(torch.cat([first, entries[1:]]), (0, 0, 0, 0, 0, synthesis.shape[1] - len(entries) - len(first) + 1))
    v = _WideProduct.apply(_in_two_parts(synthesis), padded.transpose(0, 1).to(torch.float16))
    points = tuple(matrix.shape[1] for matrix in transform.synthesis)
    return v.unflatten(0, (-1, patches)).unflatten(2, points)


class _WideProduct(torch.autograd.Function):
    """`wide_product` of a constant matrix and a function's coefficients."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left[:, : right.shape[1]])
        return wide_product(left, right)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        (left,) = ctx.saved_tensors
        return None, torch.matmul(left.transpose(-1, -2), gradient.to(left.dtype))


class _Block(torch.autograd.Function):
    """`block_forward` with the averages ``left``, or with the function left @ right, whose ``left`` is constant."""

    @staticmethod
    def forward(
        ctx: Any, v: Tensor, left: Tensor, right: Tensor | None, shift: Tensor, inner: Tensor, outer: Tensor,
        merge: Tensor, vectors: Tensor, epsilon_1: float, epsilon_2: float, layout: tuple[int, int, int, int],
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
    """`block_forward` with the average of `patched_average`."""

    @staticmethod
    def forward(
        ctx: Any, v: Tensor, heads: Tensor, shift: Tensor, inner: Tensor, outer: Tensor, merge: Tensor, vectors: Tensor,
        epsilon_1: float, epsilon_2: float, layout: tuple[int, int, int, int], halved: bool, weights: Tensor,
        scale: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        share, a = patched_average(heads, weights, scale, layout[1])
        ctx.save_for_backward(heads, share, weights, v, a, shift, inner, outer, merge, vectors)
        ctx.numbers, ctx.scale = (epsilon_1, epsilon_2, *layout), scale
        return block_forward(v, a, shift, inner, outer, merge, vectors, *ctx.numbers, halved)

    @staticmethod
    def backward(ctx: Any, dz: Tensor, dz_half: Tensor) -> tuple[Tensor | None, ...]:
        heads, share, weights, *saved = ctx.saved_tensors
        dx, da, *rest = block_backward(dz.contiguous(), dz_half.contiguous(), *saved, *ctx.numbers)
        d_heads = patched_average_backward(da, heads, share, weights, ctx.scale)
        return dx, d_heads, None, *rest, *[None] * 6


def wide_product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right in float32 of half-precision matrices, (m, 2 k) in two parts, high and low, and (batch, k, n)."""
    left, right = left.expand(right.shape[0], -1, -1), torch.cat([right, right], 1)
    if right.device.type != "cuda":
        return torch.bmm(left.float(), right.float())
    return torch.bmm(left, right, out_dtype=torch.float32)


def _in_two_parts(matrix: Tensor) -> Tensor:
    """[high, low] in half precision, high + low with 22 bits."""
    high = matrix.to(torch.float16)
    return torch.cat([high, (matrix - high.to(matrix.dtype)).to(torch.float16)], 1)


def _tables(modes: ModeTables, transform: TensorTransform) -> tuple[Tensor, Tensor]:
    """Analysis (E, M) and synthesis (M, E) of the functions of a basis, padded with zeros to an aligned number.

    The constant, which has no sine, gets one that is zero, so that all functions come in pairs where any does.
    """
    there, back = transform.analysis[0][0], transform.synthesis[0][0]
    for analysis, synthesis in zip(transform.analysis[1:], transform.synthesis[1:], strict=True):
        there, back = torch.kron(there, analysis[0]), torch.kron(back, synthesis[0])
    return _gathered(modes, there), _gathered(modes, back.T).T


def _gram(modes: ModeTables, transform: TensorTransform) -> Tensor | None:
    """The inner products (E, E) of the functions of a basis in half precision; none of an orthonormal one."""
    if transform.gram is None:
        return None
    products = transform.gram[0][0]
    for gram in transform.gram[1:]:
        products = torch.kron(products, gram[0])
    return _gathered(modes, _gathered(modes, products).T).to(torch.float16)


def _gathered(modes: ModeTables, rows: Tensor) -> Tensor:
    """Rows for the functions (E) from those for products of functions of one variable, by sums: TF32 rounds none."""
    rows = modes.gather(rows.unsqueeze(0)).squeeze(1)
    if modes.n_single < modes.count:
        rows = torch.cat([rows[:1], torch.zeros_like(rows[:1]), rows[1:]])
    return pad(rows, (0, 0, 0, -len(rows) % ALIGNED))


def _grouped_weights(mixing: SpectralMixing, count: int) -> tuple[int, Tensor]:
    """1 or 2, the functions that mix with each other, and (groups, group c, group 3 c), in half precision."""
    weight = mixing.weight.to(torch.float16)
    if mixing.n_single == len(weight):
        return 1, pad(weight, (0, 0, 0, 0, 0, count - len(weight)))
    first = torch.cat([weight[:1], torch.zeros_like(weight[:1])])
    real, imaginary = torch.cat([first, weight[1:]]).unflatten(0, (-1, 2)).unbind(1)
    # (c, s) -> (c a + s b, s a - c b), as in SpectralMixing.
    grouped = torch.cat([torch.cat([real, -imaginary], 2), torch.cat([imaginary, real], 2)], 1)
    return 2, pad(grouped, (0, 0, 0, 0, 0, count // 2 - len(grouped)))


def takes(attention: Any, measure: Any) -> bool:
    """Whether there is a layer for this attention on this kind of grid."""
    if isinstance(attention, FourierAttention):
        return isinstance(measure.transform, TensorTransform) and measure.transform.is_shared
    if isinstance(attention, MultiHeadAttention):
        return measure is None or isinstance(measure, Tensor | NearlyEqual)
    return isinstance(attention, PatchedAttention)
