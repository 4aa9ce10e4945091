"""Optimizers: AdamW, Muon for the matrices inside the layers, and averaged weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import sqrt
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

OptimizerName = Literal["adamw", "muon"]


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


MOMENTUM = 0.95
# Jordan's polynomial a s + b s^3 + c s^5, five times: singular values of (0, 1] come to between 0.7 and 1.2.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


class Muon(Optimizer):
    """For parameters (..., m, n), each of whose matrices counts by itself.

    ``found_inf`` is what torch's fused optimizers have: where it is 1 on the device, a step changes nothing.
    """

    found_inf: Tensor | None = None

    def __init__(self, parameters: Sequence[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": learning_rate, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        for group in self.param_groups:
            alike = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike[parameter.shape[-2:]].append(parameter)
            for shape, parameters in alike.items():
                updates, kept = self._updates(parameters), 1 - group["lr"] * group["weight_decay"]
                if self.found_inf is not None:
                    torch._foreach_mul_(updates, 1 - self.found_inf)
                    whole = torch.full((), kept, dtype=updates[0].dtype, device=updates[0].device)
                    kept = whole.masked_fill(self.found_inf == 1, 1.0)
                torch._foreach_mul_(parameters, kept)
                torch._foreach_add_(parameters, updates, alpha=-group["lr"] * 0.2 * sqrt(max(shape)))

    def _updates(self, parameters: list[nn.Parameter]) -> list[Tensor]:
        """The orthogonal matrices that parameters of one shape move along."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        momenta = [self.state[p]["momentum_buffer"] for p in parameters]
        if self.found_inf is not None:  # a momentum that is its own gradient stays as it is
            pairs = zip(momenta, gradients, strict=True)
            gradients = [torch.where(self.found_inf == 1, momentum, gradient) for momentum, gradient in pairs]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)
        matrices = [t.reshape(-1, *t.shape[-2:]) for t in ahead]
        found = orthogonalised(torch.cat(matrices)).to(parameters[0].dtype).split([len(t) for t in matrices])
        return [update.reshape(p.shape) for update, p in zip(found, parameters, strict=True)]


def orthogonalised(matrices: Tensor) -> Tensor:
    """Nearly U V^T of matrices U S V^T (count, m, n), in bfloat16: no more digits are needed of a direction."""
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if is_tall else matrices
    x = (x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)).bfloat16()
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


# What each rule keeps for a parameter.
MOMENTS: dict[type[Optimizer], set[str]] = {AdamW: {"step", "exp_avg", "exp_avg_sq"}, Muon: {"momentum_buffer"}}


class WeightAverage:
    """The exponential moving average of an operator's parameters."""

    def __init__(self, operator: nn.Module, decay: float) -> None:
        self.updates = 0
        self._decay = decay
        self._parameters = dict(operator.named_parameters())
        self.weights: dict[str, Tensor] = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of one more update."""
        self.updates += 1
        decay = min(self._decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(list(self.weights.values()), list(self._parameters.values()), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The operator with the averaged weights; afterwards with its own."""
        own = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._assign(self.weights)
        try:
            yield
        finally:
            self._assign(own)

    @torch.no_grad()
    def _assign(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(weights[name])
