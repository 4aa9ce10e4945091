"""Pairs on disk against the same pairs in memory, and files that were changed behind our back."""

import os
import random
import shutil

import pytest
import torch
from sets import GRIDS, assert_same_grid, assert_same_pairs, content, pairs

from operformer.data import generation
from operformer.data import store as store_module
from operformer.data.generation import Draw, generate
from operformer.data.importing import store
from operformer.data.manifest import MANIFEST, decode, encode
from operformer.data.shard import Shard
from operformer.data.store import open_pairs
from operformer.domain import Grid, Samples
from operformer.errors import DataError, UsageError
from operformer.problems.controlled_ode import ControlledODE
from operformer.problems.kolmogorov import Kolmogorov
from operformer.problems.lorenz63 import Lorenz63

FLOW = Kolmogorov(n_modes=8, start=0.1, lead=0.05, step=0.05, moments=3, viscosity=0.5, alpha=6.0, forcing=2)
LORENZ = Lorenz63(("z", "y"), initial=True, horizon=0.25)


@pytest.fixture
def whole():
    return pairs(GRIDS["nodes 1d"], 23, (3, 2))


@pytest.fixture
def folder(tmp_path, monkeypatch, whole):
    """23 pairs, three channels to two, in 12 files: more than are kept open."""
    monkeypatch.setattr(generation, "SHARD_PAIRS", 2)
    monkeypatch.setattr(store_module, "OPEN_SHARDS", 5)
    store(whole, tmp_path / "set", "test", {})
    return tmp_path / "set"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", GRIDS)
def test_every_kind_of_grid_comes_back(tmp_path, kind, dtype):
    samples = pairs(GRIDS[kind], dtype=dtype)
    store(samples, tmp_path / "set", "test", {})
    stored = open_pairs(tmp_path / "set")
    assert_same_grid(stored.grid, samples.grid)
    assert_same_pairs(stored.read(), samples)
    assert (len(stored), stored.channels) == (13, (2, 3))
    stored.verify()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "law", [ControlledODE(), Lorenz63(("z", "y"), initial=True), FLOW], ids=lambda law: type(law).__name__
)
def test_a_problem_comes_back(tmp_path, law, dtype):
    generate(law, Draw(7, 5, seed=3, first=11, dtype=dtype, per_shard=3), tmp_path)
    drawn = law.sample(18, 5, seed=3)[11:].to(dtype=getattr(torch, dtype))
    stored = open_pairs(tmp_path)
    assert_same_grid(stored.grid, drawn.grid)
    read = stored.read()
    assert read.u.dtype == drawn.u.dtype
    # A draw's last digits may depend on its company: the blocks of a shard begin where it begins.
    tolerance = 1e-5 if dtype == "float32" else 1e-8
    assert torch.allclose(read.u, drawn.u, rtol=tolerance, atol=tolerance)
    assert torch.allclose(read.z, drawn.z, rtol=tolerance, atol=tolerance)


def test_slices_and_indices_choose_as_in_memory(folder, whole):
    stored = open_pairs(folder)
    numbers = random.Random(0)
    assert len(stored.manifest.shards) == 12 > store_module.OPEN_SHARDS
    for _ in range(40):
        first, last = numbers.choice([None, *range(-25, 26)]), numbers.choice([None, *range(-25, 26)])
        cut = slice(first, last, numbers.choice([None, 1, 2, 5]))
        part, expected = stored[cut], whole[cut]
        assert len(part) == len(expected)
        assert_same_pairs(part.read(), expected)
        if len(part):
            chosen = torch.tensor([numbers.randrange(-len(part), len(part)) for _ in range(numbers.randrange(1, 30))])
            assert_same_pairs(part[chosen], expected[chosen])
            mask = torch.rand(len(part)) < 0.5
            assert_same_pairs(part[mask], expected[mask])
        size = numbers.randrange(1, 9)
        blocks = list(part.blocks(size))
        assert [len(block) for block in blocks] == [len(block) for block in expected.blocks(size)]
        for block, other in zip(blocks, expected.blocks(size), strict=True):
            assert_same_pairs(block, other)


