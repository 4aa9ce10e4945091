"""Which optimizer moves which parameter: AdamW all of them, or Muon the matrices inside the layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from operformer.training.muon import Muon

OptimizerName = Literal["adamw", "muon"]
# What each rule keeps for a parameter.
MOMENTS: dict[type[Optimizer], set[str]] = {AdamW: {"step", "exp_avg", "exp_avg_sq"}, Muon: {"momentum_buffer"}}


def make_optimizer(name: OptimizerName, operator: nn.Module, learning_rate: float, weight_decay: float) -> Optimizer:
    """The optimizer of that name for the operator's parameters.

    Muon takes the square and rectangular weights inside the layers, and the few matrices of isotropic kernels; the
    lift, the head, biases, norms and a matrix for each mode stay with AdamW at the same rate.
    """
    if name == "adamw":
        return _adamw(list(operator.parameters()), learning_rate, weight_decay)
    named = dict(operator.named_parameters())
    matrices = {
        key for key, parameter in named.items() if "layers." in key and (parameter.ndim == 2 or key.endswith(".radial"))
    }
    return Together(
        Muon([named[key] for key in named if key in matrices], learning_rate, weight_decay),
        _adamw([named[key] for key in named if key not in matrices], learning_rate, weight_decay),
    )


class Together(Optimizer):
    """Several optimizers, each with parameters of its own, as one."""

    def __init__(self, *parts: Optimizer) -> None:
        # The groups are those of the parts themselves, so a rate that is set here is set there.
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update by each part."""
        for part in self.parts:
            part.step(closure)

    def state_dict(self) -> dict[str, Any]:
        """The states of the parts."""
        return {"parts": [part.state_dict() for part in self.parts]}


def parts_of(optimizer: Optimizer) -> tuple[Optimizer, ...]:
    """The optimizers that an optimizer is made of."""
    return optimizer.parts if isinstance(optimizer, Together) else (optimizer,)


def can_step_unless(optimizer: Optimizer) -> bool:
    """Whether `step_unless` is possible: for Muon, and for AdamW's fused form, which a GPU has."""
    fused = (
        isinstance(part, AdamW) and all(group.get("fused") for group in part.param_groups)
        for part in parts_of(optimizer)
        if not isinstance(part, Muon)
    )
    return all(fused)


def step_unless(optimizer: Optimizer, is_bad: Tensor) -> None:
    """A step that changes nothing where ``is_bad``, one number on the device, is not zero; nobody waits to know it."""
    for part in parts_of(optimizer):
        part.found_inf = is_bad.float()  # type: ignore[attr-defined]
    try:
        optimizer.step()
    finally:
        for part in parts_of(optimizer):
            part.found_inf = None  # type: ignore[attr-defined]


def _adamw(parameters: list[nn.Parameter], learning_rate: float, weight_decay: float) -> AdamW:
    # None leaves the choice on a CPU to torch, as a plain loop would.
    fused = True if parameters[0].device.type == "cuda" else None
    return AdamW(parameters, learning_rate, weight_decay=weight_decay, fused=fused)


def step_device(group: dict[str, Any], parameter: Tensor) -> torch.device:
    """Where AdamW keeps its count of steps."""
    return parameter.device if group.get("fused") or group.get("capturable") else torch.device("cpu")
