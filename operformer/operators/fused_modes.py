"""The functions of a patched operator's basis as matrices for fused layers, in half precision or in two parts of it."""

from __future__ import annotations

from math import prod
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.nn.functional import pad

from operformer.domain.blending import AnyTransform, BlendedTransform
from operformer.domain.transform import Transform
from operformer.operators.integral import Mixing, ModeTables, mixed_pairs

ALIGNED = 8  # tensor cores want sizes in half precision to be multiples of this
LARGEST = 2**30  # functions times points of a patch; axis by axis a larger patch has far less to multiply, and to keep


def has_tables(transform: AnyTransform) -> TypeGuard[Transform]:
    """Whether all patches have the same functions and points, and not too many of them for `tables`."""
    if not isinstance(transform, Transform) or not transform.is_shared:
        return False
    return prod([matrix[0].numel() for matrix in transform.analysis]) <= LARGEST


def is_blended(transform: AnyTransform) -> TypeGuard[BlendedTransform]:
    """Whether patches overlap, on a tensor product, with a basis that is orthonormal on each of them."""
    return isinstance(transform, BlendedTransform) and transform.gram is None


def lifted(entries: Tensor, mixing: Mixing, modes: ModeTables, transform: Transform, patches: int) -> Tensor:
    """`FourierIntegralOperator` from a function's coefficients (E, batch P, c) on: (batch, P, *points, c), float32.

    The constant comes as a pair, like all other functions, so that nothing is put together afterwards.
    """
    _, synthesis = tables(modes, transform)
    weight = mixing.matrices()
    if modes.n_single < modes.count:
        entries, weight = (torch.cat([t[:1], torch.zeros_like(t[:1]), t[1:]]) for t in (entries, weight))
        mixed = mixed_pairs(entries, weight)
    else:
        mixed = torch.bmm(entries, weight)
    mixed = pad(mixed, (0, 0, 0, 0, 0, synthesis.shape[1] - len(mixed)))
    v = _WideProduct.apply(in_two_parts(synthesis), mixed.transpose(0, 1).to(torch.float16))
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


def wide_product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right in float32 of half-precision matrices, (m, 2 k) in two parts, high and low, and (batch, k, n)."""
    left, right = left.expand(right.shape[0], -1, -1), torch.cat([right, right], 1)
    if right.device.type != "cuda":
        return torch.bmm(left.float(), right.float())
    return torch.bmm(left, right, out_dtype=torch.float32)


def in_two_parts(matrix: Tensor) -> Tensor:
    """[high, low] in half precision, high + low with 22 bits."""
    high = matrix.to(torch.float16)
    return torch.cat([high, (matrix - high.to(matrix.dtype)).to(torch.float16)], 1)


def tables(modes: ModeTables, transform: Transform) -> tuple[Tensor, Tensor]:
    """Analysis (E, M) and synthesis (M, E) of the functions of a basis, padded with zeros to an aligned number.

    The constant, which has no sine, gets one that is zero, so that all functions come in pairs where any does.
    """
    there, back = transform.analysis[0][0], transform.synthesis[0][0]
    for analysis, synthesis in zip(transform.analysis[1:], transform.synthesis[1:], strict=True):
        there, back = torch.kron(there, analysis[0]), torch.kron(back, synthesis[0])
    return _gathered(modes, there), _gathered(modes, back.T).T


def products(modes: ModeTables, transform: Transform) -> Tensor | None:
    """The inner products (E, E) of the functions of a basis in half precision; none of an orthonormal one."""
    if transform.gram is None:
        return None
    found = transform.gram[0][0]
    for gram in transform.gram[1:]:
        found = torch.kron(found, gram[0])
    return _gathered(modes, _gathered(modes, found).T).to(torch.float16)


def _gathered(modes: ModeTables, rows: Tensor) -> Tensor:
    """Rows for the functions (E) from those for products of functions of one variable, by sums: TF32 rounds none."""
    return aligned(modes, modes.gather(rows.unsqueeze(0)).squeeze(1))


def aligned(modes: ModeTables, entries: Tensor) -> Tensor:
    """(E, ...) with a sine of the constant, which is zero, where functions come in pairs, and zeros at the end."""
    if modes.n_single < modes.count:
        entries = torch.cat([entries[:1], torch.zeros_like(entries[:1]), entries[1:]])
    return pad(entries, (*[0] * (2 * entries.ndim - 1), -len(entries) % ALIGNED))


def unaligned(modes: ModeTables, entries: Tensor) -> Tensor:
    """The functions (E, ...) alone."""
    if modes.n_single < modes.count:
        entries = torch.cat([entries[:1], entries[2:]])
    return entries[: modes.count]


def grouped_weights(mixing: Mixing, count: int) -> tuple[int, Tensor]:
    """1 or 2, the functions that mix with each other, and (groups, group c, group 3 c), in half precision."""
    weight = mixing.matrices().to(torch.float16)
    if mixing.n_single == len(weight):
        return 1, pad(weight, (0, 0, 0, 0, 0, count - len(weight)))
    first = torch.cat([weight[:1], torch.zeros_like(weight[:1])])
    real, imaginary = torch.cat([first, weight[1:]]).unflatten(0, (-1, 2)).unbind(1)
    # (c, s) -> (c a + s b, s a - c b), as in Mixing.
    grouped = torch.cat([torch.cat([real, -imaginary], 2), torch.cat([imaginary, real], 2)], 1)
    return 2, pad(grouped, (0, 0, 0, 0, 0, count // 2 - len(grouped)))
