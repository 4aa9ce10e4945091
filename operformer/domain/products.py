"""Products that TF32 must not round: where a function is read point by point, its rounding is noise to the H1 norm."""

from __future__ import annotations

import torch
from torch import Tensor

_LOW_BITS = 2**13 - 1  # of float32's 23, those that TF32 does not have
ALIGNED = 4


def are_rounded(t: Tensor) -> bool:
    """Whether matrix products of such a tensor are rounded to TF32."""
    is_float32_on_gpu = t.device.type == "cuda" and t.dtype == torch.float32
    return is_float32_on_gpu and torch.backends.cuda.matmul.allow_tf32


def exact_matmul(left: Tensor, right: Tensor) -> Tensor:
    """left @ right as in float32, by one product in TF32 three times as long where that is on; gradients are rounded.

    x = high + low, high of which TF32 holds: of four products the last, about 2^-20 of the result, is left out, and the
    others have one sum, so the result is stored once. Gradients reach x through low.
    """
    if not are_rounded(right):
        return torch.matmul(left, right)
    (left_high, left_low), (right_high, right_low) = _parts(left), _parts(right)
    gap = -3 * left.shape[-1] % ALIGNED  # zeros, for rows that begin where a GPU likes them to
    columns = torch.cat([left_high, left_low, left_high, left.new_zeros(*left.shape[:-1], gap)], -1)
    nothing = right.new_zeros(*right.shape[:-2], gap, right.shape[-1])
    return each_product(columns, torch.cat([right_high, right_high, right_low, nothing], -2))


def each_product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right; one matrix stands before every matrix of the right as it is.

    torch.matmul would transpose what is on the right, all of it, where it has a gradient.
    """
    if left.ndim > 2 or right.ndim < 3:
        return torch.matmul(left, right)
    batch = right.shape[:-2]
    flat = right.flatten(0, -3)
    return torch.bmm(left.expand(flat.shape[0], -1, -1), flat).reshape(*batch, left.shape[0], right.shape[-1])


def _parts(t: Tensor) -> tuple[Tensor, Tensor]:
    high = (t.detach().contiguous().view(torch.int32) & ~_LOW_BITS).view(torch.float32)
    return high, t - high
