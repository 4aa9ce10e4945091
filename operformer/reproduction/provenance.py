"""Where numbers come from: versions, commit and device, as they were when a run was trained."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from operformer import __version__
from operformer.files import read_json, write_json

NAME = "made.json"
PACKAGES = ("torch", "numpy", "lightning-fabric", "matplotlib", "neuraloperator")


def provenance() -> dict[str, Any]:
    """This process's."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU ({platform.machine()})"
    here = {"operformer": __version__, "commit": _commit(), "python": platform.python_version(), "device": device}
    return here | {"threads": torch.get_num_threads()} | {name: _version(name) for name in PACKAGES}


def write_provenance(folder: Path) -> None:
    """Keep it beside a run that this process has trained."""
    write_json(folder / NAME, provenance())


def read_provenance(folder: Path) -> dict[str, Any]:
    """A run's; empty where it was trained by another command, which keeps none."""
    return dict(read_json(folder / NAME)) if (folder / NAME).is_file() else {}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout that this package lies in, with a mark if files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
