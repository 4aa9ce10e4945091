"""Files that are whole or not there: written beside, flushed to disk, renamed."""

from __future__ import annotations

import errno
import json
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

from operformer.errors import DataError, ResourceError

PARTIAL = ".partial"


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


def read_bytes(path: Path) -> bytes:
    """The content of a file that has to be there."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {_reason(error)}") from None


def read_json(path: Path) -> Any:
    """The value of a JSON file that has to be there."""
    content = read_bytes(path)
    try:
        return json.loads(content)
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from None


def flush_folder(folder: Path) -> None:
    """Make the renames inside a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
