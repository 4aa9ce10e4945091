"""Precision by place: averages tolerate half precision, what is kept point by point does not.

The H1 loss differentiates rounding: a Darcy solution rounded to bfloat16 is off by 25 % in relative H1 at 416 x 416. So
there is no blanket autocast; query, key and value are rounded inside the average, everything else stays as it is.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from operformer.errors import UsageError

Module = TypeVar("Module", bound=nn.Module)


def set_precision(operator: Module, averages: torch.dtype | None) -> Module:
    """Round query, key and value to ``averages`` inside every attention of the operator; None undoes it.

    Every module with an ``average_dtype`` is meant. On a GPU float16, with products in TF32 allowed, also chooses fused
    layers (`composition.can_fuse`); elsewhere values are rounded and averaged in float32.
    """
    if averages not in (None, torch.float16, torch.bfloat16):
        raise UsageError(f"averages must be None, torch.float16 or torch.bfloat16: got {averages}")
    for module in operator.modules():
        if hasattr(module, "average_dtype"):
            module.average_dtype = averages  # type: ignore[assignment]  # a plain attribute, which nn.Module hides
    return operator
