"""Averaged weights: theta_bar <- d_n theta_bar + (1 - d_n) theta after update n, d_n = min(d, (1 + n) / (10 + n)).

The smaller decay at the start forgets the first weights, which a short training would otherwise keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


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
