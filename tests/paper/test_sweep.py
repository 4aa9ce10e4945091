"""Sweeps: the same trainings for each operator, the lowest validation error chosen, and a recipe that follows."""

import json

import pytest
from tiny import line

from operformer.errors import DataError
from paper import recipes, sweep
from paper.recipes import find_run


def test_the_lowest_validation_error_is_chosen_and_kept(tmp_path, monkeypatch):
    chosen, path, told = sweep.ways((1e-3, 1e-9)), tmp_path / "TNO.json", []
    assert len(chosen) == 2 * 2 * 2
    best = sweep.sweep(line("x", epochs=2), "smoke", chosen[:4], path, told.append)
    kept = json.loads(path.read_text())
    errors = [row["validation_error"] for row in kept["rows"]]
    assert len(told) == len(errors) == 4
    assert kept["rows"][errors.index(min(errors))].items() >= vars(best).items()
    assert kept["chosen"] == vars(best)
    assert best.learning_rate == 1e-3  # the other one learns nothing
    monkeypatch.setattr(sweep, "train_run", None)  # nothing is trained again
    assert sweep.sweep(line("x", epochs=2), "smoke", chosen[:4], path, told.append) == best
    with pytest.raises(DataError, match="another experiment"):
        sweep.sweep(line("x", epochs=3), "smoke", chosen, path, told.append)


def test_a_training_that_diverges_is_not_chosen(tmp_path):
    ways = [sweep.Way("adamw", 1e30, "cosine"), sweep.Way("adamw", 1e-3, "cosine")]
    assert sweep.sweep(line("x", epochs=2), "smoke", ways, tmp_path / "TNO.json", print) == ways[1]
    assert json.loads((tmp_path / "TNO.json").read_text())["rows"][0]["validation_error"] is None


def test_the_recipe_at_416_points_follows_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(recipes, "SWEEPS", tmp_path)
    before = find_run("darcy-416-fano", "same-operator").training
    chosen = {"optimizer": "muon", "learning_rate": 5e-3, "schedule": "cosine"}
    (tmp_path / "FANO.json").write_text(json.dumps({"chosen": chosen}))
    after = find_run("darcy-416-fano", "same-operator").training
    assert {key: getattr(after, key) for key in chosen} == chosen
    assert before.epochs == after.epochs
    assert find_run("darcy-416-vitno", "same-operator").training.learning_rate == 2e-3


def test_one_command_sweeps_the_operators_of_the_paper(call_paper, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "OPTIMIZERS", ("adamw",))
    monkeypatch.setattr(sweep, "SCHEDULES", ("cosine",))
    tiny = "training.epochs=1 data.resolution=24 data.train=2 data.validation=1 operator.n_layers=1 operator.n_modes=2"
    changes = [word for one in tiny.split() for word in ("--settings", one)]
    code, out, err = call_paper("sweep", "darcy-416-vitno", "--rates", "1e-3", *changes, "--out", tmp_path)
    assert (code, err) == (0, "")
    assert f"darcy-416-vitno: adamw, 0.001, cosine; kept: {tmp_path / 'ViTNO.json'}" in out
