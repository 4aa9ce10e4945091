"""Tasks carried out by several processes that never outlive their parent, and the progress that a person sees."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from operformer.errors import ResourceError, TerminatedError
from operformer.terminal import Terminal
from operformer.text import plain

SECONDS_BETWEEN_LINES = 10.0
Report = Callable[[Any], None]  # anything that can be sent between processes
Task = Callable[[Report], None]


def in_processes(tasks: Sequence[Task], workers: int, report: Report) -> None:
    """Carry out all tasks; what they report is passed on. The first that fails stops the rest."""
    context = multiprocessing.get_context("spawn")
    reports = context.SimpleQueue()  # what a task puts into it is there before the task is done
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(reports,))
    # Not concurrent.futures.wait: Ctrl-C inside it leaves locks behind that the pool then waits for, forever.
    finished: queue.SimpleQueue[Future[None]] = queue.SimpleQueue()
    before = _raise_terminations()
    try:
        # Workers begin with this mask: Ctrl-C would reach them before they can ignore it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for task in tasks:
                pool.submit(_carry_out, task).add_done_callback(finished.put)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        left = len(tasks)
        while left:
            try:
                done = finished.get(timeout=0.2)
            except queue.Empty:
                done = None
            if done is not None:
                done.result()
                left -= 1
            while not reports.empty():
                report(reports.get())
            # The pool itself looks after a worker only from the first event after its start on.
            if any(process.exitcode is not None for process in list((pool._processes or {}).values())):
                raise BrokenProcessPool
    except BrokenProcessPool:
        raise ResourceError(
            "a worker ended too early, perhaps for lack of memory; what is finished is kept: go on with fewer workers "
            '(and in a script, start below if __name__ == "__main__")'
        ) from None
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _raise_terminations() -> Any:
    """Let SIGTERM unwind like Ctrl-C, so that workers and their semaphores are gone before the process is."""
    if threading.current_thread() is not threading.main_thread():
        return None

    def unwind(number: int, frame: object) -> None:
        raise TerminatedError

    return signal.signal(signal.SIGTERM, unwind)


_reports: Any = None


def _begin(reports: Any) -> None:
    """What a worker does first: leave Ctrl-C to its parent, and end when the parent does."""
    global _reports
    _reports = reports
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _carry_out(task: Task) -> None:
    task(_reports.put)


class GenerationDisplay:
    """Pairs done, pairs per second and time left: a bar in a terminal, a line now and then elsewhere."""

    def __init__(self, title: str, total: int, console: Terminal | None = None) -> None:
        self._console = console or Terminal()
        self._title, self._total = plain(title), total
        self._done, self._found = 0, 0
        self._started = self._said = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(self._title, total=total, rate="")

    def __enter__(self) -> GenerationDisplay:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def found(self, count: int) -> None:
        """So many pairs were there already; they, and the time to find them, do not count for the rate."""
        self._found += count
        self._started = time.monotonic()
        self._bar.update(self._task, completed=self._found)

    def __call__(self, count: int) -> None:
        """So many more are made."""
        self._done += count
        rate = f"{self._done / max(time.monotonic() - self._started, 1e-9):.3g} pairs/s"
        self._bar.update(self._task, completed=self._found + self._done, rate=rate)
        is_last = self._found + self._done == self._total
        if not self._console.is_terminal and (is_last or time.monotonic() - self._said > SECONDS_BETWEEN_LINES):
            self._said = time.monotonic()
            left = self._total - self._found - self._done
            minutes, seconds = divmod(round((time.monotonic() - self._started) / max(self._done, 1) * left), 60)
            remaining = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d} left"
            line = f"{self._title}  {self._found + self._done}/{self._total}  {rate}  {remaining}"
            self._console.print(line, soft_wrap=True)
