"""Products that TF32 must not round: where a function is read point by point, its rounding is noise to the H1 norm."""

from __future__ import annotations

import torch
from torch import Tensor

_LOW_BITS = 2**13 - 1  # of float32's 23, those that TF32 does not have


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
    columns = torch.cat([left_high, left_low, left_high], -1)
    return torch.matmul(columns, torch.cat([right_high, right_high, right_low], -2))


def _parts(t: Tensor) -> tuple[Tensor, Tensor]:
    high = (t.detach().contiguous().view(torch.int32) & ~_LOW_BITS).view(torch.float32)
    return high, t - high
