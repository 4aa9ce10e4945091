"""Processes: their reports arrive, their errors are those of the task, none is left behind; and the progress shown."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from operformer.data import workers
from operformer.data.workers import GenerationDisplay, in_processes
from operformer.errors import DivergedError, ResourceError, TerminatedError


def count_up(folder, number, report):
    (folder / f"{number}.pid").write_text(str(os.getpid()))
    for _ in range(number):
        report(1)


def fail(folder, report):
    report(1)
    raise DivergedError("the flow is not resolved; set n_modes higher")


def sleep(folder, report):
    (folder / f"{os.getpid()}.pid").write_text(str(os.getpid()))
    report(1)
    time.sleep(60)


def end_abruptly(folder, report):
    (folder / "0.pid").write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)


def is_gone(process, within=10.0):
    """Whether no process of that number runs any more; a zombie does not."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            status = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if status == "Z":
            return True
        time.sleep(0.02)
    return False


def processes(folder):
    return {int(path.read_text()) for path in folder.glob("*.pid") if path.read_text()}


def test_every_task_is_done_and_every_report_arrives(tmp_path):
    heard = []
    in_processes([partial(count_up, tmp_path, number) for number in (3, 5, 7, 11, 13)], 2, heard.append)
    assert sum(heard) == 39
    assert len(list(tmp_path.glob("*.pid"))) == 5
    assert len(processes(tmp_path)) <= 2
    assert os.getpid() not in processes(tmp_path)
    assert all(is_gone(process) for process in processes(tmp_path))


def test_an_error_is_that_of_the_task_and_stops_the_others(tmp_path):
    began = time.monotonic()
    with pytest.raises(DivergedError, match="set n_modes higher") as caught:
        in_processes([partial(sleep, tmp_path), partial(fail, tmp_path)], 2, lambda count: None)
    assert time.monotonic() - began < 30
    assert str(caught.value) == "the flow is not resolved; set n_modes higher"
    assert all(is_gone(process) for process in processes(tmp_path))


def test_a_worker_that_is_killed_is_told_and_takes_the_others_along(tmp_path):
    with pytest.raises(ResourceError, match="a worker ended too early"):
        in_processes([partial(sleep, tmp_path), partial(end_abruptly, tmp_path)], 2, lambda count: None)
    assert processes(tmp_path)
    assert all(is_gone(process) for process in processes(tmp_path))


def test_workers_end_with_the_one_that_started_them(tmp_path):
    script = (
        "import sys; sys.path[:0] = sys.argv[2:4]\n"
        "from functools import partial\nfrom pathlib import Path\nfrom test_workers import sleep\n"
        "from operformer.data.workers import in_processes\n"
        "if __name__ == '__main__':\n"
        "    in_processes([partial(sleep, Path(sys.argv[1]))] * 2, 2, lambda count: None)\n"
    )
    path = tmp_path / "script.py"
    path.write_text(script)
    here, root = Path(__file__).parent, Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, path, tmp_path, here, root], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while len(processes(tmp_path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.wait()
    assert len(processes(tmp_path)) == 2
    assert all(is_gone(process) for process in processes(tmp_path))


def test_sigterm_unwinds_and_leaves_nothing_behind(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    threading.Timer(4.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(TerminatedError):
        in_processes([partial(sleep, tmp_path), partial(sleep, tmp_path)], 2, lambda count: None)
    assert signal.getsignal(signal.SIGTERM) is before
    assert all(is_gone(process) for process in processes(tmp_path))


# What a person sees while a set is made, at times that the test chooses.


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""
    now = [100.0]
    monkeypatch.setattr(workers.time, "monotonic", lambda: now[0])
    return now


def shown(clock, title, total, events, is_terminal=False):
    """What is printed; an event is the seconds that pass, and how many samples were found (negative) or made."""
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100, highlight=False, markup=False)
    with GenerationDisplay(title, total, console) as display:
        for seconds, count in events:
            clock[0] += seconds
            if count > 0:
                display(count)
            else:
                display.found(-count)
    return console.file.getvalue()


def test_elsewhere_than_in_a_terminal_it_says_a_line_now_and_then(clock):
    assert shown(clock, "darcy [red]", 100, [(0, 0), *[(3, 6)] * 10, (0, 40)]).splitlines() == [
        "darcy [red]  24/100  2 pairs/s  0:00:38 left",
        "darcy [red]  48/100  2 pairs/s  0:00:26 left",
        "darcy [red]  100/100  3.33 pairs/s  0:00:00 left",
    ]
    assert "277:46:29 left" in shown(clock, "darcy", 10**6, [(0, 0), (11, 11)])


def test_what_was_there_and_the_time_to_check_it_do_not_count_for_the_rate(clock):
    text = shown(clock, "darcy", 1000, [(500, -900), (20, 20)])
    assert text == "darcy  920/1000  1 pairs/s  0:01:20 left\n"
    assert shown(clock, "darcy", 7, [(0, -7)]) == ""
    assert "7/7" in shown(clock, "darcy", 7, [(0, 7)])  # in no time


def test_a_bar_in_a_terminal(clock):
    text = shown(clock, "darcy", 7, [(0, -2), (2, 5)], is_terminal=True)
    assert "7/7" in text
    assert "2.5 pairs/s" in text
    assert text.endswith("\x1b[?25h")  # the cursor is back
