"""Batches: every pair once an epoch, as many points in each, the same for one process and for several."""

import threading

import pytest
import torch

from operformer import Grid
from operformer.domain import Samples
from operformer.errors import UsageError
from operformer.problems.symmetry import SQUARE
from operformer.training.batches import Augmentation, Plan, batch_sizes, levels_of, resident, sent, shares, streamed


def pairs(points, count=23):
    values = torch.arange(count, dtype=torch.float32).reshape(-1, 1, 1).expand(count, 1, points)
    return Samples(values, values, Grid.uniform(points))


def plan(sizes=(12, 6, 3), epochs=7, resolutions="staged", seed=5):
    return Plan(23, sizes, epochs, seed, resolutions)


def test_batches_hold_as_many_points_at_every_resolution():
    levels = [pairs(n) for n in (7, 14, 28)]
    assert batch_sizes(3, levels) == (12, 6, 3)
    assert batch_sizes(3, levels, "pairs") == (3, 3, 3)
    assert batch_sizes(1, [pairs(10), pairs(13)]) == (1, 1)


@pytest.mark.parametrize("resolutions", ["staged", "mixed", "growing"])
@pytest.mark.parametrize("epoch", [0, 3, 6])
def test_every_pair_comes_once_in_batches_of_the_size_of_their_resolution(resolutions, epoch):
    given = plan(resolutions=resolutions)
    batches = given.epoch(epoch)
    assert sorted(torch.cat([chosen for _, chosen in batches]).tolist()) == list(range(23))
    for level, chosen in batches[:-1]:
        assert len(chosen) == given.sizes[level]
    assert 1 <= len(batches[-1][1]) <= given.sizes[batches[-1][0]]
    assert [level for level, _ in batches] == given.levels(epoch)


def test_stages_go_from_coarse_to_fine_and_share_the_epochs():
    assert [plan().levels(epoch)[0] for epoch in range(7)] == [0, 0, 0, 1, 1, 2, 2]
    assert [len(plan().levels(epoch)) for epoch in range(7)] == [2, 2, 2, 4, 4, 8, 8]
    assert plan().updates() == 30


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ((2.0, 1.0, 0.5), [0, 0, 0, 0, 1, 1, 2]),
        ((4.0, 2.0, 1.0), [0, 0, 0, 0, 1, 1, 2]),
        ((1.0, 1.0, 5.0), [0, 1, 2, 2, 2, 2, 2]),
        ((1.0, 1e-9, 1e-9), [0] * 7),
    ],
)
def test_stages_may_have_parts_of_their_own(stages, expected):
    given = Plan(23, (12, 6, 3), 7, 5, stages=stages)
    assert [given.levels(epoch)[0] for epoch in range(7)] == expected


def test_a_mixture_meets_every_resolution_and_another_one_in_another_epoch():
    given = plan(resolutions="mixed", epochs=30)
    seen = [given.levels(epoch) for epoch in range(30)]
    assert {level for levels in seen for level in levels} == {0, 1, 2}
    assert len({tuple(levels) for levels in seen}) > 10
    assert given.updates() == sum(map(len, seen))
    assert plan(resolutions="mixed", epochs=30).levels(3) == given.levels(3)
    assert [plan(resolutions="mixed", seed=6).levels(e) for e in range(7)] != seen[:7]


def test_growing_stages_keep_the_resolutions_before():
    given = Plan(60, (12, 6, 3), 30, 5, "growing", stages=(0.5, 0.3, 0.2))
    seen = [set(given.levels(epoch)) for epoch in range(30)]
    assert seen[:15] == [{0}] * 15
    assert set().union(*seen[15:24]) == {0, 1}
    assert set().union(*seen[24:]) == {0, 1, 2}
    assert given.updates() == sum(len(given.levels(epoch)) for epoch in range(30))


def test_one_resolution_has_the_batches_it_always_had():
    generator = torch.Generator().manual_seed((5 << 20) + 2)
    expected = torch.randperm(23, generator=generator).split(5)
    found = plan(sizes=(5,)).epoch(2)
    assert all(torch.equal(a, chosen) for a, (_, chosen) in zip(expected, found, strict=True))


@pytest.mark.parametrize("world", [1, 2, 3, 7])
@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("size", [1, 2, 5, 13])
def test_shares_are_disjoint_and_complete_and_nobody_is_idle(world, parts, size):
    chosen = torch.randperm(13)[:size]
    found = []
    for rank in range(world):
        own = shares(chosen, rank, world, parts)
        assert len(own) == parts
        for places, taken in own:
            assert len(taken) >= 1
            assert len(places) == 0 or torch.equal(chosen[places], taken)
            found += places.tolist()
    assert found == list(range(size))


def test_streamed_batches_come_in_order_while_the_next_is_read():
    reading = [threading.Event() for _ in range(4)]

    def load(k):
        reading[k].set()
        return k

    stream = streamed([lambda k=k: load(k) for k in range(4)])
    assert next(stream) == 0
    assert reading[1].wait(5.0)
    assert not reading[2].is_set() or not reading[3].is_set()
    assert list(stream) == [1, 2, 3]
    assert list(streamed([])) == []


def test_an_error_while_reading_arrives():
    def fail():
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(streamed([lambda: 1, fail]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CPU waits for nobody")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_choosing_pairs_on_a_gpu_does_not_wait_for_it():
    device, places = torch.device("cuda", 0), torch.arange(2)
    given = Samples(
        torch.rand(5, 1, 7, 7), torch.rand(5, 1, 7, 7), Grid.uniform((7, 7)), checks={"residual": torch.zeros(5)}
    )
    there = resident(given, device, torch.float32)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = Augmentation(SQUARE, 0)(there[sent(torch.tensor([3, 1]), device)], 0, 0, 2, places)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = Augmentation(SQUARE, 0)(given[torch.tensor([3, 1])], 0, 0, 2, places)
    torch.testing.assert_close(found.u.cpu(), expected.u)
    torch.testing.assert_close(found.z.cpu(), expected.z)


@pytest.mark.parametrize(
    ("levels", "part"),
    [
        ([pairs(5), pairs(7, 22)], "same draws"),
        ([pairs(7), pairs(5)], "coarse to fine"),
        ([pairs(5), pairs(5)], "fine"),
    ],
)
def test_sets_that_do_not_go_together_are_refused(levels, part):
    with pytest.raises(UsageError, match=part):
        levels_of(levels)
