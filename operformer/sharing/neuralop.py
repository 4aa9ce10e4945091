"""Beside neuraloperator: operators in its Trainer, and its models among ours.

Its Trainer calls model(x=..., y=...) on tensors alone and takes uniform grids for granted; ours are called with (u,
grid). Nothing here imports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.grid import UNIFORM_KINDS, UniformKind
from operformer.errors import UsageError
from operformer.operators.operator import Operator


def as_neuralop(operator: Operator, kind: UniformKind | Grid = "nodes") -> AsNeuralop:
    """The operator as a model of neuraloperator, for its Trainer, losses and data processors.

    ``kind`` says where the values of its tensors lie, which they do not: "nodes", as in `operator(u)`, "cells",
    "periodic" or "left". A `Grid` says it exactly, for tensors of its shape alone.
    The weights are the operator's own: once trained, it is saved and used as ever. Where a data processor normalises,
    call `carry_normalizers` after the training.
    """
    if not isinstance(kind, Grid) and kind not in UNIFORM_KINDS:
        raise UsageError(f"kind must be a Grid or one of {', '.join(UNIFORM_KINDS)}: got {kind!r}")
    return AsNeuralop(operator, kind)


class AsNeuralop(nn.Module):
    """z = model(x), x (batch, in_channels, *shape) on a uniform grid of the operator's domain, or on one grid."""

    def __init__(self, operator: Operator, kind: UniformKind | Grid) -> None:
        super().__init__()
        self.operator, self.kind = operator, kind

    def forward(self, x: Tensor, **rest: Any) -> Tensor:
        """The operator's output; the rest of a batch, such as y, is for the loss."""
        kind = self.kind
        grid = kind if isinstance(kind, Grid) else Grid.uniform(tuple(x.shape[2:]), self.operator.bounds, kind)
        return self.operator(x, grid.to(x.device))

    def save_checkpoint(self, save_folder: str | Path, save_name: str) -> None:
        """The weights where, and as, neuraloperator's Trainer looks for them when it goes on."""
        Path(save_folder).mkdir(parents=True, exist_ok=True)
        torch.save(self.state_dict(), Path(save_folder) / f"{save_name}_state_dict.pt")


@torch.no_grad()
def carry_normalizers(operator: Operator, processor: Any) -> None:
    """Make an operator that was trained behind a data processor take and give physical units by itself.

    (u - m) / s before and s' z + m' after it go into its own normalisation; the processor is then no longer needed.
    Call it once.
    """
    if operator.adds_input:
        raise UsageError(
            "an Increment adds its input in the processor's units: train the operator inside without the wrapper"
        )
    (mean, scale), (out_mean, out_scale) = (
        _normalisation(getattr(processor, name, None), getattr(operator, channels), name)
        for name, channels in (("in_normalizer", "in_channels"), ("out_normalizer", "out_channels"))
    )
    operator.input_mean.copy_(mean.to(operator.input_mean) + scale.to(operator.input_mean) * operator.input_mean)
    operator.input_scale.mul_(scale.to(operator.input_scale))
    operator.output_mean.mul_(out_scale.to(operator.output_mean)).add_(out_mean.to(operator.output_mean))
    operator.output_scale.mul_(out_scale.to(operator.output_scale))


def _normalisation(normalizer: Any, channels: int, name: str) -> tuple[Tensor, Tensor]:
    """Mean and scale of each channel; those of each point belong to one grid, and an operator to none."""
    if normalizer is None:
        return torch.zeros(channels), torch.ones(channels)
    mean, scale = normalizer.mean, normalizer.std + normalizer.eps
    for values in (mean, scale):
        by_channel = values.ndim <= 1 or values.numel() == max(values.shape[:2])
        if values.numel() not in (1, channels) or not by_channel:
            raise UsageError(
                f"{name} has shape {tuple(values.shape)}, numbers for each point of one grid, and an operator has one "
                f"for each of {channels} channels; fit it with dim=[0, 2, 3]"
            )
    return mean.flatten().expand(channels), scale.flatten().expand(channels)


class UniformOnly(nn.Module):
    """A module z = f(u) of another library, such as neuraloperator's, as `operator(u, grid)` on uniform grids.

    So it can be evaluated (`operformer.evaluation.errors`) and certified (`operformer.evaluation.certificate`).
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, u: Tensor, grid: Grid) -> Tensor:
        """f(u), if the grid is uniform."""
        if not grid.is_uniform:
            raise UsageError(f"{type(self.module).__name__} knows uniform grids only: got {grid}")
        return self.module(u)
