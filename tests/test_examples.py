"""The scripts among the examples run, print errors below what they had here, and leave what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import operformer

EXAMPLES = Path(__file__).parent.parent / "examples"
BELOW = {"04_your_own_data.py": 0.25, "05_irregular_points.py": 0.2}


def test_every_script_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} >= BELOW.keys()


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs(script, tmp_path):
    root = str(Path(operformer.__file__).parent.parent)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": root,
        "PYTHONWARNINGS": "error::DeprecationWarning:__main__",
    }
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    errors = [float(found) / 100 for found in re.findall(r"^error .*: ([\d.]+)%$", done.stdout, flags=re.MULTILINE)]
    if script in BELOW:
        assert len(errors) == 2
        assert max(errors) < BELOW[script]
    if script.startswith("04"):
        written = np.load(tmp_path / "predicted.npz")
        assert written["z"].shape == (10, 1, 32, 32)
        operator = operformer.load(tmp_path / "runs/mine/operator")
        again = operformer.predict(operator, *operformer.read_inputs(tmp_path / "predicted.npz", operator))
        np.testing.assert_allclose(again.z, written["z"], rtol=0, atol=1e-5)
