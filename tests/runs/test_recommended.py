"""A set's folder is all that a training needs."""

import json
import re
import sys
from dataclasses import fields
from typing import get_args

import numpy as np
import pytest
import torch

from operformer import Training, load
from operformer.cli import main
from operformer.commands.runs import Recipe
from operformer.data.importing import import_pairs
from operformer.runs import Data, read_experiment
from operformer.training.candidates import RECIPES

SMALL = ("operator.hidden_channels=8", "operator.n_layers=1", "training.epochs=1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sums and their integrals, as a set."""
    home = tmp_path_factory.mktemp("own")
    u = np.random.default_rng(0).normal(size=(20, 3)) @ np.cos(np.pi * np.outer(range(3), np.linspace(0, 1, 17)))
    np.savez(home / "mine.npz", u=u, z=u.cumsum(-1) / 16)
    import_pairs(home / "mine.npz", home / "set", layout="b x", grid="nodes")
    return home


def command(*words):
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    return left.value.code


def test_a_set_is_trained_on_resumed_and_not_mistaken_for_another(folder, capsys):
    run, given = folder / "run", folder / "set"
    assert command("train", given, *SMALL, "--minutes", 0.01, "--out", run) == 0
    said = capsys.readouterr().out
    assert "samples: 16 of 1 to 1 channels" in said
    assert "chosen: SpectralOperator" in said
    experiment = read_experiment(run)
    assert (experiment.data.train, experiment.data.validation, experiment.data.test) == (16, 2, 2)
    assert load(run / "operator").hidden_channels == 8
    before = json.loads((run / "experiment.json").read_text())
    assert command("train", given, "--recipe", "auto", *SMALL, "--out", run) == 0  # nothing is left to do
    assert json.loads((run / "experiment.json").read_text()) == before
    said = capsys.readouterr().out
    assert "chosen" not in said
    assert said.startswith("was trained before (1 epoch); operformer train ")
    assert command("train", given, "operator.hidden_channels=16", "--out", run) == 2
    assert "operator.hidden_channels differs" in capsys.readouterr().err
    assert command("evaluate", run) == 0


def test_recipes_have_names_and_a_wrong_one_is_told_the_nearest(folder, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "pydantic", raising=False)  # where it was imported, the command line asks it
    assert get_args(Recipe) == RECIPES
    run, given = folder / "named", folder / "set"
    assert command("train", given, *SMALL, "--recipe", "cosine", "--minutes", 0.01, "--out", run) == 0
    assert load(run / "operator").settings["basis"] == "cosine"
    assert command("train", given, *SMALL, "--recipe", "fano", "--out", run) == 2
    assert "its recipe is cosine" in capsys.readouterr().err
    assert command("train", given, "--recipe", "coslne", "--out", folder / "wrong") == 2
    assert capsys.readouterr().err == "operformer: unknown recipe 'coslne'; did you mean cosine?\n"
    assert not (folder / "wrong").exists()


def test_a_name_keeps_its_problem_and_too_few_samples_are_refused(folder, capsys):
    draws = ("data.resolution=16", "data.train=10", "data.validation=2", "data.test=2")
    assert command("train", "lorenz-y", "--recipe", "auto", *draws, *SMALL, "--out", folder / "law") == 0
    assert read_experiment(folder / "law").problem.has_law
    assert command("train", folder / "set", "data.train=4", *SMALL, "--out", folder / "few") == 2
    assert "at least 5 training samples" in capsys.readouterr().err
    assert not (folder / "few").exists()


def test_a_run_is_trained_further_and_its_operator_elsewhere(folder, capsys):
    run, other = folder / "first", folder / "tuned"
    assert command("train", folder / "set", *SMALL, "--out", run) == 0
    assert command("train", run, "--more", 2) == 0
    training = read_experiment(run).training
    assert (training.epochs, training.restarts) == (3, (1,))
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 3
    assert command("train", run) == 0  # nothing is left to do
    assert command("train", folder / "set", "--from", run, "training.epochs=1", "training.learning_rate=1e-9",
                   "--out", other) == 0  # fmt: skip
    assert "chosen: SpectralOperator" in capsys.readouterr().out
    before, after = load(run / "operator"), load(other / "operator")
    assert torch.equal(before.input_scale, after.input_scale)
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    assert all(torch.allclose(one, two, atol=1e-6) for one, two in pairs)  # at so low a rate nothing moves
    for words, message in (
        ((run, "training.epochs=9"), "resumed as it is"),
        ((folder / "set", "--more", 2), "give the folder of a run"),
        ((folder / "set", "--from", run, "operator.n_layers=3", "--out", folder / "no"), "whose weights belong to it"),
        (("lorenz-y", "--from", run, "operator.n_layers=3"), "whose weights belong to it"),
    ):
        assert command("train", *words) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("is_better", [False, True])
def test_what_was_evaluated_stays_as_long_as_the_weights_do(folder, capsys, monkeypatch, is_better):
    run = folder / f"kept-{is_better}"
    assert command("train", folder / "set", *SMALL, "--out", run) == 0
    assert command("evaluate", run) == command("calibrate", run, "--alpha", 0.5) == 0
    made = {name: (run / name).read_bytes() for name in ("evaluation.json", "gallery.npz", "calibration.json")}
    capsys.readouterr()
    error = 0.0 if is_better else 1e9
    monkeypatch.setattr("operformer.training.loop._validation_error", lambda job: error)
    assert command("train", run, "--more", 2) == 0
    assert ("no better epoch: the best stays epoch 1" in capsys.readouterr().out) is not is_better
    assert {name: (run / name).read_bytes() for name in made if (run / name).exists()} == ({} if is_better else made)
    assert command("report", run) == (3 if is_better else 0)


def test_a_shipped_model_learns_on_at_another_resolution(folder):
    draws = ("data.resolution=16", "data.train=4", "data.validation=2", "data.test=2", "training.epochs=1")
    assert command("train", "lorenz-y", "--from", "lorenz-tno", *draws, "--out", folder / "shipped") == 0
    assert load(folder / "shipped" / "start").description == load("lorenz-tno").description


def test_help_names_every_setting_of_data_and_training(capsys):
    assert command("train", "--help") == 0
    said = set(re.findall(r"\w+", capsys.readouterr().out))
    assert {field.name for made in (Data, Training) for field in fields(made)} <= said
