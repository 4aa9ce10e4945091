"""How much memory there is, asked before it is taken: what does not fit is refused in one line, with its size."""

# DESIGN.md: Sizes are asked for before they are taken

from __future__ import annotations

import sys
from pathlib import Path

from operformer.errors import ResourceError, UsageError

UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
UNNOTICED = 2**24  # bytes of which nobody asks
_limit: int | None = None  # what a user allows, by --memory


def require_memory(size: int, what: str, remedy: str) -> None:
    """Refuse what needs so many bytes if that is more than there are."""
    if size < UNNOTICED and _limit is None:
        return
    there = available()
    if there is not None and size > there:
        said = f"{what} needs {spoken(size)} of memory, and {spoken(there)} are available"
        raise ResourceError(f"{said}; {remedy}")


def available() -> int | None:
    """The bytes that this process may still take; None where the system does not tell."""
    found = [_limit] if _limit is not None else []
    found += [room for room in (_of_the_machine(), _of_the_group(), _of_the_process()) if room is not None]
    return max(0, min(found)) if found else None


def set_limit(text: str | None) -> None:
    """What a user allows: 500M, 8G, or plain bytes; None is all that there is."""
    global _limit
    if text is None:
        _limit = None
        return
    number, unit = text.strip().lower().removesuffix("b").removesuffix("i"), ""
    if number[-1:] in UNITS:
        number, unit = number[:-1], number[-1:]
    try:
        size = float(number) * UNITS[unit]
    except ValueError:
        size = 0.0
    if not 1 <= size < 2**63:
        raise UsageError(f"--memory must be a size, such as 500M or 8G: got {text!r}")
    _limit = int(size)


def spoken(size: int) -> str:
    """A number of bytes as people say it; also one that no floating point number holds."""
    for unit, name in ((40, "TiB"), (30, "GiB"), (20, "MiB")):
        if size >> unit:
            tenths = 10 * size >> unit
            return f"{tenths // 10}.{tenths % 10} {name}" if tenths < 10**7 else f"more than a million {name}"
    return f"{size} bytes"


def _of_the_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


def _of_the_group() -> int | None:
    """The limit of a container, less what is taken."""
    group = Path("/sys/fs/cgroup")
    try:
        return int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no container, or one without a limit
        return None


def _of_the_process() -> int | None:
    """The limit of ulimit, less what is taken."""
    if sys.platform == "win32":
        return None
    import resource

    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    if all(limit == resource.RLIM_INFINITY for limit in limits):
        return None
    try:
        pages = [int(word) for word in Path("/proc/self/statm").read_text().split()]
    except (OSError, ValueError):
        return None
    taken = [pages[0] * resource.getpagesize(), pages[5] * resource.getpagesize()]
    return min(limit - used for limit, used in zip(limits, taken, strict=True) if limit != resource.RLIM_INFINITY)
