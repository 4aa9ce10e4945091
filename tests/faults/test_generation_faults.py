"""Sets that are made by processes which are killed, and sets that do not fit into memory."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from children import wait

from operformer.cli import main
from operformer.data.generation import Draw, generate
from operformer.data.manifest import MANIFEST
from operformer.data.store import open_pairs
from operformer.domain import Grid, Samples
from operformer.problems import Problem
from operformer.problems.darcy import Darcy

pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]

LAW = Darcy(n_modes=16)
DRAW = Draw(94, 48, seed=3, per_shard=2)
ARGUMENTS = ["generate", "darcy-lognormal", "n_modes=16", "--samples", "94", "--resolution", "48", "--seed", "3"]
ARGUMENTS += ["--per-shard", "2"]
COMMAND = [sys.executable, "-m", "operformer.cli", *ARGUMENTS]
RESOURCE = 5


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fork(action):
    """The id of a process that does the action and leaves with the exit code of the command line."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        action()
        os._exit(0)
    except SystemExit as error:
        os._exit(error.code)
    except BaseException:
        os._exit(1)


def state(process):
    """The state of a process and its parent; None if there is none."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else (fields[0], int(fields[1]))


def workers_of(process):
    """The workers of a process; its resource tracker is none."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and (now := state(name)) and now[1] == process:
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if b"spawn_main" in command:
                found.append(int(name))
    return found


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)


def alone(folder):
    return fork(lambda: generate(LAW, DRAW, folder))


def with_two_workers(folder):
    return fork(lambda: main([*ARGUMENTS, "--out", str(folder), "--workers", "2"]))


def by_command(folder):
    return fork(lambda: os.execv(sys.executable, [*COMMAND, "--out", str(folder), "--workers", "2"]))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole") / "set"
    began = time.monotonic()
    assert wait(alone(folder)) == 0
    print(f"\nan undisturbed set: {len(content(folder)) - 1} files in {time.monotonic() - began:.2f} s")
    return content(folder)


def progressed(folder):
    """How many files there are, of any kind; it grows at every step."""
    return len(os.listdir(folder)) if folder.is_dir() else 0


@pytest.mark.parametrize(
    ("start", "victim", "kills"),
    [
        (alone, "parent", 14),
        (with_two_workers, "parent", 6),
        (with_two_workers, "worker", 6),
        (by_command, "parent", 4),
    ],
    ids=["alone", "parent of two workers", "worker", "command"],
)
def test_sets_are_the_same_after_kills(tmp_path, whole, count, start, victim, kills):
    """30 kills in all; a set suffers three in a row, or as many as come before it is finished."""
    numbers, made, sets = random.Random(11), [], 0
    while len(made) < kills:
        folder = tmp_path / str(sets)
        for _ in range(min(3, kills - len(made))):
            target = progressed(folder) + numbers.choice([0, 4, 16, 40])
            process = start(folder)
            wait_until(lambda: progressed(folder) > target or state(process) is None)  # noqa: B023
            time.sleep(numbers.uniform(0.0, 0.3))
            workers = workers_of(process)
            chosen = process if victim == "parent" else numbers.choice([*workers, None])
            if chosen is None or state(chosen) is None:
                assert wait(process) == 0
                continue
            os.kill(chosen, signal.SIGKILL)
            code = wait(process)
            if code == 0:  # a moment too late
                continue
            assert code == (-signal.SIGKILL if chosen == process else RESOURCE)
            wait_until(lambda: not any(state(worker) for worker in workers))  # noqa: B023
            assert not any(state(worker) for worker in workers), "workers are left behind"
            if (folder / MANIFEST).is_file():
                open_pairs(folder).verify()
            made.append(len([name for name in os.listdir(folder) if name.startswith("shard")]))
        assert wait(alone(folder)) == 0
        assert content(folder) == whole
        sets += 1
    count("generations killed, the set has the same bytes", len(made))


