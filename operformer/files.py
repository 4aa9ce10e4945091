"""Files that are whole or not there: written beside, flushed to disk, renamed.

Whoever writes to a run or a set holds its folder (`held`). Everything inside is then opened below a handle of the
folder, so no link in it is followed. Nothing is written once the folder is not the one that was opened.
"""

# DESIGN.md: Runs and sets are written below a handle of their folder

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from sys import float_info
from typing import Any

from operformer.errors import DataError, ResourceError, UsageError
from operformer.values import parse_json

PARTIAL = ".partial"
LARGEST_TEXT = 2**26  # bytes of settings, records and metrics
HAS_HANDLES = {os.open, os.mkdir, os.unlink, os.stat, os.rename} <= os.supports_dir_fd  # not on Windows
# Windows has no O_NOFOLLOW and no O_NONBLOCK, other systems have no O_BINARY.
_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_held: dict[Path, Held] = {}
_swept: set[tuple[int, int]] = set()


class GoneError(ResourceError):
    """The folder that was written to was moved, deleted or replaced meanwhile."""


class Place:
    """An open folder: acts by its handle, or by its path where a system knows no handles of folders (Windows)."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self.path, self.handle = path, handle

    def at(self, name: str) -> str:
        """What to call a file of this folder together with ``dir_fd=handle``."""
        return str(self.path / name) if self.handle is None else name

    def names(self) -> list[str]:
        """The names in the folder."""
        return os.listdir(self.path if self.handle is None else self.handle)

    def open(self, name: str, flags: int) -> int:
        """Open a plain file, never a link."""
        return os.open(self.at(name), flags | _SAFELY, 0o666, dir_fd=self.handle)

    def look(self, name: str) -> os.stat_result | None:
        """What is there under this name, a link as a link."""
        try:
            return os.stat(self.at(name), dir_fd=self.handle, follow_symlinks=False)
        except OSError:
            return None

    @contextmanager
    def inside(self, name: str, create: bool) -> Iterator[Place]:
        """A folder in this one."""
        if create:
            with suppress(FileExistsError):
                os.mkdir(self.at(name), dir_fd=self.handle)
        found = self.look(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise _refusal(self.path / name)
        if self.handle is None:
            yield Place(self.path / name, None)
            return
        with _handle(name, os.O_NOFOLLOW, self.handle) as handle:
            yield Place(self.path / name, handle)

    def put(self, name: str, content: bytes, is_new: bool = False) -> None:
        """Write beside, flush to disk, rename; what ``is_new`` takes no other's place."""
        beside = f".{name}.{secrets.token_hex(4)}.{socket.gethostname()}.{os.getpid()}{PARTIAL}"
        descriptor = self.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                self._link(beside, name)
            else:
                os.replace(self.at(beside), self.at(name), src_dir_fd=self.handle, dst_dir_fd=self.handle)
        except BaseException:
            self.remove(beside)
            raise

    def _link(self, beside: str, name: str) -> None:
        """Rename, unless the name is taken by then; where there are no hard links, just before."""
        try:
            os.link(self.at(beside), self.at(name), src_dir_fd=self.handle, dst_dir_fd=self.handle)
            self.remove(beside)
        except FileExistsError:
            raise
        except OSError:
            if self.look(name) is not None:
                raise FileExistsError(errno.EEXIST, "it is there already", name) from None
            os.replace(self.at(beside), self.at(name), src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def remove(self, name: str) -> None:
        """Remove a file that may be there."""
        with suppress(FileNotFoundError):
            os.unlink(self.at(name), dir_fd=self.handle)


class Held(Place):
    """The folder of a run or a set that this process writes to."""

    def __init__(self, path: Path, handle: int | None) -> None:
        super().__init__(path, handle)
        found = os.stat(path) if handle is None else os.fstat(handle)
        self._identity = (found.st_dev, found.st_ino)
        self._lasting: set[str] = set()

    def keep(self, name: str) -> None:
        """Nothing more is written once this file or folder is gone."""
        self._lasting.add(name)

    def forget(self, name: str) -> None:
        """It may go."""
        self._lasting.discard(name)

    def check(self) -> None:
        """Refuse to go on if the folder is no longer where it was, or if files that must stay have gone."""
        try:
            found = os.stat(self.path)
            is_same = (found.st_dev, found.st_ino) == self._identity
        except OSError:
            is_same = False
        if not is_same:
            now = self.now()
            raise GoneError(f"{self.path} was {f'moved to {now}' if now else 'deleted or replaced'} while in use")
        for name in sorted(self._lasting):
            if self.look(name) is None:
                raise GoneError(f"{self.path / name} was deleted while {self.path} was in use")

    def now(self) -> Path | None:
        """Where the folder is by now; None if it was deleted, or if the system does not tell."""
        try:
            path = Path(os.readlink(f"/proc/self/fd/{self.handle}"))
            found = os.stat(path)
        except OSError:
            return None
        return path if (found.st_dev, found.st_ino) == self._identity else None


@contextmanager
def held(folder: Path, create: bool = True) -> Iterator[Held]:
    """Hold a folder: what is written inside goes below its handle. A folder that is held already is the same one."""
    path, real = folder.absolute(), Path(os.path.realpath(folder))
    known = _held.get(path) or _held.get(real)
    with ExitStack() as stack:
        try:
            if known:
                known.check()
            elif create:
                folder.mkdir(parents=True, exist_ok=True)
            found = known or Held(path, stack.enter_context(_handle(str(real))))
            if not known:
                _sweep_below(found)
        except OSError as error:
            raise ResourceError(f"cannot write {folder}: {_reason(error)}; give another folder") from None
        for name in {path, real} - _held.keys():
            _held[name] = found
            stack.callback(_held.pop, name)
        yield found


def refuse_links(folder: Path, inside: Sequence[str] = ()) -> None:
    """Refuse links in a folder, and anywhere in these folders of it: what they lead to may be somebody's file."""
    for place in (folder, *(folder / name for name in inside)):
        for root, folders, files in os.walk(place):
            for path in (Path(root, name) for name in (*folders, *files)):
                if path.is_symlink():
                    raise _refusal(path)
            if place == folder:
                break


def write_bytes(path: Path, content: bytes, is_lasting: bool = True, is_new: bool = False) -> None:
    """Put the content at the path in one step: a reader sees the old file or the new one, never a part.

    Inside a folder that is held, a file that ``is_lasting`` must not be deleted by others as long as it is held.
    A file that ``is_new`` is refused if there is one by then, perhaps of another process.
    """
    holder, parts = _holder_of(path)
    try:
        with _folder_of(path, create=True) as folder:
            _sweep_once(folder)
            folder.put(path.name, content, is_new)
            if holder and is_lasting:
                holder.keep(parts[0])
    except OSError as error:
        if holder:
            holder.check()
        if is_new and isinstance(error, FileExistsError) and os.path.lexists(path):
            raise UsageError(f"{path} is there already, and was not replaced; give another name") from None
        raise ResourceError(f"cannot write {path}: {_reason(error)}; what was there before is untouched") from None


def write_json(path: Path, value: Any, is_lasting: bool = True) -> None:
    """Put a value at the path as JSON; NaN and infinity are refused, since JSON has none."""
    write_bytes(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode(), is_lasting)


def rename(path: Path, target: Path) -> None:
    """Give a file or folder another name in the same folder."""
    _forget(path)
    with _folder_of(path) as folder:
        os.rename(folder.at(path.name), folder.at(target.name), src_dir_fd=folder.handle, dst_dir_fd=folder.handle)


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    _forget(path)
    try:
        with _folder_of(path) as folder:
            folder.remove(path.name)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ResourceError(f"cannot remove {path}: {_reason(error)}") from None


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it, as far as possible; a link is left alone."""
    _forget(path)
    try:
        with _folder_of(path) as folder:
            if folder.handle is None:
                shutil.rmtree(folder.at(path.name), ignore_errors=True)
            else:
                shutil.rmtree(path.name, ignore_errors=True, dir_fd=folder.handle)
    except OSError:
        pass


def flush_folder(folder: Path) -> None:
    """Make the renames inside a folder durable."""
    with _folder_of(folder / "file") as place:
        if place.handle is not None:
            os.fsync(place.handle)


def remove_abandoned(folder: Path) -> None:
    """Remove files that a process of this machine was writing when it was killed."""
    try:
        with _folder_of(folder / "file") as place:
            _remove_abandoned(place)
    except OSError:
        pass


def sweep(folder: Path) -> None:
    """Remove what writes that were killed have left in a folder, which must be this process's alone."""
    try:
        with _folder_of(folder / "file") as place:
            for name in place.names():
                if name.startswith(".") and name.endswith(PARTIAL) and stat.S_ISREG(_mode(place, name)):
                    place.remove(name)
    except OSError:
        pass


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


def read_json(path: Path, largest: float = float_info.max) -> Any:
    """The value of a JSON file that has to be there; NaN and infinity are no JSON."""
    try:
        return parse_json(read_bytes(path, LARGEST_TEXT), largest)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not JSON: {error}") from None


@contextmanager
def _handle(name: str, flags: int = 0, above: int | None = None) -> Iterator[int | None]:
    """The handle of a folder while inside; None where there are none."""
    if not HAS_HANDLES:
        os.listdir(name)  # the same errors
        yield None
        return
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags, dir_fd=above)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _folder_of(path: Path, create: bool = False) -> Iterator[Place]:
    """The folder that a path lies in: below the one that is held, if there is one, else wherever it leads."""
    holder, parts = _holder_of(path)
    if holder:
        holder.check()
        with _below(holder, parts[:-1], create) as place:
            yield place
        return
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
    with _handle(str(path.parent)) as handle:
        yield Place(path.parent, handle)


