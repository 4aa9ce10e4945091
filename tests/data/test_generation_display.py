"""What a person sees while a set is made, at times that the test chooses."""

import io

import pytest
from rich.console import Console

from operformer.data import workers as progress
from operformer.data.workers import GenerationDisplay


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def shown(is_terminal=False):
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=100, highlight=False, markup=False)


def test_elsewhere_than_in_a_terminal_it_says_a_line_now_and_then(clock):
    console = shown()
    with GenerationDisplay("darcy [red]", 100, console) as display:
        display.found(0)
        for _ in range(10):
            clock[0] += 3.0
            display(6)
        display(40)
    assert console.file.getvalue().splitlines() == [
        "darcy [red]  24/100  2 pairs/s  0:00:38 left",
        "darcy [red]  48/100  2 pairs/s  0:00:26 left",
        "darcy [red]  100/100  3.33 pairs/s  0:00:00 left",
    ]


def test_what_was_there_and_the_time_to_check_it_do_not_count_for_the_rate(clock):
    console = shown()
    with GenerationDisplay("darcy", 1000, console) as display:
        clock[0] += 500.0
        display.found(900)
        clock[0] += 20.0
        display(20)
    assert console.file.getvalue() == "darcy  920/1000  1 pairs/s  0:01:20 left\n"


def test_hours_are_shown(clock):
    console = shown()
    with GenerationDisplay("darcy", 10**6, console) as display:
        display.found(0)
        clock[0] += 11.0
        display(11)
    assert "277:46:29 left" in console.file.getvalue()


def test_a_bar_in_a_terminal(clock):
    console = shown(is_terminal=True)
    with GenerationDisplay("darcy", 7, console) as display:
        display.found(2)
        clock[0] += 2.0
        display(5)
    text = console.file.getvalue()
    assert "7/7" in text
    assert "2.5 pairs/s" in text
    assert text.endswith("\x1b[?25h")  # the cursor is back


def test_everything_there_already_is_no_division_by_zero(clock):
    console = shown()
    with GenerationDisplay("darcy", 7, console) as display:
        display.found(7)
    assert console.file.getvalue() == ""
    with GenerationDisplay("darcy", 7, console) as display:
        display(7)
    assert "7/7" in console.file.getvalue()
