"""Remembered draws are the draws, and are drawn once."""

import pytest
import torch

from operformer.problems import ControlledODE, Lorenz63
from operformer.problems.draws import Draws

CPU = torch.device("cpu")


class Counted:
    """How often problems were solved."""

    def __init__(self, monkeypatch):
        self.calls = []
        for kind in (ControlledODE, Lorenz63):
            monkeypatch.setattr(kind, "_solve", self._counting(kind._solve))

    def _counting(self, solve):
        def counted(problem, draws, grid):
            self.calls.append((type(problem).__name__, len(draws), grid.shape))
            return solve(problem, draws, grid)

        return counted


@pytest.fixture
def counted(monkeypatch):
    return Counted(monkeypatch)


def test_pairs_are_those_of_the_problem_and_drawn_once(counted):
    problem, draws = ControlledODE(), Draws(kept=5)
    expected = problem.sample(7, 12, seed=3, first=2)
    before = len(counted.calls)
    for _ in range(2):
        found = draws.sample(problem, 7, 12, 3, CPU, first=2)
        assert torch.equal(found.u, expected.u.float())
        assert torch.equal(found.z, expected.z.float())
    assert len(counted.calls) == before + 1


def test_only_grids_that_are_missing_are_read(counted):
    problem, draws = ControlledODE(), Draws(kept=5)
    grids = [problem.grid(n) for n in (6, 8, 10)]
    list(draws.readings(problem, 4, grids[:2], 0, CPU, 5))
    counted.calls.clear()
    found = list(draws.readings(problem, 4, grids, 0, CPU, 5))
    assert counted.calls == [("ControlledODE", 4, (11,))]
    for samples, grid in zip(found, grids, strict=True):
        assert torch.equal(samples.z, problem.sample(4, grid, 0, CPU, 5).z)


def test_everything_that_makes_a_difference_is_told_apart(counted):
    draws = Draws(kept=20)
    calls = [
        (ControlledODE(), 3, 8, 0, CPU, 0),
        (ControlledODE(), 4, 8, 0, CPU, 0),
        (ControlledODE(), 3, 9, 0, CPU, 0),
        (ControlledODE(), 3, 8, 1, CPU, 0),
        (ControlledODE(), 3, 8, 0, CPU, 1),
        (ControlledODE(decay=1.0), 3, 8, 0, CPU, 0),
        (Lorenz63(), 3, 8, 0, CPU, 0),
    ]
    for call in calls:
        draws.sample(*call)
    assert len(counted.calls) == len(calls)
    (read,) = draws.readings(ControlledODE(), 3, [ControlledODE().grid(8)], 0, CPU)
    assert read.u.dtype == torch.float64  # a set in float32 is another one
    irregular = ControlledODE().graded_grid(8)
    (read,) = draws.readings(ControlledODE(), 3, [irregular], 0, CPU)
    assert torch.equal(read.grid.points, irregular.points)


@pytest.mark.parametrize(("kept", "solved"), [(0, 4), (1, 4), (2, 2)])
def test_the_oldest_set_is_forgotten_first(counted, kept, solved):
    draws = Draws(kept)
    for n in (8, 10, 8, 10):
        draws.sample(ControlledODE(), 2, n, 0, CPU)
    assert len(counted.calls) == solved


def test_a_set_that_is_pushed_out_while_others_are_read_is_still_given(counted):
    problem, draws = ControlledODE(), Draws(kept=1)
    grids = [problem.grid(n) for n in (6, 8)]
    list(draws.readings(problem, 2, grids[1:], 0, CPU))
    counted.calls.clear()
    found = list(draws.readings(problem, 2, grids, 0, CPU))
    assert [samples.grid.shape for samples in found] == [(7,), (9,)]
    assert len(counted.calls) == 1