@contextmanager
def _below(place: Place, parts: tuple[str, ...], create: bool) -> Iterator[Place]:
    if not parts:
        yield place
        return
    with place.inside(parts[0], create) as inner, _below(inner, parts[1:], create) as last:
        yield last


def _holder_of(path: Path) -> tuple[Held | None, tuple[str, ...]]:
    """The folder that is held and that the path lies in, and the way from there."""
    path = path.absolute()
    key = next((parent for parent in path.parents if parent in _held), None)
    return (None, ()) if key is None else (_held[key], path.relative_to(key).parts)


def _forget(path: Path) -> None:
    """What this process removes itself is not missed."""
    holder, parts = _holder_of(path)
    if holder and len(parts) == 1:
        holder.forget(parts[0])


def _refusal(path: Path) -> DataError:
    return DataError(f"{path} is a link, which could lead anywhere; remove it, or give another folder")


def _mode(place: Place, name: str) -> int:
    found = place.look(name)
    return 0 if found is None else found.st_mode


def _sweep_once(place: Place) -> None:
    """The first write of a process to a folder removes what processes that were killed have left there."""
    found = os.stat(place.path) if place.handle is None else os.fstat(place.handle)
    if (found.st_dev, found.st_ino) not in _swept:
        _swept.add((found.st_dev, found.st_ino))
        _remove_abandoned(place)


def _sweep_below(folder: Place) -> None:
    """The same in a folder that is held and in those right inside it."""
    _sweep_once(folder)
    for name in folder.names():
        if stat.S_ISDIR(_mode(folder, name)):
            with suppress(OSError, DataError), folder.inside(name, create=False) as inner:
                _sweep_once(inner)


def _remove_abandoned(place: Place) -> None:
    for found in place.names():
        stem, _, process = found.removesuffix(PARTIAL).rpartition(".")
        is_of_here = found.startswith(".") and found.endswith(PARTIAL) and stem.endswith(f".{socket.gethostname()}")
        if is_of_here and process.isdecimal() and not _is_alive(int(process)):
            place.remove(found)


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # os.kill would end it; a file of a living process cannot be removed there
        return False
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
