"""Beside neuraloperator: operators in its Trainer, and its models among ours.

Its Trainer calls model(x=..., y=...) on tensors alone and takes uniform grids for granted; ours are called with (u,
grid). Nothing here imports it.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.grid import UNIFORM_KINDS, UniformKind
from operformer.errors import DataError, UsageError
from operformer.operators.operator import Operator
from operformer.operators.pretrained import make_operator


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
        self._asks = operator.is_zero_at_boundary  # of the first batch of a training

    def forward(self, x: Tensor, **rest: Any) -> Tensor:
        """The operator's output; the rest of a batch, such as y, is for the loss."""
        kind = self.kind
        grid = kind if isinstance(kind, Grid) else Grid.uniform(tuple(x.shape[2:]), self.operator.bounds, kind)
        if self._asks and self.training and isinstance(rest.get("y"), Tensor):
            _check_zero_at_boundary(rest["y"], grid)
            self._asks = False
        return self.operator(x, grid.to(x.device))

    def save_checkpoint(self, save_folder: str | Path, save_name: str) -> None:
        """The weights and what the operator is, where neuraloperator's Trainer looks for them when it goes on."""
        weights, described = _checkpoint(save_folder, save_name)
        weights.parent.mkdir(parents=True, exist_ok=True)
        torch.save(self.state_dict(), weights)
        kind = self.kind if isinstance(self.kind, str) else {f.name: getattr(self.kind, f.name) for f in fields(Grid)}
        torch.save({**self.operator.description, "kind": kind}, described)

    @classmethod
    def from_checkpoint(
        cls, save_folder: str | Path, save_name: str, map_location: torch.device | str | None = None
    ) -> AsNeuralop:
        """The model that `save_checkpoint` wrote, as neuraloperator's models are read; nothing in the files can run.

        Args:
            save_folder: the folder of the checkpoint.
            save_name: its name, "model" in the folders of neuraloperator's Trainer.
            map_location: the device of the weights; the CPU if not given.
        """
        weights, described = (_read(path, map_location or "cpu") for path in _checkpoint(save_folder, save_name))
        settings = {**described["settings"], "name": described["operator"], "wrappers": described["wrappers"]}
        kind: Any = described["kind"] if isinstance(described["kind"], str) else Grid(**described["kind"])
        model = cls(make_operator(settings, "settings"), kind)
        model.to(next(iter(weights.values())))
        model.load_state_dict(weights)
        return model


def _checkpoint(folder: str | Path, name: str) -> tuple[Path, Path]:
    """Where neuraloperator has the weights of a model, and its settings."""
    return Path(folder) / f"{name}_state_dict.pt", Path(folder) / f"{name}_metadata.pkl"


def _read(path: Path, device: torch.device | str) -> dict[str, Any]:
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; give the folder that save_checkpoint wrote") from None
    except (UnpicklingError, RuntimeError, EOFError) as error:
        raise DataError(f"{path} is no checkpoint of as_neuralop ({str(error).splitlines()[0]})") from None


def _check_zero_at_boundary(y: Tensor, grid: Grid) -> None:
    """Refuse outputs that an output normaliser has moved away from zero, which such an operator cannot learn."""
    if grid.axes is None or tuple(y.shape[2:]) != grid.shape:
        return
    on_boundary = torch.ones(grid.shape, dtype=torch.bool, device=y.device)
    on_boundary[(slice(1, -1),) * grid.dim] = False
    away = y[..., on_boundary].mean((0, -1)).abs()
    if bool((away > y.flatten(2).square().mean((0, -1)).sqrt() / 2).any()):
        raise UsageError(f"the outputs are {float(away.max()):.2g} at the boundary, and {_ZERO}")


_ZERO = "this operator's are zero there; train it without an output normalizer, or with one of mean 0"


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
    if operator.is_zero_at_boundary and bool((out_mean != 0).any()):
        raise UsageError(f"the output normalizer adds a mean, and {_ZERO}")
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
