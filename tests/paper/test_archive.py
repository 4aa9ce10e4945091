"""Records of runs at the paper's size: kept, read back, and refused where they are not what they claim to be."""

import json
import re
from dataclasses import replace
from shutil import copytree

import pytest
from synthetic import pictured, record

import operformer
from operformer.errors import DataError, UsageError
from operformer.evaluation.errors import evaluate
from operformer.runs import read_run
from paper.archive import file_name, keep, read_archive, read_record, record_run

NAME = "lorenz-yz"  # of tiny_catalogue


def test_a_record_comes_back(tmp_path):
    given = record("darcy-64-tno", "best", 2.5e-3, seed=3)
    path = keep(given, tmp_path)
    assert path == tmp_path / "best" / "darcy-64-tno-seed-3.json"
    found = read_record(path)
    assert (found.parameters, found.seconds, found.clock) == (598145, 100.0, {"data": 7.0, "evaluation": 11.0})
    assert found.changes["training.augment"] == (False, True)
    assert found.changes["training.epochs"] == (80, 20)
    assert "training.loss" not in found.changes
    for one, there in zip(given.measured, found.measured, strict=True):
        assert (one.label, one.points) == (there.label, there.points)
        for kind in ("l2", "h1"):
            for key in ("median", "mean", "worst"):
                assert getattr(getattr(there, kind), key) == pytest.approx(getattr(getattr(one, kind), key), rel=1e-3)
    assert found.trained.errors[1] == float(f"{2 * 2.5e-3 / 199:.4g}")  # four digits
    assert len(found.trained.h1_errors) == 200
    assert found.on("2x").h1_errors == ()  # of which the summary is kept
    assert path.stat().st_size < 60_000


def test_samples_of_a_plane_stay_small(tmp_path):
    assert keep(pictured("kolmogorov-416-spectral", 64), tmp_path).stat().st_size < 200_000


@pytest.mark.parametrize(("label", "median", "worst"), [("2y", 1e-2, 2e-2), ("1x", 1e-2, 1e-2), ("1x", 3e-2, 2e-2)])
def test_samples_of_another_run_are_refused(tmp_path, label, median, worst):
    given = pictured("kolmogorov-416-spectral", 2)
    (first, last) = given.looks["1x"]
    others = {label: (replace(first, error=median), replace(last, error=worst))}
    with pytest.raises(DataError, match="pictures"):
        keep(replace(given, looks=others), tmp_path)


def test_an_archive_has_both_recipes_and_all_seeds(tmp_path):
    for given in (record("darcy-64-tno", "best", 1e-3, seed) for seed in (2, 0, 11)):
        keep(given, tmp_path)
    keep(record("darcy-64-tno", "same-operator", 2e-3), tmp_path)
    found = read_archive(tmp_path)
    assert [file_name(r) for r in found["best"]["darcy-64-tno"]] == [
        "darcy-64-tno", "darcy-64-tno-seed-2", "darcy-64-tno-seed-11",
    ]  # fmt: skip
    assert [r.trained.l2.median for r in found["same-operator"]["darcy-64-tno"]] == [pytest.approx(2e-3, rel=1e-3)]
    (tmp_path / "same-operator" / "darcy-64-tno.json").rename(tmp_path / "best" / "darcy-416-vitno.json")
    with pytest.raises(DataError, match="holds darcy-64-tno of the recipe same-operator; move it there"):
        read_archive(tmp_path)


def test_another_runs_record_is_not_replaced(tmp_path):
    path = keep(record("darcy-64-tno", "best", 1e-3), tmp_path)
    keep(record("darcy-64-tno", "best", 1.1e-3), tmp_path)  # the same run, evaluated again
    before = path.read_bytes()
    other = record("darcy-64-tno", "best", 2e-3, started="2031-01-01T00:00:00+00:00")
    with pytest.raises(UsageError, match=r"is the record of another run; give --replace"):
        keep(other, tmp_path)
    assert path.read_bytes() == before
    keep(other, tmp_path, is_replaced=True)
    assert read_record(path).trained.l2.median == pytest.approx(2e-3, rel=1e-3)


