"""Muon: steps in the direction of the nearest orthogonal matrix of the momentum (Jordan 2024), many matrices at once.

B <- mu B + (1 - mu) g,  O ~ (M M^T)^(-1/2) M with M = (1 - mu) g + mu B,
W <- (1 - rate decay) W - rate 0.2 sqrt(max(m, n)) O

for a matrix W (m, n); the factor matches the size of AdamW's steps (Liu et al. 2025). torch has the same rule for one
matrix after the other: on a GPU some twenty launches for each. Here matrices of one shape are one product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import sqrt

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

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
