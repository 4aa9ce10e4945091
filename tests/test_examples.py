"""The scripts among the examples run, print what their first lines promise, and leave the files that they name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import operformer
from operformer.data.importing import import_pairs
from operformer.runs import find_experiment

pytestmark = pytest.mark.pages

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
NUMBER = r"-?[\d.]+(?:e[-+]\d+)?%?"


@pytest.fixture
def run(tmp_path):
    """Run a script in a folder of its own: what it prints."""

    def carry_out(script, *arguments):
        root = str(Path(operformer.__file__).parent.parent)
        strict = {"PYTHONPATH": root, "PYTHONWARNINGS": "error::DeprecationWarning:__main__"}
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / script), *arguments],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", **strict},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return carry_out


def row(out, name, after=""):
    """The numbers that follow the name on its line, percentages as fractions; of the lines below ``after``."""
    found = re.search(rf"^ *{re.escape(name)}((?: +{NUMBER})+)", out[out.index(after) :], flags=re.MULTILINE)
    assert found, f"no line {name!r} in:\n{out}"
    return [float(text.strip("%")) / (100 if text.endswith("%") else 1) for text in found[1].split()]


def assert_a_picture(path):
    pixels = matplotlib.image.imread(path)
    assert min(pixels.shape[:2]) >= 400
    assert pixels[..., :3].std() > 0.05  # something is on it


def test_every_script_is_run():
    tested = {name[5:7] for name in globals() if re.match(r"test_\d\d_", name)}
    assert tested == {script[:2] for script in SCRIPTS}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_an_experiment_among_the_examples_is_read(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    u = np.zeros((60, 24, 24))
    np.savez("mine.npz", u=u, z=u)
    import_pairs("mine.npz", "data/mine", layout="b x y", grid="nodes")  # what own.toml is about
    experiment = find_experiment(str(path))
    assert experiment.make_operator().in_channels == experiment.problem.in_channels


def test_01_attention_converges_as_its_quadrature_does(run, tmp_path):
    out = run("01_attention_is_quadrature.py")
    for rule, order, slack in [
        ("nodes, trapezoidal weights", 2, 0.1),
        ("cells, equal weights", 2, 0.1),
        ("graded, trapezoidal weights", 2, 0.1),
        ("random, equal weights", 0.5, 0.1),
        ("graded, no weights", 0, 0.1),
    ]:
        *errors, observed = row(out, rule)
        assert len(errors) == 6
        assert abs(observed - order) < slack, rule
        assert abs(np.log2(errors[0] / errors[-1]) / 5 - order) < 2 * slack  # the order is that of these errors
    assert 1.4 < row(out, "random, Voronoi weights")[-1] < 2.1
    assert row(out, "graded, no weights")[-2] > 1e4 * row(out, "graded, trapezoidal weights")[-2]
    assert_a_picture(tmp_path / "runs/attention_is_quadrature.png")


def test_02_a_trained_operator_holds_on_grids_it_never_saw(run, tmp_path):
    out = run("02_zero_shot_lorenz.py", "--small")
    points, trained, _ = row(out, "training grid")
    assert points == 41
    assert trained < 0.2
    others = ["half the resolution", "twice the resolution", "graded, points crowd at the start"]
    for name in [*others, "irregular, second half coarser"]:
        assert 0.75 * trained < row(out, name)[1] < 1.4 * trained, name
    for name in others:
        assert row(out, name, after="x on the training grid")[1] < 1.4 * trained, name
    _, error, without_weights = row(out, "graded, points crowd at the start")
    assert without_weights > 1.4 * error
    assert_a_picture(tmp_path / "runs/zero_shot_lorenz.png")


def test_03_darcy_flow_from_half_to_twice_the_resolution(run, tmp_path):
    out = run("03_darcy_on_a_laptop.py", "--small")
    l2, h1 = row(out, "16 x 16")
    assert l2 < 0.2
    assert h1 < 0.35
    for n in (8, 12, 24, 32):
        assert row(out, f"{n} x {n}")[0] < 1.5 * l2, n
    assert "certificate passed: 6 passed" in out
    assert 1.8 < row(out, "refine")[1] < 2.2
    assert_a_picture(tmp_path / "runs/darcy_on_a_laptop.png")


def test_04_own_arrays_and_predictions_at_another_resolution(run, tmp_path):
    out = run("04_your_own_data.py")
    assert row(out, "error on 20 test pairs:")[0] < 0.25
    assert row(out, "error on 10 new functions at twice the resolution:")[0] < 0.25
    written = np.load(tmp_path / "predicted.npz")
    assert written["z"].shape == (10, 1, 32, 32)
    operator = operformer.load(tmp_path / "runs/mine/operator")
    again = operformer.predict(operator, *operformer.read_inputs(tmp_path / "predicted.npz", operator))
    np.testing.assert_allclose(again.z, written["z"], rtol=0, atol=1e-5)


def test_05_every_function_on_points_of_its_own(run):
    out = run("05_irregular_points.py")
    assert row(out, "error on 20 test functions, each on points of its own:")[0] < 0.2
    assert row(out, "error on a grid of 33 x 33 points:")[0] < 0.2


def test_06_a_loop_of_pytorch_learns(run, tmp_path):
    out = run("06_plain_pytorch.py")
    errors = [row(out, f"epoch {epoch}: error on 16 test samples:")[0] for epoch in range(1, 7)]
    assert errors[-1] < 0.2
    assert errors[-1] < errors[0] / 2
    assert "100 samples of 128; Samples(3 pairs" in out
    assert operformer.load(tmp_path / "runs/plain").in_channels == 1


def test_07_the_residual_is_made_smaller(run):
    out = run("07_darcy_residual.py", "--small")
    (_, without), (error, residual) = row(out, "without residual"), row(out, "with residual")
    assert residual < 0.8 * without
    assert error < 0.3