DAMAGE = {
    "no JSON": lambda text: text[: len(text) // 2],
    "a list": lambda text: "[1, 2]",
    "nested": lambda text: "[" * 100_000,
    "a null": lambda text: "null",
    "not a number": lambda text: text.replace('"errors": [0.0', '"errors": [NaN', 1),
    "infinity": lambda text: text.replace('"errors": [0.0', '"errors": [1e999', 1),
    "an error beyond floats": lambda text: text.replace('"errors": [0.0', f'"errors": [{10**400}', 1),
    "grids that are text": lambda text: text.replace('"measured": [', '"measured": ["a", ', 1),
    "no version": lambda text: text.replace('"version"', '"edition"'),
    "another version": lambda text: text.replace('"version": 1', '"version": 7'),
    "no errors": lambda text: text.replace('"errors"', '"mistakes"', 1),
    "a summary of other errors": lambda text: re.sub(r'"median": [\d.e-]+', '"median": 0.5', text, count=1),
    "no commit": lambda text: text.replace('"commit"', '"comit"'),
    "no seconds": lambda text: text.replace('"evaluation": 11.0', '"valuation": 11.0'),
    "a negative error": lambda text: text.replace('"errors": [0.0', '"errors": [-1.0', 1),
    "a word for an error": lambda text: text.replace('"errors": [0.0', '"errors": ["a"', 1),
    "a sample too few": lambda text: text.replace('"errors": [0.0,', '"errors": [', 1),
    "another recipe": lambda text: text.replace('"recipe": "same-operator"', '"recipe": "mine"'),
    "a setting that is none": lambda text: text.replace('"batch_size"', '"batch_sizes"', 1),
    "augmented": lambda text: text.replace('"augment": false', '"augment": true'),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_told_in_one_line(tmp_path, call_paper, damage):
    path = keep(record("darcy-64-tno", "same-operator", 1e-3), tmp_path / "results")
    path.write_text(damage(path.read_text()))
    code, _, err = call_paper("report", tmp_path / "results")
    assert (code, err.count("\n")) == (3, 1)
    assert str(path) in err
    assert not (tmp_path / "RESULTS.md").exists()


# Runs


def test_a_run_becomes_a_record_by_four_commands(call, call_paper, tmp_path, monkeypatch, tiny_catalogue):
    monkeypatch.chdir(tmp_path)
    assert call_paper("train", NAME, "training.seed=2", "--recipe", "same-operator")[0] == 0
    folder = tmp_path / "runs" / f"{NAME}-same-operator-seed-2"
    code, _, err = call_paper("record", folder, "--recipe", "same-operator")
    assert (code, err.count("\n")) == (3, 1)  # not evaluated
    assert call("evaluate", folder)[0] == 0
    code, out, err = call_paper("record", folder, "--recipe", "same-operator")
    assert (code, err) == (0, "")
    path = tmp_path / "results" / "same-operator" / f"{NAME}-seed-2.json"
    assert f"results/same-operator/{NAME}-seed-2.json" in out
    run, values = read_run(folder), json.loads(path.read_text())
    there = {one["label"]: one for one in values["measured"]}
    for evaluation in run.evaluations:
        assert there[evaluation.label]["l2"]["median"] == evaluation.median
        assert there[evaluation.label]["h1"]["worst"] == evaluation.h1.worst
        assert there[evaluation.label]["errors"] == [float(f"{error:.4g}") for error in evaluation.errors]
    assert values["looks"].keys() == {"1x"}  # on which a figure shows it
    assert read_record(path).looks["1x"][1].error == pytest.approx(run.evaluation("1x").worst, rel=1e-5)
    assert values["settings"]["training"]["seed"] == 2
    assert read_record(path).changes == {"training.schedule": ("plateau", "one-cycle"), "training.seed": (0, 2)}
    assert values["seconds"] == pytest.approx(run.seconds, abs=1e-3)
    assert set(values["clock"]) == {"data", "evaluation"}
    assert {"commit", "is_clean", "device", "torch", "python", "started"} <= values["made"].keys()
    assert values["outputs"] == json.loads((folder / "outputs.json").read_text())
    assert values["curve"] == pytest.approx([line["validation_error"] for line in run.metrics], rel=1e-3)
    assert values["fresh"] is None
    for e in run.evaluations:
        assert there[e.label]["standardised"]["median"] == pytest.approx(e.standardised.median)
    assert call_paper("record", folder, "--recipe", "same-operator", "--fresh")[0] == 0  # the same run again
    fresh = read_record(path).fresh
    (samples,) = run.experiment.problem.sample(500, 8, seed=10**6, first=16).blocks(500)
    found = evaluate(operformer.load(folder / "operator"), samples, outputs=run.outputs)
    assert fresh.errors == pytest.approx(found.errors, rel=1e-3)
    assert fresh.standardised.worst == pytest.approx(found.standardised.worst, rel=1e-3)
    code, out, err = call_paper("report", "results")
    assert (code, err) == (0, "")
    assert "1 records" in out
    link = f"[same-operator/{NAME}-seed-2](results/same-operator/{NAME}-seed-2.json)"
    assert link in (tmp_path / "RESULTS.md").read_text()
    code, _, err = call_paper("record", folder, "--recipe", "best", "--out", "elsewhere")
    assert (code, err) == (0, "")  # anything that follows the first recipe follows the other one


def test_a_run_that_is_not_done_or_not_known_is_refused(made, tmp_path, tiny_catalogue, monkeypatch):
    run = copytree(made[0] / "runs" / NAME, tmp_path / "run")
    record_run(run, "same-operator")
    for damage, complaint in (
        (lambda: (run / "made.json").unlink(), r"does not say what it was trained with"),
        (lambda: (run / "metrics.jsonl").write_text(""), r"is at epoch 0 of 1; train it on"),
    ):
        damage()
        with pytest.raises(DataError, match=complaint):
            record_run(run, "same-operator")
    with pytest.raises(UsageError, match=r"does not follow the recipe same-operator: data\.resolution is 8"):
        record_run(made[0] / "runs" / "darcy-416-fano", "same-operator")  # another run than the catalogue's
