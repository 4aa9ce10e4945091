"""Files that are whole or not there: written beside, flushed to disk, renamed."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from operformer.errors import DataError, ResourceError

PARTIAL = ".partial"
LARGEST_TEXT = 2**26  # bytes of settings, records and metrics


def write_bytes(path: Path, content: bytes) -> None:
    """Put the content at the path in one step: a reader sees the old file or the new one, never a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        suffix = f".{socket.gethostname()}.{os.getpid()}{PARTIAL}"
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", suffix=suffix, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(beside, 0o666 & ~_umask())
            os.replace(beside, path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ResourceError(f"cannot write {path}: {_reason(error)}; what was there before is untouched") from None


def remove_abandoned(folder: Path) -> None:
    """Remove files that a process of this machine was writing when it was killed."""
    for path in folder.glob(f".*{PARTIAL}") if folder.is_dir() else ():
        stem, _, process = path.name.removesuffix(PARTIAL).rpartition(".")
        if stem.endswith(f".{socket.gethostname()}") and process.isdecimal() and not _is_alive(int(process)):
            path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Put a value at the path as JSON; NaN and infinity are refused, since JSON has none."""
    write_bytes(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a file that has to be there, of at most so many bytes."""
    check_file(path, most)
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {_reason(error)}") from None


def check_file(path: Path, most: int | None = None) -> None:
    """Refuse what is no plain file, such as a pipe that never ends, or larger than it can be."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        reason = _reason(error) if isinstance(error, OSError) else str(error)
        raise DataError(f"cannot read {path}: {reason}") from None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"cannot read {path}: it is no plain file")
    if most is not None and found.st_size > most:
        raise DataError(f"cannot read {path}: it has {found.st_size} bytes where at most {most} belong")


def read_json(path: Path) -> Any:
    """The value of a JSON file that has to be there; NaN and infinity are no JSON."""
    content = read_bytes(path, LARGEST_TEXT)
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}") from None


def flush_folder(folder: Path) -> None:
    """Make the renames inside a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what writes that were killed have left in a folder, which must be this process's alone."""
    for path in folder.glob(f".*{PARTIAL}"):
        if path.is_file():
            path.unlink(missing_ok=True)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    try:  # a container without an init process keeps the dead as zombies
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full"
    return (error.strerror or str(error)).lower()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