def test_every_file_operation_may_be_the_last(tmp_path, whole, count):
    """SIGKILL before the k-th call of fsync, chmod, replace or unlink, for every k."""
    operation, draw = 0, Draw(4, 8, seed=3, per_shard=2)
    generate(LAW, draw, tmp_path / "undisturbed")
    while True:
        operation += 1
        folder = tmp_path / str(operation)

        def action(at=operation, folder=folder):
            count = 0

            def counted(original):
                def call(*arguments, **options):
                    nonlocal count
                    count += 1
                    if count == at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return original(*arguments, **options)

                return call

            for name in ("fsync", "chmod", "replace", "unlink"):
                setattr(os, name, counted(getattr(os, name)))
            generate(LAW, draw, folder)

        code = wait(fork(action))
        assert generate(LAW, draw, folder)
        assert content(folder) == content(tmp_path / "undisturbed")
        if code == 0:
            break
        assert code == -signal.SIGKILL
    count("generations killed, the set has the same bytes", operation - 1)
    assert operation > 15


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_the_number_of_workers_changes_nothing(tmp_path, whole, workers):
    began = time.monotonic()
    done = subprocess.run([*COMMAND, "--out", tmp_path, "--workers", str(workers)], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"94/94" in done.stdout
    assert content(tmp_path) == whole
    print(f"\n{workers} workers: the same bytes, {time.monotonic() - began:.1f} s")


@pytest.mark.parametrize("kind", ["torchrun", "SLURM"])
def test_processes_at_the_same_time_are_parts(tmp_path, whole, kind):
    environments = {
        "torchrun": [{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"} for rank in range(2)],
        "SLURM": [
            {"SLURM_ARRAY_TASK_ID": str(k), "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "2",
             "SLURM_ARRAY_TASK_STEP": "4"} for k in (2, 6, 10)
        ],
    }[kind]  # fmt: skip
    command = [*COMMAND, "--out", tmp_path / "set", "--workers", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, env=os.environ | environment, **pipes) for environment in environments]
    told = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * len(running), told
    assert content(tmp_path / "set") == whole
    wholes = sum("generated:" in out for out, _ in told)
    print(f"\n{len(running)} processes of {kind}: the same bytes; {wholes} found the set whole")
    assert wholes >= 1


def test_ctrl_c_is_one_line(tmp_path, whole):
    """Ctrl-C goes to the workers, too, also while they start; none of them says anything."""
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code = listen + "import sys; from operformer.cli import main; main(sys.argv[1:])"
    for number, delay in enumerate((0.1, 0.5, 1.0, 1.5, 2.5)):
        folder = tmp_path / str(number)
        arguments = [*ARGUMENTS, "--out", str(folder), "--workers", "2"]
        arguments[arguments.index("--samples") + 1] = "5000"
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], start_new_session=True, stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        wait_until(lambda: progressed(folder) > 0)  # noqa: B023
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert err == "operformer: stopped; what was finished is kept, and the same command resumes\n"


# Memory


@dataclass(frozen=True)
class Waves(Problem):
    """Three products of waves and their sum: pairs that are quickly made."""

    n: int = 3

    output_names = ("z",)
    bounds = ((0.0, 1.0), (0.0, 1.0))
    block = {"cpu": 64}  # noqa: RUF012

    @property
    def input_names(self):
        return tuple(f"u_{k}" for k in range(self.n))

    def grid(self, resolution):
        return Grid.uniform((resolution, resolution), kind="cells")

    def _solve(self, draws, grid):
        k = torch.from_numpy(np.stack([draw.uniform(1.0, 9.0, (2, self.n)) for draw in draws], axis=1))
        u = torch.einsum(
            "bcx,bcy->bcxy", torch.cos(k[0, ..., None] * grid.axes[0]), torch.cos(k[1, ..., None] * grid.axes[1])
        )
        return Samples(u, u.mean(1, keepdim=True), grid)


LIMIT = 480 * 2**20  # of data; Python, torch and the operator take 300 MiB of it, libraries are no data


def test_a_set_four_times_larger_than_the_memory_is_trained_on(tmp_path):
    pair = 4 * 64 * 64 * 4
    generate(Waves(), Draw(4 * LIMIT // pair + 1, 64, per_shard=1024), tmp_path)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size > 4 * LIMIT
    command = [sys.executable, Path(__file__).parents[1] / "helpers" / "limited.py", tmp_path, str(LIMIT)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    pipes = {"capture_output": True, "text": True, "env": environment, "check": False}
    loaded = subprocess.run([*command, "load"], **pipes)
    assert loaded.returncode != 0
    reason = loaded.stderr.strip().splitlines()[-1]
    assert "memory" in reason.lower()
    began = time.monotonic()
    trained = subprocess.run([*command, "train"], **pipes)
    assert trained.returncode == 0, trained.stderr
    result = json.loads(trained.stdout.splitlines()[-1])
    assert result["epoch"] == 1
    print(
        f"\nlimit {LIMIT / 2**20:.0f} MiB, set {size / 2**20:.0f} MiB of {result['pairs']} pairs, peak of the training "
        f"{result['peak'] / 2**20:.0f} MiB resident, {time.monotonic() - began:.0f} s, loss {result['loss']:.2e}; "
        f"loading it fails: {reason[:120]}"
    )
    assert result["peak"] < size / 3  # code of libraries is resident and no data
