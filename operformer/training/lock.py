"""One training in a folder at a time: a lock that ends with its process."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from operformer.errors import DataError, ResourceError, UsageError
from operformer.files import GoneError, Held, Place, held, refuse_links, remove_folder

NAME = ".lock"
FOLDERS = ("checkpoints", "cycles", "operator", "start", "tensorboard")
_locked: set[Held] = set()


@contextmanager
def locked(folder: Path) -> Iterator[Held]:
    """Hold a folder and keep other processes out; within one process a lock inside a lock is the same lock.

    A folder that was made for a training is removed if the training is refused before it finished an epoch.
    """
    made = [place for place in (folder.absolute(), *folder.absolute().parents) if not os.path.lexists(place)]
    with held(folder) as found:
        if found in _locked:
            yield found
            return
        refuse_links(folder, FOLDERS)
        descriptor = _take(found)
        _locked.add(found)
        found.keep(NAME)
        try:
            yield found
        except (UsageError, DataError, ResourceError):
            with suppress(GoneError):  # what lies there now may be somebody else's
                found.check()
                if made and not any(found.look(name) for name in ("checkpoints", "operator")):
                    _remove(made)
            raise
        finally:
            _locked.discard(found)
            os.close(descriptor)


def holder(folder: Path) -> str | None:
    """The process that trains in the folder, as "process 7 on host"; None without one."""
    try:
        descriptor = Place(folder, None).open(NAME, os.O_RDWR)
    except (OSError, ValueError):  # no folder can have this name
        return None
    try:
        return None if lock_descriptor(descriptor, blocking=False) else _name(descriptor)
    except OSError:  # no lock can be had here, so nobody holds one
        return None
    finally:
        os.close(descriptor)


def _remove(made: list[Path]) -> None:
    """Remove a folder, and those above it that are empty."""
    remove_folder(made[0])
    for parent in made[1:]:
        with suppress(OSError):  # another process may use it by now
            parent.rmdir()


def _take(found: Held) -> int:
    path = found.path / NAME
    try:
        # A file of its own: folders cannot be locked on network disks. It stays, since removing it would race.
        descriptor = found.open(NAME, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise ResourceError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}; give another folder"
        ) from None
    opened = os.fstat(descriptor)
    if not stat.S_ISREG(opened.st_mode) or opened.st_nlink > 1:
        os.close(descriptor)
        raise DataError(f"{path} is no plain file, or is one elsewhere, too; remove it, or give another folder")
    try:
        is_taken = not lock_descriptor(descriptor, blocking=False)
    except OSError:
        is_taken = False  # a file system without locks
    if is_taken:
        name = _name(descriptor)
        os.close(descriptor)
        raise ResourceError(f"{found.path} is being trained by {name}; wait for it or give another folder")
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
    except OSError:
        pass  # a full disk leaves the lock without its name
    return descriptor


def _name(descriptor: int) -> str:
    try:
        return os.read(descriptor, 200).decode().strip() or "another process"
    except (OSError, UnicodeDecodeError):
        return "another process"
