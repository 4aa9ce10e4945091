"""The files of an earlier revision, and scripts that run with its package.

    with tree_at("17ed50f") as tree: ...

`house.py`, `walk.py` and `benchmarks/second_call.py` compare the working tree with such a tree. This module prints
nothing, except one line where git or the revision is missing, as in an unpacked sdist.
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEFORE = "17ed50f"  # the last tree before the rooms moved
FOLDERS = (
    "operformer",
    "tests",
    "paper",
    "docs",
    "notebook",
    "README.md",
    "DESIGN.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)


@contextmanager
def tree_at(revision):
    """A temporary folder with the code of a revision; None, and a line that says why, if it cannot be read."""
    try:
        there = git("ls-tree", "--name-only", revision).decode().split()
        packed = git("archive", revision, *(name for name in FOLDERS if name in there))
    except (OSError, subprocess.CalledProcessError):
        print(f"before: git or its revision {revision} is not here, so only the working tree is measured")
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder).resolve()


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=True).stdout


def run_with(tree, script, *arguments):
    """The last line that a script prints, run with the package of a tree in a process of its own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(script), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{Path(script).name} failed with the package of {tree}:\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()[-1]


def print_table(rows, left):
    """Rows of a label and its values by column, with aligned columns; the first ``left`` columns hold words."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        pairs = enumerate(zip(row, widths, strict=True))
        print("  ".join(cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in pairs).rstrip())
