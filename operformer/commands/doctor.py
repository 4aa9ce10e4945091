"""The command that looks at the machine: doctor."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from operformer import __version__

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LEAST_PYTHON = (3, 11)
LITTLE_DISK = 2**30  # bytes
TF32_CAPABILITY = (8, 0)  # Ampere and newer
UNUSABLE = 5  # the exit code: a resource is missing
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[.*?\])?\s*(?:>=\s*(?P<least>[\d.]+))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"](?P<extra>[\w-]+)['\"]")
_DEVELOPMENT = ("dev", "docs")  # extras of those who change the library, of which these two say what runs here
_SHOWN_OF_DEVELOPMENT = ("triton", "playwright")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. What is ``absent`` only some commands need, what is ``broken`` all of them."""

    name: str
    state: Literal["ok", "absent", "broken"]
    found: str
    remedy: str = ""

    def line(self) -> str:
        """The finding for a terminal."""
        return f"{self.state:<8}{self.name:<20}{self.found}" + (f"; {self.remedy}" if self.remedy else "")


def doctor() -> int:
    """Look at this machine: versions, threads, GPU, kernels, disk; what is missing, and the command that installs it.

    The exit code is 0 if the library is usable here and 5 if it is not. Things that are absent are optional.
    """
    from operformer.commands.console import console

    console.print(f"operformer {__version__}, {Path(__file__).parents[1]}", soft_wrap=True)
    states = []
    for finding in examine():
        console.print(finding.line(), soft_wrap=True)
        states.append(finding.state)
    broken, absent = states.count("broken"), states.count("absent")
    rest = f"; optional and absent: {absent}" if absent else ""
    console.print(f"not usable, broken: {broken}{rest}" if broken else f"usable{rest}", soft_wrap=True)
    return UNUSABLE if broken else 0


def examine() -> Iterator[Finding]:
    """Everything that is looked at, in the order of a report."""
    yield _python()
    yield from _packages()
    torch = _torch()
    if isinstance(torch, Finding):
        yield torch
    else:
        yield from _processors(torch)
        yield from _kernels(torch)
    yield _browser()
    yield from _disk()


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < LEAST_PYTHON:
        wanted = ".".join(map(str, LEAST_PYTHON))
        return Finding("python", "broken", version, f"{wanted} or newer is needed; make a new environment with it")
    return Finding("python", "ok", version)


def _packages() -> Iterator[Finding]:
    """The packages that the installation's own metadata ask for, and those of its extras."""
    try:
        requirements = metadata.requires("operformer") or []
    except metadata.PackageNotFoundError:
        yield Finding("operformer", "absent", "not installed, read from a folder", "pip install --editable .")
        return
    for requirement in requirements:
        wanted, extra = _REQUIREMENT.match(requirement), _EXTRA.search(requirement)
        is_tool = extra is not None and extra["extra"] in _DEVELOPMENT
        if wanted and (not is_tool or wanted["name"] in _SHOWN_OF_DEVELOPMENT):
            yield _package(wanted["name"], wanted["least"] or "0", extra["extra"] if extra else None)


def _package(name: str, least: str, extra: str | None) -> Finding:
    lacking: Literal["absent", "broken"] = "absent" if extra else "broken"
    remedy = f"pip install 'operformer[{extra}]'" if extra else f"pip install '{name}>={least}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, lacking, "not installed", remedy)
    if _release(version) < _release(least):
        return Finding(name, lacking, f"{version}, older than {least}", remedy)
    return Finding(name, "ok", version)


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, 2.13.0 of 2.13.0+cpu; zeros at the end say nothing."""
    leading = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, re.sub(r"(?:\.0+)+$", "", leading[0]).split("."))) if leading else (0,)


def _torch() -> Any:
    """The module, or why it cannot be imported."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library that is missing or damaged
        reason = " ".join(str(error).split())
        return Finding("torch", "broken", f"cannot be imported ({reason})", "pip install --force-reinstall torch")
    return torch


