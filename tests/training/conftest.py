"""Small data and small operators, which the tests of learning share."""

import pytest
import torch

from operformer import TNO
from operformer.problems import ControlledODE
from operformer.training import progress, status

PROBLEM = ControlledODE(n_terms=2, decay=1.0)


@pytest.fixture
def pairs():
    """Draws of a smooth controlled ODE on [0, 2]."""

    def draw(count, resolution=10, dtype=torch.float32, first=0):
        return PROBLEM.sample(count, resolution, first=first).to(dtype=dtype)

    return draw


@pytest.fixture
def make_operator():
    """A small TNO whose first weights follow from the seed."""

    def make(seed=0, dtype=torch.float32, hidden_channels=6, n_layers=1):
        torch.manual_seed(seed)
        return TNO(1, 1, 1, hidden_channels, n_layers=n_layers, n_heads=2).to(dtype)

    return make


@pytest.fixture
def clock(monkeypatch):
    """Time that passes when told to."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    for module in (progress, status):
        monkeypatch.setattr(module, "time", clock)
    return clock
