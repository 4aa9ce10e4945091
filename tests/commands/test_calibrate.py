"""`operformer calibrate`: what it promises, counts and writes, and its exit codes."""

import json
import signal
from statistics import median

import numpy as np
import pytest

from operformer import Samples, evaluate, load
from operformer.data.importing import store
from operformer.evaluation.conformal import calibrate
from operformer.problems import ControlledODE
from operformer.runs import read_run, train_run
from operformer.runs.experiment import Data, Experiment
from operformer.runs.records import read_calibration
from operformer.training.loop import Training

PROBLEM = ControlledODE(n_terms=2, decay=1.0)  # smooth, so that 16 steps resolve it


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate") / "run"
    experiment = Experiment(
        "small",
        PROBLEM,
        {"name": "TNO", "hidden_channels": 8, "n_layers": 1, "n_heads": 2},
        Data(resolution=16, train=10, validation=23, test=29),
        Training(epochs=1, batch_size=5, device="cpu"),
    )
    train_run(experiment, folder)
    return folder


@pytest.fixture(autouse=True)
def _signals_as_they_were():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("options", "first", "count"), [((), 10, 23), (("--draws", 31), 62, 31)])
def test_the_file_holds_what_python_finds(call, run, options, first, count):
    code, out, err = call("calibrate", run, *options)
    assert (code, err) == (0, "")
    found = read_calibration(run / "calibration.json")
    pairs = PROBLEM.sample(count, 16, first=first)
    expected = calibrate(load(run / "operator"), pairs, 0.1, 0.05)
    assert found.count == expected.count == count - count // 2
    assert found.factor == pytest.approx(expected.factor, rel=1e-4)  # the command draws in float32
    assert found.relative_error == pytest.approx(expected.relative_error, rel=1e-4)
    assert f"{found.relative_error:.2%}" in out
    counted = json.loads((run / "calibration.json").read_text())["coverage"]
    assert {"0.5x", "1x", "2x", "irregular", "graded"} <= counted.keys()
    assert f"{counted['graded']['functions']:.1%}" in out
    # 29 new pairs: each grid's share is within a binomial's reach of 0.9, and all grids agree within a few pairs.
    shares = [grid["functions"] for grid in counted.values()]
    assert min(shares) >= 0.65
    assert max(shares) - min(shares) <= 5 / 29


def test_predictions_and_reports_carry_it_and_sets_of_others_are_evaluated(call, run, tmp_path):
    assert call("calibrate", run)[0] == 0
    found, others = read_calibration(run / "calibration.json"), PROBLEM.sample(7, 24, seed=5)
    np.savez(tmp_path / "new.npz", u=others.u, x=others.grid.axes[0])
    code, out, _ = call("predict", run, tmp_path / "new.npz", "--out", tmp_path / "z.npz")
    assert code == 0
    assert "the truth is within half_width of z on at least 0.95 of the domain" in out
    with np.load(tmp_path / "z.npz") as written:
        np.testing.assert_allclose(written["half_width"], found.half_width(others.grid))
        assert (written["alpha"], written["relative_error"]) == (0.1, found.relative_error)
    store(others, tmp_path / "box", "box", {"file": "none"})
    code, out, err = call("evaluate", run, "--set", tmp_path / "box")
    assert code == 0
    assert err.startswith("operformer: warning: the median relative H1 error is 81%")
    errors = evaluate(load(run / "operator"), others).errors
    assert "box (set): 7 samples, 25 points" in out
    assert f"{median(errors):.2%}" in out
    assert not (run / "evaluation.json").exists()
    assert call("evaluate", run)[0] == call("evaluate", run, "--set", tmp_path / "box")[0] == 0
    kept = read_run(run).evaluations
    assert [one.label for one in kept].count("box (set)") == 1
    assert kept[-1].errors == pytest.approx(errors, rel=1e-3)
    assert call("report", run)[0] == 0
    page = (run / "report.html").read_text()
    for text in ("box (set)", f"its relative L2 error is at most {found.relative_error:.2%}", "Share of test samples"):
        assert text in page
    store(Samples(others.u[:, [0, 0]], others.z, others.grid), tmp_path / "two", "two", {"file": "none"})
    code, _, err = call("evaluate", run, "--set", tmp_path / "two")
    assert code == 2
    assert "maps 1 to 1 channels in dimension 1: got samples with 2 to 1 channels" in err


def test_the_same_width_everywhere(call, run):
    code, out, _ = call("calibrate", run, "--spread", "constant", "--delta", 0, "--alpha", 0.25)
    assert code == 0
    found = read_calibration(run / "calibration.json")
    assert found.count == 23
    assert (
        float(found.spread.max())
        == float(found.spread.min())
        == pytest.approx(float(load(run / "operator").output_scale), rel=1e-12)
    )
    assert "everywhere" in out


def test_few_draws_fall_back_to_the_same_width_in_one_line(call, run):
    code, out, err = call("calibrate", run, "--draws", 15)
    assert (code, err.count("\n")) == (0, 1)
    assert "15 samples are too few" in err
    assert 'spread="constant"; at alpha=0.1 17 validation samples are enough' in err
    found = read_calibration(run / "calibration.json")
    assert float(found.spread.max()) == float(found.spread.min())
    counted = json.loads((run / "calibration.json").read_text())["coverage"]["1x"]
    assert f"{counted['width']:.2g}" in out
    z = PROBLEM.sample(29, 16, first=33).z  # the band has one width, so it is that over the deviation
    half = float(found.half_width(found.grid).max())
    assert counted["width"] == pytest.approx(half / float(z.std(correction=0)), rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["--alpha", 0.01], 2, "alpha=0.01 needs scores of at least 99 samples: got 23"),
        (["--alpha", 2], 2, "alpha must be between 0 and 1"),
        (["--delta", -1], 2, "delta must be from 0"),
        (["--draws", 3], 2, "got 3"),
    ],
)
def test_what_cannot_be_promised_is_one_line(call, run, arguments, code, part):
    found, _, err = call("calibrate", run, *arguments)
    assert (found, err.count("\n")) == (code, 1)
    assert part in err


def test_a_folder_without_a_run_is_one_line(call, tmp_path):
    code, _, err = call("calibrate", tmp_path)
    assert code == 3
    assert "holds no run" in err