def test_slices_backwards_and_of_nothing(folder, whole):
    stored = open_pairs(folder)
    assert_same_pairs(stored[::-1].read(), whole[torch.arange(22, -1, -1)])
    assert_same_pairs(stored[20:2:-3][1:3].read(), whole[torch.tensor([17, 14])])
    assert len(stored[5:5]) == 0
    assert stored[torch.tensor([], dtype=torch.long)].u.shape == (0, 3, 7)
    assert list(stored[5:5].blocks(3)) == []


def test_other_indices_are_refused(folder):
    stored = open_pairs(folder)
    tensors = torch.tensor(3), torch.tensor([1.0]), torch.tensor([[1]]), torch.ones(22, dtype=torch.bool)
    for index in (*tensors, [1.0], "a", None):
        with pytest.raises(UsageError, match="slice or a row of indices"):
            stored[index]
    for position in (23, -24, 10**12):
        with pytest.raises(UsageError, match=f"there are 23 samples: got the index {position}"):
            stored[torch.tensor([0, position, 1])]


def test_a_shard_is_compared_with_its_checksum_once_and_only_when_needed(folder, monkeypatch):
    seen = []
    checksum = store_module.checksum
    monkeypatch.setattr(store_module, "checksum", lambda path: seen.append(path.name) or checksum(path))
    stored = open_pairs(folder)
    assert seen == []
    stored[torch.tensor([4, 5])]
    assert seen == ["shard-00002.hdf5"]
    for _ in range(2):
        stored[::-1].read()
    assert sorted(seen) == [f"shard-{k:05d}.hdf5" for k in range(12)]


def test_few_files_are_open_at_a_time(folder):
    before = len(os.listdir("/proc/self/fd"))
    stored = open_pairs(folder)
    list(stored.blocks(1))
    assert len(os.listdir("/proc/self/fd")) - before <= store_module.OPEN_SHARDS


# Damage


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "set"
    generate(ControlledODE(), Draw(7, 4, per_shard=3), path)
    return path


@pytest.fixture
def opened(monkeypatch):
    """The names of the shards that were opened."""
    names = []
    original = Shard.__init__

    def note(self, path, *rest):
        names.append(path.name)
        original(self, path, *rest)

    monkeypatch.setattr(Shard, "__init__", note)
    return names


def use(folder, names, path):
    """Take all values; the damaged file is refused by its name before it is even opened."""
    names.clear()
    with pytest.raises(DataError) as caught:
        pytest.fail(f"{path} was read: {open_pairs(folder).read()}")
    assert str(path) in str(caught.value)
    assert path.name not in names
    if path.name != MANIFEST:
        assert "run the command that made the set again" in str(caught.value)


