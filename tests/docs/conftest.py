"""The documentation, built once for all tests and all workers."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "making"))  # where MkDocs finds its hooks


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site; every warning of the build is an error."""
    pytest.importorskip("mkdocs", reason="mkdocs belongs to the extra docs")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = shared / "site", shared / "site-built"
    with (shared / "site-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _build(folder)
            done.touch()
    return folder


def _build(folder):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    # Not quiet: what is not said is not counted, and then no warning is an error.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr


@pytest.fixture(scope="session")
def pages(site):
    """Every page of the site."""
    found = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    assert len(found) > 25
    return found
