"""Operators as torch's compiler makes them, with what it gets wrong switched off."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# On a GPU torch 2.11 pads rows in memory and reads some as if it had not: gradients of a FANO on 85 x 85 nodes were
# whatever the memory held. Its maintainers call that mended since August 2026 (pytorch/pytorch#194281).
_PADDING = "comprehensive_padding"


def compiled(operator: nn.Module, dynamic: bool | None = None) -> Any:
    """torch.compile(operator), without rows padded in memory."""
    options: dict[str, Any] | None = {_PADDING: False} if _PADDING in torch._inductor.list_options() else None
    return torch.compile(operator, dynamic=dynamic, options=options)
