"""Where numbers come from: versions, commit and device, as they were when a run was trained, and what took how long."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from os.path import lexists
from pathlib import Path
from typing import Any

import torch

from operformer import __version__
from operformer.errors import DataError
from operformer.files import read_json, write_json
from operformer.values import LARGEST_NUMBER

NAME = "made.json"
SECONDS = "seconds.json"
COMMIT = "OPERFORMER_COMMIT"  # of a copy of the files: what git describe --always --dirty says where it was made
PACKAGES = ("torch", "triton", "numpy", "matplotlib", "neuraloperator")


def provenance(device: torch.device | None = None) -> dict[str, Any]:
    """This process's, on the GPU if there is one and nothing else is said."""
    is_on_gpu = torch.cuda.is_available() if device is None else device.type == "cuda"
    named = torch.cuda.get_device_name() if is_on_gpu else f"CPU ({platform.machine()})"
    here = {"operformer": __version__, **_commit(), "python": platform.python_version(), "device": named}
    return here | {"threads": torch.get_num_threads()} | {name: _version(name) for name in PACKAGES}


def write_provenance(folder: Path, device: torch.device | None = None) -> None:
    """Keep it beside a run that is trained on the device; one that goes on keeps the time of its first start."""
    started = {"started": datetime.now(UTC).isoformat(timespec="seconds")}
    before = {key: value for key, value in read_provenance(folder).items() if key == "started"}
    write_json(folder / NAME, provenance(device) | started | before)


def read_provenance(folder: Path) -> dict[str, Any]:
    """A run's; empty where it was trained from Python, which keeps none."""
    return _table(folder / NAME)


def note_seconds(folder: Path, part: str, seconds: float) -> None:
    """Keep beside a run how long a part of it took, of those that its metrics do not tell: data, evaluation."""
    write_json(folder / SECONDS, read_seconds(folder) | {part: round(seconds, 3)})


def read_seconds(folder: Path) -> dict[str, Any]:
    """What was noted."""
    found = _table(folder / SECONDS)
    if not all(isinstance(seconds, int | float) for seconds in found.values()):
        raise DataError(f"{folder / SECONDS} is damaged (a value is no number); remove it")
    return found


def _table(path: Path) -> dict[str, Any]:
    values = read_json(path, LARGEST_NUMBER) if lexists(path) else {}  # a link to nowhere is damage, too
    if not isinstance(values, dict):
        raise DataError(f"{path} is damaged (no table); remove it")
    return values


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> dict[str, Any]:
    """The commit of the checkout that this package lies in, and whether its files are those of the commit."""
    said = os.environ.get(COMMIT, "")
    if not said and _git("ls-files", "--error-unmatch", Path(__file__).name):  # an environment may lie in another
        said = _git("describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")
    return {"commit": said.removesuffix("-dirty") or None, "is_clean": not said.endswith("-dirty") if said else None}


def _git(*arguments: str) -> str:
    """What git says of the folder of this file; nothing where it fails."""
    try:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
