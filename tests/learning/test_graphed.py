"""Operators as CUDA graphs, beside the same operators as they are."""

import pytest
import torch

from operformer import TNO, Grid
from operformer.learning.graphed import MOST_GRAPHS, Graphed

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make():
    torch.manual_seed(0)
    return TNO(1, 1, 1, hidden_channels=16, n_layers=1, n_heads=2).to(DEVICE)


def test_outputs_and_gradients_are_those_of_the_operator():
    operator, grid = make(), Grid.uniform(23).to(DEVICE)
    graphed = Graphed(operator)
    for call in range(4):
        u = torch.randn(3, 1, 23, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(call))
        expected = operator(u, grid)
        gradients = torch.autograd.grad(expected.square().sum(), list(operator.parameters()))
        found = graphed(u, grid)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        operator.zero_grad()
        found.square().sum().backward()
        for parameter, gradient in zip(operator.parameters(), gradients, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(DEVICE == "cpu", reason="graphs are CUDA's")
def test_few_graphs_are_kept():
    graphed = Graphed(make())
    for points in range(5, 5 + MOST_GRAPHS + 3):
        grid = Grid.uniform(points).to(DEVICE)
        for _ in range(3):
            graphed(torch.randn(2, 1, points, device=DEVICE), grid)
    assert len(graphed._graphs) == MOST_GRAPHS
