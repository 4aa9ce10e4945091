"""Operators for training as torch's compiler makes them, with what it gets wrong switched off."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# Rows padded in memory are read as if they were not: gradients of a FANO on 85 x 85 nodes were whatever the memory held,
# at times not finite. In torch 2.11, by its maintainers mended since (pytorch/pytorch#194281).
_WRONG = "comprehensive_padding"


def compiled(operator: nn.Module, dynamic: bool | None = None) -> Any:
    """The operator compiled, forward and backward; whatever was compiled before is forgotten."""
    torch.compiler.reset()  # operators share `forward`, of which the compiler keeps eight forms a process
    options = {_WRONG: False} if _WRONG in torch._inductor.list_options() else None
    return torch.compile(operator, dynamic=dynamic, options=options)
