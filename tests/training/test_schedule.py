"""Learning rates by hand, and a schedule that goes on where it stopped."""

import json
from math import cos, pi

import pytest
import torch

from operformer.training.schedule import Cosine, OneCycle, Plateau, make_schedule


def optimizer_at(*rates):
    return torch.optim.AdamW([{"params": [torch.nn.Parameter(torch.zeros(2))], "lr": rate} for rate in rates])


def rates(optimizer):
    return [group["lr"] for group in optimizer.param_groups]


def test_the_cosine_rises_over_a_tenth_and_falls_to_zero():
    optimizer = optimizer_at(0.5, 4.0)
    schedule = Cosine(optimizer, updates=30)
    seen = []
    for _ in range(31):
        seen.append(rates(optimizer))
        schedule.after_update()
    rise = [1 / 3, 2 / 3, 1.0]
    fall = [(1 + cos(pi * k / 27)) / 2 for k in range(28)]
    assert [rate for rate, _ in seen] == pytest.approx([0.5 * factor for factor in rise + fall], abs=1e-15)
    assert [rate for _, rate in seen] == pytest.approx([4.0 * factor for factor in rise + fall], abs=1e-14)
    assert seen[-1] == [0.0, 0.0]
    assert all(rate > 0 for rate, _ in seen[:30])  # every update moves


@pytest.mark.parametrize("kind", [Cosine, OneCycle])
@pytest.mark.parametrize("updates", [1, 2, 3, 4])
def test_few_updates_move_in_each(kind, updates):
    optimizer = optimizer_at(1.0)
    schedule = kind(optimizer, updates)
    for _ in range(updates):
        assert 0 < rates(optimizer)[0] <= 1.0
        schedule.after_update()


def test_the_cosine_does_not_look_at_errors():
    optimizer = optimizer_at(1.0)
    schedule = Cosine(optimizer, updates=7)
    before = rates(optimizer)
    for error in (1.0, 2.0, 3.0, 4.0, 5.0):
        schedule.after_epoch(error)
    assert rates(optimizer) == before


@pytest.mark.parametrize("updates", [10, 37, 100])
def test_one_cycle_is_torchs(updates):
    ours, theirs = optimizer_at(0.5), optimizer_at(0.5)
    schedule = OneCycle(ours, updates)
    reference = torch.optim.lr_scheduler.OneCycleLR(theirs, 0.5, updates, cycle_momentum=False)
    for _ in range(updates - 1):
        assert rates(ours) == pytest.approx(rates(theirs), rel=1e-12)
        theirs.step()
        reference.step()
        schedule.after_update()
    assert rates(ours) == pytest.approx(rates(theirs), rel=1e-12)
    assert rates(ours)[0] == pytest.approx(0.5 / 25e4, rel=1e-12)


def test_the_plateau_halves_after_more_than_two_epochs_without_a_better_error():
    optimizer = optimizer_at(0.8)
    schedule = Plateau(optimizer)
    seen = []
    for error in (1.0, 0.9, 0.95, 0.9, 0.91, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6, 0.4, 0.5):
        schedule.after_update()
        schedule.after_epoch(error)
        seen.append(rates(optimizer)[0])
    # Worse than 0.9 in epochs 3, 4, 5 (halved), 6, 7, 8 (halved again); then two bad epochs, a good one, a bad one.
    assert seen == [0.8] * 4 + [0.4] * 3 + [0.2] * 6


ERRORS = [1.0, 0.9, 0.95, 0.9, 0.91, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6, 0.6, 0.5]


@pytest.mark.parametrize("name", ["plateau", "cosine", "one-cycle"])
@pytest.mark.parametrize("stop", [0, 1, 4, 5, 11])
def test_a_schedule_goes_on_from_its_state_in_json(name, stop):
    def follow(optimizer, schedule, errors):
        seen = []
        for error in errors:
            for _ in range(3):
                seen.append(rates(optimizer)[0])
                schedule.after_update()
            schedule.after_epoch(error)
        return seen

    undisturbed = optimizer_at(0.8)
    expected = follow(undisturbed, make_schedule(name, undisturbed, 39), ERRORS)
    first = optimizer_at(0.8)
    schedule = make_schedule(name, first, 39)
    seen = follow(first, schedule, ERRORS[:stop])
    stored = json.loads(json.dumps({"rates": rates(first), "schedule": schedule.state_dict()}, allow_nan=False))
    second = optimizer_at(0.8)
    again = make_schedule(name, second, 39)
    second.param_groups[0]["lr"] = stored["rates"][0]
    again.load_state_dict(stored["schedule"])
    assert seen + follow(second, again, ERRORS[stop:]) == expected
    assert rates(second) == rates(undisturbed)
