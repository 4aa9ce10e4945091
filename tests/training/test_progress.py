"""What a person sees of a training, in a terminal and in a file."""

import io
import re

import pytest
from rich.console import Console

from operformer.training.progress import TrainingDisplay


def shown(terminal, clock, title="lorenz-y", first_epoch=0, width=160):
    """Two epochs of three batches, 7 samples each, one second a batch."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=width, color_system=None)
    with TrainingDisplay(title, first_epoch + 2, 3, first_epoch, console) as display:
        for epoch, (loss, error) in enumerate(((0.5, 0.25), (0.125, 0.0625)), start=first_epoch + 1):
            for _ in range(3):
                clock.now += 1.0
                display.batch(7)
            display.epoch(epoch, loss, error)
    return stream.getvalue()


def test_a_file_gets_one_line_for_each_epoch(clock):
    lines = shown(False, clock).splitlines()
    assert lines == [
        "lorenz-y  epoch 1/2  loss 5.00e-01  error 2.50e-01  7 samples/s",
        "lorenz-y  epoch 2/2  loss 1.25e-01  error 6.25e-02  7 samples/s",
    ]


def test_a_file_gets_whole_lines_however_narrow(clock):
    assert len(shown(False, clock, width=20).splitlines()) == 2


def test_a_file_gets_no_control_characters(clock):
    assert "\x1b" not in shown(False, clock)


def test_a_terminal_gets_a_bar_with_the_last_figures(clock):
    text = shown(True, clock)
    assert "\x1b" in text
    last = re.split(r"[\r\n]+", text.replace("\x1b[2K", ""))
    (final,) = [line for line in last if "lorenz-y" in line][-1:]
    for part in ("epoch 2/2", "loss 1.25e-01", "error 6.25e-02", "7 samples/s"):
        assert part in final


def test_a_terminal_gets_its_cursor_back(clock):
    text = shown(True, clock)
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt), TrainingDisplay("t", 2, 3, 0, Console(file=stream, force_terminal=True)):
        raise KeyboardInterrupt
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_training_that_goes_on_counts_from_where_it_stopped(clock, terminal):
    text = shown(terminal, clock, first_epoch=11)
    assert "epoch 13/13" in text
    assert not re.search(r"epoch \d/13", text)
    assert "7 samples/s" in text  # of this run, not of the epochs before it
    assert not terminal or "━" * 24 in text  # the bar is full in the end


@pytest.mark.parametrize("title", ["a [b] c", "[/b]", "[red]mine"])
@pytest.mark.parametrize("terminal", [True, False])
def test_titles_are_shown_as_they_are(clock, terminal, title):
    assert title in shown(terminal, clock, title)
