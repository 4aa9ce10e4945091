"""Processes that watch each other: one that is killed or stopped ends the others, with its name, within a minute.

A collective that waits for a stopped process waits for half an hour. So every process counts in a thread of its own, in
the store that torchrun keeps, and looks at the counts of the others; a long batch or a slow disk does not stop a count.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from datetime import timedelta
from types import TracebackType

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in its list

LIMIT = 15.0  # seconds without a count; torchrun then needs up to 30 to end the process that stands still
INTERVAL = 0.5
DONE, FAILED = "done", "failed"


class Heartbeat:
    """The count of this process and the look at the others', while inside; nothing if there are no others."""

    def __init__(self, rank: int, world: int) -> None:
        self._rank, self._world = rank, world
        self._left = threading.Event()
        self._limit = LIMIT

    def __enter__(self) -> Heartbeat:
        if self._world > 1:
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            self._store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=LIMIT))
            self._round = self._next_round()
            self._say(f"0 {os.getpid()} {socket.gethostname()}")
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._world == 1:
            return
        if isinstance(error, RuntimeError) and not hasattr(error, "exit_code"):
            # Most likely the other end of a collective is gone; the thread finds out who and leaves.
            self._limit = 4.0
            time.sleep(10.0)
        self._left.set()
        self._thread.join()
        self._say(FAILED if kind else DONE)

    def _watch(self) -> None:
        seen = {rank: ("", time.monotonic()) for rank in range(self._world) if rank != self._rank}
        names = {rank: f"rank {rank}" for rank in seen}
        count = 0
        while not self._left.wait(INTERVAL):
            count += 1
            try:
                self._say(f"{count} {os.getpid()} {socket.gethostname()}")
                said = {rank: self._store.get(self._key(rank)).decode() for rank in seen}
            except RuntimeError:
                self._leave("the process that started this one does not answer")
            for rank, words in said.items():
                if words not in (DONE, FAILED):
                    _, process, host = words.split(" ", 2)
                    names[rank] = f"rank {rank} (process {process} on {host})"
                if words != seen[rank][0]:
                    seen[rank] = (words, time.monotonic())
                limit = 5.0 if words == FAILED else self._limit
                if words != DONE and time.monotonic() - seen[rank][1] > limit:
                    self._leave(f"{names[rank]} {'failed' if words == FAILED else 'was killed or stands still'}")

    def _leave(self, what: str) -> None:
        """The main thread may wait in a collective for ever, so the process ends here; checkpoints are whole."""
        if not self._left.is_set():
            print(f"operformer: {what}; the same command resumes from the last checkpoint", file=sys.stderr, flush=True)
            os._exit(5)

    def _next_round(self) -> int:
        """Trainings of one process come one after the other, each with counts of its own."""
        return self._store.add(f"operformer/rounds/{self._rank}", 1)

    def _key(self, rank: int) -> str:
        return f"operformer/{self._round}/{rank}"

    def _say(self, words: str) -> None:
        try:
            self._store.set(self._key(self._rank), words)
        except RuntimeError:
            if not self._left.is_set():
                raise
