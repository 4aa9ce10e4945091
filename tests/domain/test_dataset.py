"""Samples as a dataset of PyTorch: integers, iteration, its DataLoader, batches that carry their grid."""

import pickle

import numpy as np
import pytest
import torch
from sets import GRIDS, pairs
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, random_split

from operformer import Grid, Samples, pad
from operformer.data.importing import store
from operformer.data.store import open_pairs
from operformer.errors import UsageError


@pytest.fixture(scope="module")
def memory():
    return pairs(GRIDS["nodes 1d"], 23, (3, 2))


@pytest.fixture(scope="module", params=["memory", "disk", "a part of the disk"])
def samples(request, memory, tmp_path_factory):
    """The same 23 samples; on disk in several files."""
    if request.param == "memory":
        return memory
    folder = tmp_path_factory.mktemp("sets") / "set"
    before = (
        memory
        if request.param == "disk"
        else Samples(memory.u[[0, *range(23)]], memory.z[[0, *range(23)]], memory.grid)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("operformer.data.generation.SHARD_PAIRS", 5)
        store(before, folder, "test", {})
    return open_pairs(folder)[len(before) - 23 :]


def test_one_sample_is_a_pair_of_functions(samples, memory):
    for index in (0, 22, -1, np.int64(7)):
        u, z = samples[index]
        assert torch.equal(u, memory.u[index])
        assert torch.equal(z, memory.z[index])
    for beyond in (23, -24):
        with pytest.raises(UsageError, match=r"index|indices"):
            samples[beyond]
    for wrong in (True, 1.0, [1.0], []):
        with pytest.raises(UsageError, match="chosen by"):
            samples[wrong]


def test_iteration_gives_every_pair_in_its_order(samples, memory):
    u, z = (torch.stack(values) for values in zip(*samples, strict=True))
    assert torch.equal(u, memory.u)
    assert torch.equal(z, memory.z)


def test_a_list_of_indices_gives_samples_with_their_grid(samples, memory):
    batch = samples[[5, 2, 21]]
    assert isinstance(batch, Samples)
    assert torch.equal(batch.u, memory.u[[5, 2, 21]])
    assert batch.grid is samples.grid
    by_number = DataLoader(samples, batch_size=None, sampler=BatchSampler(SequentialSampler(samples), 7, False))
    batches = list(by_number)
    assert [len(batch) for batch in batches] == [7, 7, 7, 2]
    assert torch.equal(torch.cat([batch.z for batch in batches]), memory.z)
    assert batches[0].grid is samples.grid


@pytest.mark.parametrize("workers", [0, 2])
def test_its_loader_with_forked_workers(samples, memory, workers):
    """The files are open before the workers are forked, which open them again."""
    assert torch.equal(samples[4][0], memory.u[4])
    context = "fork" if workers else None
    loader = DataLoader(samples, batch_size=4, num_workers=workers, multiprocessing_context=context)
    for _ in range(2):
        u, z = (torch.cat(values) for values in zip(*loader, strict=True))
        assert torch.equal(u, memory.u)
        assert torch.equal(z, memory.z)
    parts = random_split(samples, [20, 3])
    assert sum(len(z) for _, z in DataLoader(parts[0], batch_size=8)) == 20


def test_what_a_spawned_worker_is_sent(samples, memory):
    """A set that was read is pickled without its open files, and reads on."""
    samples[3]
    again = pickle.loads(pickle.dumps(samples))
    assert torch.equal(again[[3, 20]].u, memory.u[[3, 20]])
    assert again.grid.shape == memory.grid.shape


@pytest.mark.slow
def test_its_loader_with_spawned_workers(samples, memory):
    loader = DataLoader(samples, batch_size=4, num_workers=1, multiprocessing_context="spawn")
    assert torch.equal(torch.cat([u for u, _ in loader]), memory.u)


def test_functions_on_points_of_their_own_come_without_padding():
    points = [torch.rand(n, 2) for n in (7, 3, 11)]
    grid, u = Grid.ragged(points), [torch.rand(2, n) for n in (7, 3, 11)]
    samples = Samples(pad(u, grid), pad([2 * one for one in u], grid), grid)
    for k, (given, found) in enumerate(samples):
        assert torch.equal(given, u[k])
        assert torch.equal(found, 2 * u[k])
    assert torch.equal(samples[1][0], u[1])
    assert samples[[2, 0]].grid.counts == (11, 7)
