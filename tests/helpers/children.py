"""Trainings in processes of their own, which may be killed at any moment; forked, so that they start at once."""

import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

import torch
from torch.distributed import TCPStore

from operformer import FANO, TNO, Grid, ViTNO
from operformer.domain import Samples
from operformer.errors import OperformerError
from operformer.training import checkpoint
from operformer.training.loop import Training, train

SETTINGS = Training(
    epochs=4, batch_size=5, learning_rate=1e-2, schedule="cosine", device="cpu", ema=0.9, save_minutes=1e-4
)  # fmt: skip
PATCHED = {"n_patches": (2, 2), "n_modes": 3, "hidden_channels": 6, "n_layers": 1, "n_heads": 2}
MAKE = {
    "TNO": lambda: TNO(2, 1, 1, hidden_channels=6, n_layers=1, n_heads=2),
    "ViTNO": lambda: ViTNO(in_channels=1, out_channels=1, **PATCHED),
    "FANO": lambda: FANO(in_channels=1, out_channels=1, **PATCHED),
}


def samples(count, first=0):
    """Smooth functions on 6 x 6 cells and their sums along an axis."""
    grid = Grid.uniform((6, 6), kind="cells")
    x, y = grid.points.unbind(-1)
    waves = [torch.sin((k % 5 + 1) * x + k * y) + 0.1 * k for k in range(first, first + count)]
    u = torch.stack(waves).unsqueeze(1).float()
    return Samples(u, u.cumsum(-1) / 6, grid)


def carry_out(kind, folder, settings=SETTINGS):
    """The training that is killed and goes on: 23 pairs, so 5 batches an epoch."""
    torch.manual_seed(7)
    return train(MAKE[kind](), samples(23), samples(5, first=23), settings, folder, kind)


def fork(action, environment=None, errors=None):
    """The id of a process that does the action and leaves with the exit code of the command line."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.environ.update(environment or {})
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent if errors is None else os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))  # not pytest's
        action()
        code = 0
    except OperformerError as error:
        print(f"operformer: {error}", file=sys.stderr)
        code = error.exit_code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait(process, seconds=300.0):
    """How a process ended: its exit code, or minus the signal's number."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise AssertionError(f"process {process} did not end within {seconds} s")


class Launcher:
    """What torchrun is to its processes: a store, and the names by which they find it and each other."""

    def __init__(self, world):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60))
        common = {
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(world), "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "test",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }  # fmt: skip
        self.environments = [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(world)]


LAUNCHERS = []  # a store lives as long as its launcher


def start(kind, folder, world, errors=None, settings=SETTINGS, before=None):
    """The ids of the processes of a training."""

    def action():
        if before:
            before()
        carry_out(kind, folder, settings)

    if world == 1:
        return [fork(action, errors=errors)]
    LAUNCHERS[:] = [Launcher(world)]
    return [
        fork(action, environment, errors and f"{errors}.{rank}")
        for rank, environment in enumerate(LAUNCHERS[0].environments)
    ]


def finish(kind, folder, world, settings=SETTINGS):
    """Train to the end."""
    errors = str(folder) + ".errors"
    for rank, process in enumerate(start(kind, folder, world, errors, settings)):
        code = wait(process)
        told = Path(errors if world == 1 else f"{errors}.{rank}").read_text()
        assert code == 0, told


def kill_self_at(operation):
    """SIGKILL at the given file operation inside a save, counted from 1."""
    inside = False
    count = 0

    def counted(original):
        def call(*arguments, **options):
            nonlocal count
            if inside:
                count += 1
                if count == operation:
                    os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **options)

        return call

    def marked(original):
        def call(*arguments, **options):
            nonlocal inside
            inside = True
            try:
                return original(*arguments, **options)
            finally:
                inside = False

        return call

    for name in ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir", "chmod"):
        setattr(os, name, counted(getattr(os, name)))
    from operformer.training import loop as training

    training.write_checkpoint = marked(checkpoint.write_checkpoint)


def record(folder):
    """Everything that two equal trainings have in common: weights, optimizer, averages, losses."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = folder / "checkpoints" / f"epoch-{SETTINGS.epochs:04d}"
    files = [*sorted(last.glob("*.safetensors")), folder / "operator" / "model.safetensors"]
    assert len(files) == 4
    return (
        [{key: value for key, value in line.items() if key != "seconds"} for line in lines],
        [path.read_bytes() for path in files],
    )


def draws(seed):
    return random.Random(seed)
