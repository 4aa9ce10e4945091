"""Asked once, a training saves and leaves; asked twice or kept waiting, it leaves at once."""

import os
import signal
import threading
import time

import pytest

from operformer.errors import TerminatedError
from operformer.training import signals
from operformer.training.signals import StopSignals


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, TerminatedError)])
def test_the_first_signal_asks_and_the_second_leaves(number, error):
    before = signal.signal(number, signal.default_int_handler)
    try:
        with StopSignals() as stop:
            assert stop.received is None
            os.kill(os.getpid(), number)
            assert stop.received == number
            with pytest.raises(error):
                os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.default_int_handler
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    finally:
        signal.signal(number, before)


def test_who_is_kept_waiting_leaves(monkeypatch):
    monkeypatch.setattr(signals, "PATIENCE", 0.05)
    with StopSignals():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(TerminatedError):
            time.sleep(5.0)


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.received is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_it_hears_nothing():
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
    failures = []

    def body():
        try:
            with StopSignals():
                assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)] == handlers
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert not failures