def _processors(torch: Any) -> Iterator[Finding]:
    """The CPU, and each GPU or the reason why there is no GPU."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = _gibibytes(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) if hasattr(os, "sysconf") else "?"
    yield Finding("CPU", "ok", f"{cores} cores, {torch.get_num_threads()} threads, {memory} memory")
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            found = torch.cuda.get_device_properties(number)
            tf32 = "has TF32" if (found.major, found.minor) >= TF32_CAPABILITY else "has no TF32"
            text = f"{found.name}, {_gibibytes(found.total_memory)}, CUDA {torch.version.cuda}, {tf32}"
            yield Finding(f"GPU {number}", "ok", text)
    elif shutil.which("nvidia-smi") is None:
        yield Finding("GPU", "absent", "none found; everything runs on the CPU")
    elif torch.version.cuda is None:
        remedy = "install a CUDA build of torch: https://pytorch.org/get-started/locally"
        yield Finding("GPU", "absent", f"there is a driver, but torch {torch.__version__} has no CUDA", remedy)
    else:
        remedy = "see nvidia-smi and CUDA_VISIBLE_DEVICES; the driver may be too old"
        yield Finding(
            "GPU", "absent", f"there is a driver, but torch sees no device (CUDA {torch.version.cuda})", remedy
        )


def _kernels(torch: Any) -> Iterator[Finding]:
    """What attention is computed by, and whether layers can be fused (`can_fuse` of operators/composition.py)."""
    from operformer.operators.backends import HAS_TRITON
    from operformer.operators.composition import FUSED_WIDTHS

    on_gpu = torch.cuda.is_available()
    small = "; heads of 16 or 32 channels in half precision by a kernel that adds it" if HAS_TRITON else ""
    kind = f"flash kernels, log w as a key channel{small}" if on_gpu else "CPU kernels, log w as a mask"
    yield Finding("attention", "ok", kind)
    if not on_gpu:
        yield Finding("fused layers", "absent", "they need a GPU; plain layers are used")
    elif torch.cuda.get_device_capability() < TF32_CAPABILITY:
        yield Finding("fused layers", "absent", "they need TF32, which this GPU has not; plain layers are used")
    elif not HAS_TRITON:
        yield Finding("fused layers", "absent", "they need Triton; plain layers are used", "pip install triton")
    else:
        widths = f"{', '.join(map(str, FUSED_WIDTHS[:-1]))} or {FUSED_WIDTHS[-1]}"
        settings = f"training.averages=float16 training.products=tf32 operator.hidden_channels={widths}"
        yield Finding("fused layers", "ok", f"used with {settings}; plain layers otherwise")


def _browser() -> Finding:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        return Finding("chromium", "absent", "not found; tests of pages are skipped", "try: apt-get install chromium")
    return Finding("chromium", "ok", found)


def _disk() -> Iterator[Finding]:
    """Whether files can be written to the temporary folder, and to the one where runs/ would be."""
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError as error:
        yield Finding("temporary folder", "broken", error.strerror or "none", "export TMPDIR=A_FOLDER_TO_WRITE_TO")
    else:
        yield _folder("temporary folder", Path(temporary), "broken", "export TMPDIR=A_FOLDER_TO_WRITE_TO")
    yield _folder("this folder", Path.cwd(), "absent", "change to another folder, or give commands an --out")


def _folder(name: str, folder: Path, lacking: Literal["absent", "broken"], remedy: str) -> Finding:
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(b"operformer")
            file.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(name, lacking, f"{folder}: {(error.strerror or str(error)).lower()}", remedy)
    if free < LITTLE_DISK:
        return Finding(name, "absent", f"{folder}: only {free / 2**20:.0f} MiB free", remedy)
    return Finding(name, "ok", f"{folder}, {_gibibytes(free)} free")


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