def test_a_thousand_flipped_bits(small, opened):
    numbers, good = random.Random(7), content(small)
    places = [(name, bit) for name in sorted(good) for bit in range(8 * len(good[name]))]
    chosen = numbers.sample(places, 900) + numbers.sample([p for p in places if p[0] == MANIFEST], 100)
    counts = dict.fromkeys(good, 0)
    for name, bit in chosen:
        damaged = bytearray(good[name])
        damaged[bit // 8] ^= 1 << bit % 8
        (small / name).write_bytes(damaged)
        use(small, opened, small / name)
        (small / name).write_bytes(good[name])
        counts[name] += 1
    assert sum(counts.values()) == 1000
    assert min(counts.values()) > 50
    open_pairs(small).verify()


def test_two_hundred_truncations(small, opened):
    numbers, good = random.Random(8), content(small)
    for count in range(200):
        name = numbers.choice(sorted(good))
        length = (0, 1, len(good[name]) - 1)[count] if count < 3 else numbers.randrange(len(good[name]))
        os.truncate(small / name, length)
        use(small, opened, small / name)
        (small / name).write_bytes(good[name])
    assert count == 199


def test_bytes_too_many_zeros_and_files_that_are_gone(small, opened):
    for name, whole in content(small).items():
        path = small / name
        for other in (whole + b"\x00", bytes(len(whole)), whole[:-512] + bytes(512)):
            path.write_bytes(other)
            use(small, opened, path)
        if name == MANIFEST:
            path.write_bytes(whole)
            continue
        for put, take in ((None, None), (path.mkdir, path.rmdir), (lambda p=path: os.mkfifo(p), path.unlink)):
            path.unlink(missing_ok=True)
            if put:
                put()
            use(small, opened, path)
            if take:
                take()
        path.write_bytes(whole)


def test_shards_that_change_places_are_refused(small, opened):
    one, other = small / "shard-00000.hdf5", small / "shard-00001.hdf5"
    first, second = one.read_bytes(), other.read_bytes()
    assert len(first) == len(second)
    one.write_bytes(second)
    use(small, opened, one)
    one.write_bytes(first)
    other.write_bytes(first)
    use(small, opened, other)


def test_damage_after_opening_is_found_before_the_shard_is_used(small):
    stored = open_pairs(small)
    stored[torch.tensor([0])]
    path = small / "shard-00002.hdf5"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    for use_it in (lambda: stored[torch.tensor([6])], stored.verify):
        with pytest.raises(DataError, match=r"shard-00002\.hdf5 is damaged"):
            use_it()


def test_a_link_is_its_file(small, tmp_path, opened):
    """Sets may be spread over disks by links; what counts are the bytes."""
    path, elsewhere = small / "shard-00001.hdf5", tmp_path / "elsewhere"
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)
    open_pairs(small).verify()
    elsewhere.write_bytes(elsewhere.read_bytes()[::-1])
    use(small, opened, path)
    for target in ("nowhere", "/dev/zero", path):
        path.unlink()
        path.symlink_to(target)
        use(small, opened, path)


@pytest.mark.parametrize("name", ["nothing", "empty", "file"])
def test_a_folder_without_a_set_is_told(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=f"{name} holds no finished set"):
        open_pairs(tmp_path / name)


def test_coordinates_that_the_manifest_does_not_mean_are_refused(tmp_path):
    for kind in ("rectilinear 2d", "scattered 2d"):
        folder = tmp_path / kind
        store(pairs(GRIDS[kind]), folder, "test", {})
        values = decode(folder / MANIFEST)
        for bounds in ([[0.0, 0.01]] * 2, [[5.0, 6.0]] * 2):
            values["header"]["grid"]["bounds"] = bounds
            (folder / MANIFEST).write_bytes(encode(values))
            with pytest.raises(DataError, match=r"shard-00000\.hdf5 has no coordinates"):
                open_pairs(folder)
        values["header"]["grid"]["kind"] = {"rectilinear 2d": "scattered", "scattered 2d": "rectilinear"}[kind]
        (folder / MANIFEST).write_bytes(encode(values))
        with pytest.raises(DataError):
            open_pairs(folder)


@pytest.mark.parametrize(
    "query", [Grid.uniform(5, [(0, 2)], "cells"), Grid.scattered([[0.1], [1.9], [0.7]], [1, 2, 3], [(0, 2)])]
)
def test_a_set_keeps_two_grids(query, tmp_path):
    grid = Grid.rectilinear([0.0, 0.3, 1.1, 2.0])
    u, z = torch.rand(5, 2, 4), torch.rand(5, 1, *query.shape)
    stored = store(Samples(u, z, grid, query), tmp_path, "two", {"file": "none"})
    found = stored[1:][torch.tensor([3, 0])]
    assert torch.equal(found.u, u[[4, 1]])
    assert torch.equal(found.z, z[[4, 1]])
    for one, other in ((found.grid, grid), (found.query, query)):
        assert (one.kind, one.bounds) == (other.kind, other.bounds)
        assert torch.equal(one.points, other.points)
        assert torch.equal(one.weights, other.weights)
    assert "4 points in [0, 2]) to Grid(" in repr(stored)
