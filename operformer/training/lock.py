"""One training in a folder at a time: a lock that ends with its process."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from operformer.errors import DataError, ResourceError, UsageError

NAME = ".lock"
_held: set[Path] = set()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of the folder; within one process a lock inside a lock is the same lock.

    A folder that was made for a training is removed if the training is refused before it finished an epoch.
    """
    path = folder.resolve() / NAME
    if path in _held:
        yield
        return
    made = [place for place in path.parents if not place.exists()]
    descriptor = _take(path, folder)
    _held.add(path)
    try:
        yield
    except (UsageError, DataError, ResourceError):
        if made and not any((made[0] / name).exists() for name in ("checkpoints", "operator")):
            shutil.rmtree(made[0], ignore_errors=True)
            for parent in made[1:]:
                with suppress(OSError):  # another process may use it by now
                    parent.rmdir()
        raise
    finally:
        _held.discard(path)
        os.close(descriptor)


def holder(folder: Path) -> str | None:
    """The process that trains in the folder, as "process 7 on host"; None if there is none."""
    path = folder / NAME
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _name(path)
    finally:
        os.close(descriptor)


def _take(path: Path, folder: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file of its own: folders cannot be locked on network disks. It stays, since removing it would race.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ResourceError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}; give another folder"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
    except BlockingIOError:
        os.close(descriptor)
        raise ResourceError(f"{folder} is being trained by {_name(path)}; wait for it or give another folder") from None
    except OSError:
        pass  # a full disk leaves the lock without its name
    return descriptor


def _name(path: Path) -> str:
    try:
        return path.read_text()[:200].strip() or "another process"
    except (OSError, UnicodeDecodeError):
        return "another process"
