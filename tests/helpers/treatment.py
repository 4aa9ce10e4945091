"""How each printed command is carried out: as it is, made smaller, or not at all and then checked in another way.

A command that no entry of these tables names is run as it is printed, and so is a block of Python. Patterns match all
of it.
"""

# DESIGN.md: What pages print is run

import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from pages import ROOT

from paper.catalogue import CATALOGUE, Row
from paper.recipes import find_run
from paper.studies import STUDIES

PROGRAMS = ("operformer", "python", "torchrun")  # what is run; any other program has to stand in NOT_RUN

_SIZE = "operator.hidden_channels=8 operator.n_layers=1 operator.n_heads=2 training.epochs=1"
_LINE = f"data.train=24 data.validation=40 data.test=6 training.batch_size=8 {_SIZE}"
_PLANE = f"data.train=6 data.validation=2 data.test=3 training.batch_size=3 {_SIZE} operator.n_patches=[2,2]"
FEW = ("lorenz", "irregular")


@dataclass(frozen=True)
class Smaller:
    """A command that is too costly as it is printed: words to put at its end, words to put in place of others.

    ``tiny`` has the catalogue's experiments shrunk, FEW studies are all, and their runs are made in this process.
    """

    pattern: str
    append: str = ""
    replace: Mapping[str, str] = field(default_factory=dict)
    tiny: bool = False

    def apply(self, command: str) -> str:
        """The smaller command; what is to be replaced has to be there."""
        for old, new in self.replace.items():
            if old not in command:
                raise AssertionError(f"{command!r} holds no {old!r}, which the table replaces")
            command = command.replace(old, new)
        return f"{command} {self.append}".strip()


@dataclass(frozen=True)
class NotRun:
    """A command that cannot be run in a test: why, and what is checked of it instead."""

    pattern: str
    reason: str
    check: Callable[[str], None]


SMALLER = (
    Smaller(r"operformer train lorenz-y (?!data\.resolution).*", append=_LINE),
    Smaller(r"python -m paper (train lorenz-y --recipe best|record|report results).*", tiny=True),
    Smaller(r"python benchmarks/own_data\.py .*", "oscillator --samples 24", {"--minutes 0.5": "--minutes 0.01"}),
    Smaller(r"python -m paper queue", append="lorenz-yz", tiny=True),
    Smaller(r"python -m paper queue --minutes .*", "lorenz-yz", {"--minutes 25": "--minutes 0.001"}, tiny=True),
    Smaller(
        r"python -m paper sweep .*",
        append="darcy-416-vitno --rates 1e-3 --settings training.epochs=1 --settings data.train=2 "
        "--settings data.validation=1 --settings operator.n_layers=1 --settings operator.n_modes=2",
        replace={"--recipe same-operator": "--recipe smoke"},
    ),
    Smaller(r"operformer train data/mine .*", replace={"--minutes 2": "--minutes 0.02"}),
    Smaller(r"operformer train examples/darcy\.toml --out .*", append=_PLANE),
    Smaller(r"torchrun --nproc-per-node 4 .* train lorenz-y .*", _LINE, {"--nproc-per-node 4": "--nproc-per-node 2"}),
    Smaller(r"python -m paper reproduce (?!--from).*", tiny=True),
)


def _check_target(command: str) -> None:
    target = command.split()[-1]
    assert re.search(rf"^{re.escape(target)}:.*##", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), command


def _check_environment(command: str) -> None:
    assert re.search(r"^VENV := \.venv$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), command


def _check_extra(command: str) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if command.startswith("pip install torch --index-url "):
        assert command.split()[-1] in (ROOT / "Makefile").read_text(), f"{command}: not what make CPU=1 does"
        return
    wanted = re.fullmatch(r"pip install (?:-e )?'?(?:operformer|\.)(?:\[([\w,-]+)\])?'?", command)
    assert wanted, f"{command}: not this package"
    assert wanted[1] is None or set(wanted[1].split(",")) <= known.keys(), command


def _check_script(command: str) -> None:
    subprocess.run(["bash", "-n", ROOT / command.split()[1]], check=True)


NOT_RUN = (
    NotRun(r"make (CPU=1 )?[\w-]+", "it makes .venv from the network, and this test is part of it", _check_target),
    NotRun(r"\. \.venv/bin/activate", "the test runs in an environment already", _check_environment),
    NotRun(r"pip install .*", "it needs the network", _check_extra),
    NotRun(r"bash benchmarks/on_a_gpu\.sh .*", "it needs a GPU and ten minutes", _check_script),
    NotRun(r"operformer\.push_to_hub\(.*", "it needs the Hub", lambda text: compile(text, "page", "exec")),
)

# What a page's comments say, asked in the namespace of its Python after its last step.
PROMISES: Mapping[str, tuple[str, ...]] = {
    "README.md": ("z.shape == (8, 1, 201)",),
    "docs/problems/darcy.md": ("bool((z - pair.z).norm() < 0.01 * pair.z.norm())",),
    "docs/own-data.md": ("samples.u.shape == (60, 1, 32, 32)", "found.z.shape == (60, 1, 64, 64)"),
    "docs/grids.md": ("there.z.shape == (1, 1, 300)", "at.z.shape == (6, 1, 33, 33)"),
    "docs/trust.md": ("bool((lower < z).all())",),
}


def _write_mine() -> None:
    x = np.linspace(0, 1, 32)
    u = np.random.default_rng(0).normal(size=(60, 1, 1)) * np.sin(6 * x[:, None] + x)
    np.savez("mine.npz", u=u, z=u.cumsum(-1) / 32, x=x, y=x)


def _write_new() -> None:
    np.savez("new.npz", u=np.random.default_rng(1).normal(size=(3, 32, 32)))


# Files that readers bring along; each is made when a command names it that no step before has made.
BROUGHT: Mapping[str, Callable[[], None]] = {"mine.npz": _write_mine, "new.npz": _write_new}


def treatment_of(command: str) -> Smaller | NotRun | None:
    """The entry for a command or a block of Python; None if it is run as it is."""
    found = [entry for entry in (*SMALLER, *NOT_RUN) if re.fullmatch(entry.pattern, command, flags=re.DOTALL)]
    if len(found) > 1:
        raise AssertionError(f"{command!r} matches {' and '.join(entry.pattern for entry in found)}")
    return found[0] if found else None


@cache
def tiny_rows() -> dict[str, Row]:
    """The runs of FEW studies, shrunk."""
    smaller = f"data.resolution=8 {_LINE}".split()
    return {
        name: replace(
            CATALOGUE[name], authors=find_run(name, "authors", smaller), smoke=find_run(name, "smoke", smaller)
        )
        for study in FEW
        for name in STUDIES[study].runs
    }
