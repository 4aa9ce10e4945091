"""The encoder E_L and the operator G = T_out o E_L o T_in (Section 4.1, equation transformer_operator_compact)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from operformer.domain.products import are_rounded
from operformer.kernels import HAS_TRITON
from operformer.operators.backends import Backend, compute
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
    if not isinstance(head, PointwiseHead):
        return head(join(encode(layers, v, measure)), x)
    is_inside = (
        head.linear.out_features <= MOST_READ and not torch.is_grad_enabled() and is_fused(Encoding(layers, v, measure))
    )
    v = encode(layers, v, measure, head.linear if is_inside else None)
    return join(v if is_inside else head(v, x))


def summaries(layers: nn.ModuleList, v: Tensor, measure: Any) -> tuple[list[Tensor], Tensor]:
    """What each layer's attention computes by integrals over D, which is all that other points need; and E_L v."""
    found = []
    for layer in layers:
        found.append(layer.attention.summary(v, measure))  # type: ignore[union-attr, operator]
        v = layer.updated(v, layer.attention.read(found[-1], v, measure))  # type: ignore[union-attr, operator]
    return found, v


def follow(layers: nn.ModuleList, found: list[Tensor], v: Tensor, measure: Any) -> Tensor:
    """E_L at other points than those that the ``found`` summaries come from: v there goes through the same layers."""
    for layer, summary in zip(layers, found, strict=True):
        v = layer.updated(v, layer.attention.read(summary, v, measure))  # type: ignore[union-attr, operator]
    return v


def encode(layers: nn.ModuleList, v: Tensor, measure: Any, readout: nn.Linear | None = None) -> Tensor:
    """E_L: the layers one after the other, by the first backend that applies."""
    return compute(ENCODERS, Encoding(layers, v, measure, readout))


@dataclass(frozen=True, eq=False)
class Encoding:
    """E_L as it was asked for, read by W_out if there is a ``readout``, which fused layers alone can have inside."""

    layers: nn.ModuleList
    v: Tensor
    measure: Any
    readout: nn.Linear | None = None


def is_fused(call: Encoding) -> bool:
    """Fused kernels (fused_layers.py): half precision inside attention and TF32 products allowed, on a GPU."""
    if not can_fuse(call.layers, call.v):
        return False
    from operformer.operators import fused_layers

    return fused_layers.takes(call.layers[0].attention, call.measure)


def _fused(call: Encoding) -> Tensor:
    from operformer.operators import fused_layers

    return fused_layers.encode(list(call.layers), call.v, call.measure, call.readout)  # type: ignore[arg-type]


def _one_by_one(call: Encoding) -> Tensor:
    v = call.v
    for layer in call.layers:
        v = layer(v, call.measure)
    return v


def _always(call: Encoding) -> bool:
    return True


ENCODERS: tuple[Backend[Encoding], ...] = (
    Backend("fused layers", is_fused, _fused),
    Backend("layer by layer", _always, _one_by_one),
)


def can_fuse(layers: nn.ModuleList, v: Tensor) -> bool:
    """Whether averages in float16 and products in TF32 are allowed, and kernels for the layers' width are there."""
    layer = layers[0]
    return (
        are_rounded(v)
        and getattr(layer.attention, "average_dtype", None) == torch.float16
        and type(layer) is EncoderLayer
        and isinstance(layer.skip_1, nn.Identity)
        and v.shape[-1] in FUSED_WIDTHS
        and HAS_TRITON
    )
