"""Sets made in one go, in parts, by several processes, and after interruptions: always the same bytes."""

import errno
import json
import multiprocessing
import os
import shutil
import socket
from dataclasses import replace
from itertools import permutations

import pytest
import torch
from sets import content

from operformer.data import generation, manifest
from operformer.data.generation import UNFINISHED, Draw, Share, generate, make_header, shards_made
from operformer.data.manifest import MANIFEST, Manifest, decode, encode
from operformer.data.store import open_pairs
from operformer.errors import DataError, DivergedError, ResourceError, UsageError
from operformer.files import write_bytes
from operformer.problems.controlled_ode import ControlledODE
from operformer.problems.darcy import Darcy
from operformer.problems.lorenz63 import Lorenz63

LAW = ControlledODE()
DRAW = Draw(17, 4, seed=3, per_shard=5)  # 5, 5, 5, 2
FLOW = Darcy(n_modes=8)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    assert generate(LAW, DRAW, folder)
    return content(folder)


class Heard:
    """What is reported."""

    def __init__(self):
        self.there, self.made = [], []
        self.found, self.append = self.there.append, self.made.append

    def __call__(self, count):
        self.append(count)


def make(folder, *arguments):
    """Whether the set is whole, and how many samples were there already and were made."""
    heard = Heard()
    is_whole = generate(LAW, DRAW, folder, *arguments, report=heard)
    return is_whole, heard.there, sum(heard.made)


def test_the_files_of_a_set(tmp_path, whole):
    folder = tmp_path / "new" / "folder"
    assert set(whole) == {MANIFEST, *(f"shard-0000{k}.hdf5" for k in range(4))}
    assert make(folder) == (True, [0], 17)
    assert content(folder) == whole
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert make(folder) == (True, [17], 0)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_the_manifest_says_what_the_set_is(tmp_path, whole):
    (tmp_path / MANIFEST).write_bytes(whole[MANIFEST])
    header = Manifest.read(tmp_path).header
    assert header == make_header(LAW, DRAW)
    assert header.title == "ControlledODE"
    law = {"name": "ControlledODE", "n_terms": 10, "z0": 1.0, "decay": 0.0, "horizon": 2.0}
    assert header.origin == {"problem": law, "resolution": 4, "seed": 3, "first": 0}
    assert header.fields.constants == {"n_terms": 10.0, "z0": 1.0, "decay": 0.0, "horizon": 2.0}


