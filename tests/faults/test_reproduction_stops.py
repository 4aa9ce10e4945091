"""A reproduction that is stopped saves what it trains, leaves no process behind, and goes on to the same numbers."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from operformer.files import _is_alive

pytestmark = pytest.mark.faults
EPOCHS = 60
# SIGINT is heard again, which a shell has its background commands ignore.
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, {tests!r})
from tiny import line
from operformer.cli import _explain
from paper.runs import carry_out

if __name__ == "__main__":
    experiments = {{name: line(name, epochs={epochs}) for name in ("a", "b", "c")}}
    try:
        failures = carry_out(experiments, Path(sys.argv[1]), 2, print)
    except BaseException as error:
        sys.exit(_explain(error)[1])
    sys.exit(len(failures))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(epochs=EPOCHS, tests=str(Path(__file__).parents[1] / "helpers")))
    return [sys.executable, str(path)]


def children(process):
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in found]


def losses(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_and_gone_on(script, tmp_path, number, code):
    assert subprocess.run([*script, str(tmp_path / "whole")]).returncode == 0
    folder = tmp_path / "stopped"
    with subprocess.Popen([*script, str(folder)]) as process:
        deadline = time.monotonic() + 120
        while len(list(folder.glob("*/metrics.jsonl"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        workers = children(process.pid)
        process.send_signal(number)
        assert process.wait(60) == code
    assert len(workers) >= 2
    while any(_is_alive(worker) for worker in workers) and time.monotonic() < deadline + 60:
        time.sleep(0.05)  # Python's own tracker of semaphores leaves a moment later
    assert not any(_is_alive(worker) for worker in workers)
    assert len(losses(folder / "a")) < EPOCHS or len(losses(folder / "b")) < EPOCHS
    assert subprocess.run([*script, str(folder)]).returncode == 0
    for name in ("a", "b", "c"):
        assert losses(folder / name) == losses(tmp_path / "whole" / name)
        assert (folder / name / "evaluation.json").is_file()
