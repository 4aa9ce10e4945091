"""Inference by recordings, beside the operator itself."""

import pytest
import torch

from operformer import TNO, Grid
from operformer.errors import UsageError
from operformer.kernels.recording import MOST_GRAPHS
from operformer.operators.production import WARM, Graphed

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Tape:
    """Records as CUDA does: the output is one tensor, written again by every call."""

    def __init__(self):
        self.recorded = 0

    def __call__(self, action):
        self.recorded += 1
        with torch.inference_mode(False), torch.no_grad():
            output = torch.empty_like(action())
        return lambda: output.copy_(action())


@pytest.fixture
def made():
    torch.manual_seed(0)
    operator = TNO(1, 1, 2, hidden_channels=16, n_layers=1, n_heads=2).to(DEVICE)
    tape = None if DEVICE == "cuda" else Tape()
    return operator, Graphed(operator, tape), tape


def draw(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@torch.no_grad()
def test_outputs_are_the_operators_and_stay(made):
    operator, graphed, tape = made
    grid, kept = Grid.uniform(23).to(DEVICE), []
    for call in range(WARM + 3):
        u = draw(3, 1, 23, seed=call)
        kept.append((graphed(u, grid), operator(u, grid)))
    for found, expected in kept:
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert len(graphed._recordings) == 1
    assert tape is None or tape.recorded == 1


@torch.no_grad()
def test_weights_may_change(made):
    operator, graphed, _ = made
    grid, u = Grid.uniform(23).to(DEVICE), draw(3, 1, 23, seed=0)
    for _ in range(WARM + 1):
        before = graphed(u, grid)
    operator.network.head.linear.weight.mul_(2)
    torch.testing.assert_close(graphed(u, grid), operator(u, grid), rtol=1e-5, atol=1e-6)
    assert not torch.allclose(graphed(u, grid), before)


@torch.no_grad()
def test_each_shape_and_grid_has_its_recording_up_to_a_number(made):
    operator, graphed, _ = made
    for points in range(5, 5 + MOST_GRAPHS + 2):
        grid, u = Grid.uniform(points).to(DEVICE), draw(2, 1, points, seed=points)
        for _ in range(WARM + 1):
            torch.testing.assert_close(graphed(u, grid), operator(u, grid), rtol=1e-5, atol=1e-6)
    assert len(graphed._recordings) == MOST_GRAPHS


def test_gradients_queries_and_points_of_their_own_go_to_the_operator(made):
    operator, graphed, _ = made
    grid, query, u = Grid.uniform(23).to(DEVICE), Grid.uniform(11).to(DEVICE), draw(2, 1, 23, seed=1)
    ragged = Grid.ragged([torch.rand(23, 1), torch.rand(19, 1)]).to(DEVICE)
    for _ in range(WARM + 2):
        graphed(u, grid).sum().backward()
        with torch.no_grad():
            torch.testing.assert_close(graphed(u, grid, query), operator(u, grid, query))
            torch.testing.assert_close(graphed(u, ragged), operator(u, ragged))
            torch.testing.assert_close(graphed(u), operator(u))
    assert not graphed._recordings
    assert operator.network.head.linear.weight.grad is not None


def test_what_inference_mode_recorded_works_outside_of_it(made):
    operator, graphed, _ = made
    grid = Grid.uniform(23)  # on the CPU, wherever the operator is
    with torch.inference_mode():
        for call in range(WARM + 1):
            graphed(draw(3, 1, 23, seed=call), grid)
    assert len(graphed._recordings) == 1
    with torch.no_grad():
        u = draw(3, 1, 23, seed=7)
        torch.testing.assert_close(graphed(u, grid), operator(u, grid), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_another_precision_is_refused_or_recorded_anew(made):
    operator, graphed, tape = made
    grid, u = Grid.uniform(23).to(DEVICE), draw(3, 1, 23, seed=0)
    for _ in range(WARM + 1):
        graphed(u, grid)
    with pytest.raises(UsageError, match="float64"):
        graphed(u.double(), grid)
    graphed.double()
    assert not graphed._recordings
    for _ in range(WARM + 2):
        torch.testing.assert_close(graphed(u.double(), grid), operator(u.double(), grid), rtol=1e-10, atol=1e-10)
    assert tape is None or tape.recorded == 2
