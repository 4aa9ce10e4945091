"""A batch's loss and gradient by a recording, beside the same ones by hand."""

from dataclasses import replace

import pytest
import torch

from operformer import TNO, Grid
from operformer.domain import Samples
from operformer.evaluation.loss import relative_l2
from operformer.kernels.recording import MOST_GRAPHS
from operformer.training.update import GraphedPass

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WARM = 2
pytestmark = [pytest.mark.filterwarnings("ignore")] if DEVICE == "cuda" else []  # what the compiler says of itself


class Tape:
    """Records as CUDA does: later calls see the tensors of the first one, and nothing else."""

    def __init__(self):
        self.recorded = 0

    def __call__(self, action):
        self.recorded += 1
        return action


def make():
    torch.manual_seed(0)
    return TNO(1, 1, 1, hidden_channels=16, n_layers=1, n_heads=2).to(DEVICE)


def draw(grid, count, seed):
    generator = torch.Generator().manual_seed(seed)
    u, z = torch.randn(2, count, 1, *grid.shape, generator=generator).unbind(0)
    return Samples(u.to(DEVICE), z.to(DEVICE), grid)


def record(operator, monkeypatch):
    """A pass that records what the device can, and how often it did."""
    if DEVICE == "cuda":
        return GraphedPass(operator, relative_l2, warm=WARM), None
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    tape = Tape()
    return GraphedPass(operator, relative_l2, tape, WARM), tape


def test_losses_and_gradients_are_those_of_the_operator(monkeypatch):
    operator, grid = make(), Grid.uniform(23).to(DEVICE)
    graphed, tape = record(operator, monkeypatch)
    for call in range(WARM + 3):
        samples, factor = draw(grid, 3, call), 2.0**call
        loss = relative_l2(operator(samples.u, grid), samples.z, grid).mean()
        expected = torch.autograd.grad(loss * factor, list(operator.parameters()))
        loss = loss.detach()
        operator.zero_grad(set_to_none=False)
        torch.testing.assert_close(graphed(samples, factor), loss, rtol=1e-5, atol=1e-6)
        for parameter, gradient in zip(operator.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-5 * factor)
    assert tape is None or tape.recorded == 1


def test_each_shape_and_grid_has_its_recording_up_to_a_number(monkeypatch):
    graphed, tape = record(make(), monkeypatch)
    for points in range(5, 5 + MOST_GRAPHS + 3):
        grid = Grid.uniform(points).to(DEVICE)
        for call in range(WARM + 2):
            graphed(draw(grid, 2, call), 1.0)
    assert len(graphed._recordings) == MOST_GRAPHS
    assert tape is None or tape.recorded == MOST_GRAPHS


def test_points_of_their_own_are_not_recorded(monkeypatch):
    graphed, _ = record(make(), monkeypatch)
    grid = Grid.ragged([torch.rand(5, 1), torch.rand(7, 1)]).to(DEVICE)
    for call in range(WARM + 2):
        graphed(draw(replace(grid), 2, call), 1.0)
    samples = draw(grid, 2, 0)
    for _ in range(WARM + 2):
        graphed(samples, 1.0)
    assert not graphed._recordings


@pytest.mark.skipif(DEVICE == "cpu", reason="graphs are CUDA's")
def test_a_recording_reads_weights_that_were_changed_after_it(monkeypatch):
    operator, grid = make(), Grid.uniform(23).to(DEVICE)
    graphed, _ = record(operator, monkeypatch)
    samples = draw(grid, 3, 0)
    optimizer = torch.optim.AdamW(operator.parameters(), 1e-2, fused=True)
    for _ in range(WARM + 5):
        expected = relative_l2(operator(samples.u, grid), samples.z, grid).mean().detach()
        torch.testing.assert_close(graphed(samples, 1.0), expected, rtol=1e-4, atol=1e-5)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
