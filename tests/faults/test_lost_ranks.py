"""Two processes under torchrun: one that is killed or stopped ends the other, and another number of them goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.faults

TRAIN = [
    "-m", "operformer.cli", "train", "lorenz-y",
    "data.train=23", "data.validation=5", "data.test=5", "data.resolution=8",
    "operator.hidden_channels=6", "operator.n_layers=1", "operator.n_heads=2",
    "training.batch_size=5", "training.device=cpu", "training.schedule=plateau",
]  # fmt: skip


def torchrun(folder, ranks, epochs, *overrides):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    arguments = [*TRAIN, f"training.epochs={epochs}", *overrides, "--out", str(folder)]
    return subprocess.Popen([*launch, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def workers(process, count):
    """The processes that torchrun has started, by rank."""
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
                environment = (path / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            ranks = [entry for entry in environment if entry.startswith(b"RANK=")]
            if parent == process.pid and ranks:
                found[int(ranks[0].removeprefix(b"RANK="))] = int(path.name)
    return found if len(found) == count else None


def epochs_done(folder):
    path = folder / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_or_stopped_ends_the_other_with_its_name(tmp_path, number, rank):
    process = torchrun(tmp_path, 2, 100000)
    try:
        until(lambda: epochs_done(tmp_path) >= 3)
        pids = workers(process, 2)
        os.kill(pids[rank], getattr(signal, number))
        started = time.monotonic()
        out, _ = process.communicate(timeout=90)
        seconds = time.monotonic() - started
    finally:
        process.kill()
    assert f"operformer: rank {rank} (process {pids[rank]} on " in out
    assert process.returncode != 0
    assert seconds < 60
    assert not [pid for pid in pids.values() if is_alive(pid)]
    print(f"\n{number} of rank {rank}: all processes ended after {seconds:.0f} s, no orphans")


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_another_number_of_ranks_continues_the_same_loss(tmp_path, first, second):
    for folder, counts in (("changed", (first, second)), ("same", (first, first))):
        for epochs, ranks in zip((3, 6), counts, strict=True):
            # By name, a run keeps its number of epochs; a stop at a signal is what changes nothing else.
            process = torchrun(tmp_path / folder, ranks, 6)
            if epochs == 3:
                until(lambda path=tmp_path / folder: epochs_done(path) >= 3)
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=90)
    one, other = metrics(tmp_path / "changed"), metrics(tmp_path / "same")
    assert len(one) == len(other) == 6
    gap = max(abs(a["loss"] - b["loss"]) for a, b in zip(one, other, strict=True))
    assert gap < 1e-6
    print(f"\n{first} to {second} ranks: the loss differs by at most {gap:.1e}")
