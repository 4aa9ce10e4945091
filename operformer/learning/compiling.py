"""Operators for training as torch's compiler makes them, with what it gets wrong switched off."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# From torch 2.10 on (and still in 2.13) sums over all points, such as gradients of LayerNorm's weights, read past the
# last one where their number is no multiple of a block's: garbage, at times not finite (pytorch/pytorch#196168).
_WRONG = "triton.mix_order_reduction"


def compiled(operator: nn.Module, dynamic: bool | None = None) -> Any:
    """The operator compiled, forward and backward; whatever was compiled before is forgotten."""
    torch.compiler.reset()  # operators share `forward`, of which the compiler keeps eight forms a process
    options = {_WRONG: False} if _WRONG in torch._inductor.list_options() else None
    return torch.compile(operator, dynamic=dynamic, options=options)