def test_the_number_of_threads_changes_nothing_and_is_as_before(tmp_path, whole):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        generate(LAW, DRAW, tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert content(tmp_path) == whole


def test_the_worst_of_each_check_is_recorded_and_sets_that_follow_each_other_are_one_draw(tmp_path):
    for name, draw in (("all", Draw(7, 5, per_shard=3)), ("rest", Draw(4, 5, first=3, per_shard=3))):
        generate(FLOW, draw, tmp_path / name)
    for index, shard in enumerate(Manifest.read(tmp_path / "all").shards):
        drawn = FLOW.sample(shard.count, 5, first=3 * index)
        assert shard.checks == {"residual": float(drawn.checks["residual"].max())}
        assert 0 <= shard.checks["residual"] < 1e-10
    assert torch.equal(open_pairs(tmp_path / "all")[3:].read().u, open_pairs(tmp_path / "rest").read().u)


def test_files_have_a_size_that_is_easily_moved():
    for law, draw, expected in (
        (LAW, Draw(10**6, 2048), 256),  # 16 KiB a pair: 256 are 4 MiB
        (FLOW, Draw(10**6, 416), 48),  # 64 MiB
        (FLOW, Draw(10**6, 416, dtype="float64"), 24),
        (FLOW, Draw(10**6, 4096), 1),
        (FLOW, Draw(10, 416, per_shard=1000), 1000),
    ):
        assert make_header(law, draw).per_shard == expected


# Several processes and machines


@pytest.mark.parametrize("order", [*permutations(range(3)), range(7)])
def test_parts_in_any_order(tmp_path, whole, order):
    """Also more parts than files: the last ones find the set whole."""
    done = [generate(LAW, DRAW, tmp_path, Share(part, len(order))) for part in order]
    assert done == [k >= min(3, len(order) - 1) for k in range(len(order))]
    assert content(tmp_path) == whole


def test_parts_may_be_divided_otherwise_the_next_time(tmp_path, whole):
    generate(LAW, DRAW, tmp_path, Share(1, 3))
    assert make(tmp_path) == (True, [5], 12)
    assert content(tmp_path) == whole


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("parts", [[(0, 2), (1, 2)], [(0, 3), (1, 3), (2, 3)], [(0, 1), (0, 1), (0, 1)]])
def test_parts_at_the_same_time(tmp_path, whole, parts):
    """Also the same command three times; whoever is last finds the set whole."""
    context = multiprocessing.get_context("fork")
    for attempt in range(4):
        folder, gate = tmp_path / str(attempt), context.Barrier(len(parts))

        def part_of(share, folder=folder, gate=gate):
            gate.wait()
            generate(LAW, DRAW, folder, Share(*share))

        children = [context.Process(target=part_of, args=(share,)) for share in parts]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        assert [child.exitcode for child in children] == [0] * len(parts)
        assert content(folder) == whole


def test_a_claim_that_becomes_a_manifest_while_we_look_is_ours(tmp_path, monkeypatch, whole):
    (tmp_path / UNFINISHED).write_bytes(encode({"header": json.loads(whole[MANIFEST])["header"]}))

    def finished_by_another(path):
        if path.name == UNFINISHED:
            (tmp_path / MANIFEST).write_bytes(whole[MANIFEST])
            path.unlink()
        return decode(path)

    monkeypatch.setattr(generation, "decode", finished_by_another)
    assert generation.belongs(tmp_path, make_header(LAW, DRAW))


def test_two_workers_make_the_same_files(tmp_path, whole):
    assert make(tmp_path, Share(workers=2)) == (True, [0], 17)
    assert content(tmp_path) == whole
    with pytest.raises(DivergedError, match="try smaller constants"):  # an error in a worker is the error
        generate(Lorenz63(rho=1e12), Draw(4, 4, per_shard=2), tmp_path / "wild", Share(workers=2))


@pytest.mark.parametrize("began", [UNFINISHED, MANIFEST])
def test_a_process_that_begins_or_ends_while_we_look_is_none_of_strangers(tmp_path, monkeypatch, whole, began):
    """Between the look for a claim and the look into the folder another process claims it, or finishes it."""
    original, late = type(tmp_path).iterdir, []

    def iterdir(path):
        if path == tmp_path / "set" and not late:
            late.append(path)
            if began == MANIFEST:
                generate(LAW, DRAW, path)
            else:
                write_bytes(path / UNFINISHED, encode({"header": json.loads(whole[MANIFEST])["header"]}))
        return original(path)

    (tmp_path / "set").mkdir()
    monkeypatch.setattr(type(tmp_path), "iterdir", iterdir)
    assert generate(LAW, DRAW, tmp_path / "set")
    assert late
    assert content(tmp_path / "set") == whole


# Interruptions


def test_an_interruption_at_any_write(tmp_path, monkeypatch, whole):
    """After the claim, after each file, between a file and its record, and before and after the manifest."""
    writes = 1 + 2 * 4 + 1
    for last in range(writes + 1):
        for is_before in (True, False):
            folder, count = tmp_path / f"{last} {is_before}", 0

            def interrupted(path, data, last=last, is_before=is_before, **options):
                nonlocal count
                count += 1
                if count > last and is_before:
                    raise KeyboardInterrupt
                write_bytes(path, data, **options)
                if count > last:
                    raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                for module in (generation, manifest):
                    patch.setattr(module, "write_bytes", interrupted)
                if last == writes:
                    assert generate(LAW, DRAW, folder)
                else:
                    with pytest.raises(KeyboardInterrupt):
                        generate(LAW, DRAW, folder)
                assert count == min(last + 1, writes)
            there = count - is_before if last < writes else writes
            found = min(17, 5 * min(4, max(0, there - 1) // 2))
            assert make(folder) == (True, [found], 17 - found)
            assert content(folder) == whole


def test_an_interruption_in_the_middle_of_a_shard(tmp_path, whole):
    made = []

    def impatient(count):
        made.append(count)
        if len(made) == 3:
            raise KeyboardInterrupt

    impatient.found = lambda count: None
    with pytest.raises(KeyboardInterrupt):
        generate(LAW, DRAW, tmp_path, report=impatient)
    assert shards_made(tmp_path) == (2, 4)
    shards = ["shard-00000.hdf5", "shard-00001.hdf5"]
    assert set(content(tmp_path)) == {UNFINISHED, *shards, *(f".{shard}.record" for shard in shards)}
    assert generate(LAW, DRAW, tmp_path)
    assert content(tmp_path) == whole


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


DAMAGES = [damage, lambda path: os.truncate(path, 7), lambda path: path.unlink()]


@pytest.mark.parametrize("name", ["shard-00001.hdf5", ".shard-00001.hdf5.record"])
@pytest.mark.parametrize("how", DAMAGES)
def test_what_was_damaged_meanwhile_is_made_again(tmp_path, whole, name, how):
    for part in (0, 1):
        generate(LAW, DRAW, tmp_path, Share(part, 3))
    how(tmp_path / name)
    assert generate(LAW, DRAW, tmp_path)
    assert content(tmp_path) == whole


@pytest.mark.parametrize("how", DAMAGES)
def test_a_finished_set_is_mended_by_the_same_command(tmp_path, whole, how):
    generate(LAW, DRAW, tmp_path)
    for name in ("shard-00000.hdf5", "shard-00003.hdf5"):
        how(tmp_path / name)
    with pytest.raises(DataError):
        open_pairs(tmp_path).verify()
    assert make(tmp_path) == (True, [10], 7)
    assert content(tmp_path) == whole


def test_a_manifest_that_is_damaged_or_another_machine_s_is_told(tmp_path):
    generate(LAW, DRAW, tmp_path)
    values = decode(tmp_path / MANIFEST)
    damage(tmp_path / MANIFEST)
    with pytest.raises(DataError, match=r"manifest\.json is damaged.*remove .* and make the set again"):
        generate(LAW, DRAW, tmp_path)
    values["shards"][1]["sha256"] = "0" * 64  # as if the set came from a machine that rounds otherwise
    (tmp_path / MANIFEST).write_bytes(encode(values))
    with pytest.raises(DataError, match=r"shard-00001\.hdf5, made again, is not what the manifest says"):
        generate(LAW, DRAW, tmp_path)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("host", ["node7", "node7.cluster.example.org"])
def test_files_of_the_dead_are_removed_and_those_of_the_living_kept(tmp_path, monkeypatch, whole, host):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    dead = next(number for number in range(2**22, 1, -1) if not os.path.exists(f"/proc/{number}"))
    zombie = os.fork()  # where nobody waits for the children of the dead, their numbers stay
    if not zombie:
        os._exit(0)
    os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
    processes = [f"{host}.{os.getpid()}", f"{host}.1", f"other.{dead}", f"x{host}.{dead}"]  # other's: who knows
    living = [*(f".shard-00000.hdf5.abc.{process}.partial" for process in processes), ".strange.partial"]
    gone = [f".{name}.{host}.{dead}.partial" for name in ("shard-00000.hdf5.abc", "manifest.json.a.b")]
    for name in (*living, *gone, f".manifest.json.ab.{host}.{10**30}.partial", f".x.{host}.{zombie}.partial"):
        (tmp_path / name).write_bytes(b"half")
    assert generate(LAW, DRAW, tmp_path)
    os.waitpid(zombie, 0)
    assert content(tmp_path) == {**whole, **dict.fromkeys(living, b"half")}


# What is refused


@pytest.mark.parametrize(
    ("law", "draw", "what"),
    [
        (LAW, replace(DRAW, count=18), "count is 17, not 18"),
        (LAW, replace(DRAW, seed=4), "seed is 3, not 4"),
        (LAW, replace(DRAW, first=1), "first is 0, not 1"),
        (LAW, replace(DRAW, resolution=8), "resolution is 4, not 8"),
        (LAW, replace(DRAW, per_shard=6), "per_shard is 5, not 6"),
        (LAW, replace(DRAW, dtype="float64"), 'dtype is "float32", not "float64"'),
        (ControlledODE(z0=0.5), DRAW, r"z0 is 1\.0, not 0\.5"),
        (Lorenz63(), DRAW, 'title is "ControlledODE", not "Lorenz63"'),
    ],
)
@pytest.mark.parametrize("is_finished", [True, False])
def test_another_request_in_the_same_folder_is_refused(tmp_path, law, draw, what, is_finished):
    assert generate(LAW, DRAW, tmp_path, Share(0, 1 if is_finished else 3)) is is_finished
    before = content(tmp_path)
    with pytest.raises(UsageError, match=f"holds another set: its {what}; give another folder"):
        generate(law, draw, tmp_path)
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", ["thesis.tex", ".hidden", "shard-00000.hdf5"])
def test_a_folder_with_other_files_is_refused(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        generate(LAW, DRAW, tmp_path)
    assert content(tmp_path) == {name: b"mine"}
    for folder in (tmp_path / name, tmp_path / name / "below"):
        with pytest.raises(ResourceError, match="cannot"):
            generate(LAW, DRAW, folder)


@pytest.mark.parametrize("header", [None, 3, "x", [], {}])
def test_a_strange_claim_is_refused(tmp_path, header):
    (tmp_path / UNFINISHED).write_bytes(encode({"header": header}))
    with pytest.raises(UsageError, match="holds another set"):
        generate(LAW, DRAW, tmp_path)


def test_a_draw_or_a_share_that_makes_no_sense_is_refused():
    draws = [("count", 0), ("count", -1), ("count", 10**30), ("first", -1), ("seed", -1), ("seed", 2**32)]
    for name, value in (*draws, ("per_shard", 0), ("dtype", "float16")):
        with pytest.raises(UsageError):
            replace(DRAW, **{name: value})
    for name, value in (("part", 1), ("part", -1), ("parts", 0), ("workers", 0)):
        with pytest.raises(UsageError):
            Share(**{name: value})


# Disks


def test_space_is_checked_before_the_first_byte(tmp_path, monkeypatch, whole):
    usage, free, asked = shutil.disk_usage(tmp_path), 4 * 2**16, []

    def little(path):
        asked.append(path)
        return usage._replace(free=free)

    monkeypatch.setattr(shutil, "disk_usage", little)
    folder = tmp_path / "not" / "there"
    with pytest.raises(ResourceError, match=r"there needs 0\.00 GiB of disk, and 0\.00 are free"):
        generate(LAW, DRAW, folder)
    assert not folder.parent.exists()
    assert set(asked) == {tmp_path}
    free = 10**12
    for count in (10**13, 2**62):  # at once: not shard by shard
        with pytest.raises(ResourceError, match="make room or draw less"):
            generate(LAW, Draw(count, 1024), folder)
    assert not folder.parent.exists()
    generate(LAW, DRAW, folder, Share(0, 2))
    free = 2 * (2**16 + 5 * 40)  # enough for what is left
    assert generate(LAW, DRAW, folder)
    assert content(folder) == whole
    free = 0
    assert generate(LAW, DRAW, folder)  # nothing to write


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_fills_up_is_told_and_the_set_goes_on_later(tmp_path, monkeypatch, whole, number):
    original, count = os.fsync, 0

    def full(descriptor):
        nonlocal count
        count += 1
        if count > 5:
            raise OSError(number, os.strerror(number))
        original(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ResourceError, match=r"cannot write .*shard-00002\.hdf5: .*; what was there"):
            generate(LAW, DRAW, tmp_path)
    assert shards_made(tmp_path) == (2, 4)
    assert generate(LAW, DRAW, tmp_path)
    assert content(tmp_path) == whole
