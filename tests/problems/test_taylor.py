"""Taylor's method against exact solutions and values computed by hand."""

import math
from itertools import pairwise
from math import log2

import pytest
import torch

from operformer.errors import DivergedError
from operformer.problems.taylor import taylor


def logistic(terms):
    """y' = y (1 - y), term by term."""
    return terms[-1] - sum(one * other for one, other in zip(terms, reversed(terms), strict=True))


def logistic_solution(start, times):
    return 1 / (1 + (1 / start - 1) * torch.exp(-times[:, None, None]))


@pytest.fixture
def start():
    return torch.linspace(0.1, 1.7, 15, dtype=torch.float64).reshape(3, 5)


def test_one_step_and_its_middle_by_hand():
    """y' = 1024 y and h = 1/1024: one step is e, half of one its square root."""
    times = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64) / 1024
    values = taylor(lambda terms: terms[-1] * 1024, torch.ones(1, dtype=torch.float64), times, 2.0**-10, order=18)
    expected = torch.tensor([[math.e], [math.sqrt(math.e)], [1.0]], dtype=torch.float64)
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("order", [3, 5])
@pytest.mark.parametrize("offset", [0.0, 0.3], ids=["at the steps", "between the steps"])
def test_order(start, offset, order, monkeypatch):
    monkeypatch.setattr("operformer.problems.taylor.LARGEST_LAST_TERM", 1.0)
    errors = []
    for step in (1 / 16, 1 / 32, 1 / 64):
        times = step * (torch.arange(round(2 / step), dtype=torch.float64) + offset)
        exact = logistic_solution(start, times)
        errors.append(float((taylor(logistic, start, times, step, order) - exact).abs().max()))
    for coarse, fine in pairwise(errors):
        assert log2(coarse / fine) == pytest.approx(order, abs=0.2)


def test_a_series_that_has_not_converged_is_refused(start):
    with pytest.raises(DivergedError, match="steps of 1 are too long"):
        taylor(logistic, start, torch.ones(1, dtype=torch.float64), 1.0, order=5)


def test_times_may_come_in_any_order_and_repeatedly(start):
    times = torch.rand(17, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 2
    times = torch.cat((times, times[4:7]))
    assert not bool((times.diff() > 0).all())
    values = taylor(logistic, start, times, 0.01, order=19)
    assert torch.equal(values[times.argsort()], taylor(logistic, start, times.sort().values, 0.01, order=19))
    torch.testing.assert_close(values, logistic_solution(start, times), rtol=0, atol=1e-8)


def test_a_time_reads_the_same_whatever_the_others_are(start):
    times = torch.tensor([0.0, 0.01, 0.3, 0.37, 1.1, 1.9], dtype=torch.float64)
    together = taylor(logistic, start, times, 0.1, order=19)
    for n, time in enumerate(times):
        assert torch.equal(taylor(logistic, start, time[None], 0.1, order=19)[0], together[n])


def test_the_trajectory_is_continuous_across_a_step(start):
    times = torch.tensor([0.25 - 1e-13, 0.25, 0.25 + 1e-13], dtype=torch.float64)
    before, at, after = taylor(logistic, start, times, 0.25, order=19)
    torch.testing.assert_close(before, at, rtol=0, atol=1e-12)
    torch.testing.assert_close(after, at, rtol=0, atol=1e-12)


def test_the_start_is_left_alone(start):
    given = start.clone()
    values = taylor(logistic, start, torch.zeros(1, dtype=torch.float64), 0.25, order=19)
    assert torch.equal(start, given)
    assert torch.equal(values[0], given)
