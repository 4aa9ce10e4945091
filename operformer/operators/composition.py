"""The encoder E_L and the operator G = T_out o E_L o T_in (Section 4.1, equation transformer_operator_compact)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from operformer.domain.products import are_rounded
from operformer.kernels import HAS_TRITON
from operformer.operators.encoder import EncoderLayer, PointwiseHead

FUSED_WIDTHS = (32, 64, 128)
MOST_READ = 4  # channels of an output that are read one by one inside a kernel


def _same(v: Tensor) -> Tensor:
    return v


class Composition(nn.Module):
    """G = T_out o E_L o T_in (equation transformer_operator_compact).

    ``lift`` maps (u, x) to v, ``head`` maps (v, x) to z, both at each point by itself.
    """

    def __init__(self, lift: nn.Module, layers: Sequence[EncoderLayer], head: nn.Module) -> None:
        super().__init__()
        self.lift = lift
        self.layers = nn.ModuleList(layers)
        self.head = head

    def forward(self, u: Tensor, x: Tensor, measure: Any, query: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """z on the points x of u (batch, n, in_channels), or on those of ``query`` = (the input there, its points).

        Self-attention is cross-attention of a function with itself, so the layers that act on the points of u also act
        on any other points, which attend to those of u (Definition 8): the same function, read elsewhere.
        """
        v = self.lift(u, x)
        if query is None:
            return read(self.head, self.layers, v, measure, x)
        elsewhere = self.lift(*query)
        for depth, layer in enumerate(self.layers):
            elsewhere = layer(elsewhere, measure, v)
            if depth + 1 < len(self.layers):
                v = layer(v, measure)
        return self.head(elsewhere, query[1])


def read(
    head: nn.Module, layers: nn.ModuleList, v: Tensor, measure: Any, x: Tensor, join: Callable[[Tensor], Tensor] = _same
) -> Tensor:
    """T_out E_L v, where ``join`` makes functions on D of those on patches: means, at points that several of them have.

    W_out alone is applied before that, to one function after the other; without gradients inside the kernel of the last
    layer, whose output is then never stored.
    """
    if not (isinstance(head, PointwiseHead) and head.is_linear):
        return head(join(encode(layers, v, measure)), x)
    is_inside = head.linear.out_features <= MOST_READ and not torch.is_grad_enabled() and _are_fused(layers, v, measure)
    v = encode(layers, v, measure, head.linear if is_inside else None)
    return join(v if is_inside else head(v, x))


def encode(layers: nn.ModuleList, v: Tensor, measure: Any, readout: nn.Linear | None = None) -> Tensor:
    """E_L: the layers one after the other, on a GPU by fused kernels where these apply (fused_layers.py)."""
    if _are_fused(layers, v, measure):
        from operformer.operators import fused_layers

        return fused_layers.encode(list(layers), v, measure, readout)  # type: ignore[arg-type]
    for layer in layers:
        v = layer(v, measure)
    return v


def _are_fused(layers: nn.ModuleList, v: Tensor, measure: Any) -> bool:
    if not can_fuse(layers, v):
        return False
    from operformer.operators import fused_layers

    return fused_layers.takes(layers[0].attention, measure)


def can_fuse(layers: nn.ModuleList, v: Tensor) -> bool:
    """Whether averages in float16 and products in TF32 are allowed, and kernels for the layers' width are there."""
    layer = layers[0]
    return (
        are_rounded(v)
        and getattr(layer.attention, "average_dtype", None) == torch.float16
        and layer.norm == "after"
        and isinstance(layer.skip_1, nn.Identity)
        and v.shape[-1] in FUSED_WIDTHS
        and HAS_TRITON
    )
