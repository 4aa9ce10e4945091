"""What is derived from weights carries their hash, and is refused or made again once the weights are others."""

import json
import shutil

import numpy as np
import pytest

import operformer
from operformer.errors import DataError
from operformer.operators.pretrained import load_hashed, weights_hash
from operformer.problems import Lorenz63
from operformer.runs import calibrate_run, evaluate_run, is_evaluated, read_run, train_run
from operformer.runs.experiment import Data, Experiment
from operformer.runs.gallery import read_gallery
from operformer.runs.records import read_calibration, read_evaluations
from operformer.runs.report.explorer import exhibits_of
from operformer.runs.report.page import summary
from operformer.sharing.card import card, check_card, read_front_matter, write_card
from operformer.sharing.hub import push_to_hub
from operformer.training.recipe import Training

SMALL = {"name": "TNO", "hidden_channels": 6, "n_layers": 1, "n_heads": 2}
EXPERIMENT = Experiment("mine", Lorenz63(), SMALL, Data(8, 13, 3, 5), Training(epochs=1, batch_size=5, device="cpu"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_run(EXPERIMENT, folder)
    evaluate_run(folder)
    calibrate_run(folder, alpha=0.6)
    write_card(read_run(folder), folder / "operator" / "README.md")
    return folder


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def train_on(folder):
    """What a training that goes on does to the weights."""
    operator = operformer.load(folder / "operator")
    operator.output_mean.add_(1.0)
    operator.save_pretrained(folder / "operator")


def put_back(folder, whole):
    for name in ("config.json", "model.safetensors"):
        shutil.copy(whole / "operator" / name, folder / "operator" / name)


def test_everything_carries_the_hash_of_the_weights_that_were_loaded(whole, call):
    now = weights_hash(whole / "operator")
    assert load_hashed(whole / "operator")[1] == now
    assert {evaluation.weights for evaluation in read_evaluations(whole / "evaluation.json")} == {now}
    assert read_gallery(whole / "gallery.npz").weights == now
    assert read_calibration(whole / "calibration.json").weights == now
    assert read_front_matter(whole / "operator" / "README.md")["operformer"]["weights"] == now
    assert read_run(whole).weights == now
    assert f"weights {now[:16]}" in call("certify", whole)[1].splitlines()[0]


def test_it_changes_with_weights_and_with_settings(run):
    before = weights_hash(run / "operator")
    path = run / "operator" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"settings": config["settings"] | {"n_heads": 1}}))
    other = weights_hash(run / "operator")
    train_on(run)
    assert len({before, other, weights_hash(run / "operator")}) == 3


def test_an_evaluation_during_a_training_is_not_told_of_its_end(run, whole, call):
    """The evaluation of other weights: every command that would show it says what to run, and that makes it again."""
    evaluated = read_run(run).evaluation("1x").errors
    train_on(run)
    assert not is_evaluated(EXPERIMENT, run)
    for command in ("report", "card"):
        code, out, err = call(command, run)
        assert (code, out) == (3, "")
        assert f"evaluation.json was made from other weights than there are now; run: operformer evaluate {run}" in err
    with pytest.raises(DataError, match="run: operformer calibrate"):
        read_calibration(run / "calibration.json")
    with pytest.raises(DataError, match="run: operformer card"):
        check_card(run / "operator" / "README.md")
    pytest.importorskip("huggingface_hub")
    with pytest.raises(DataError, match="run: operformer card"):
        push_to_hub(run / "operator", "me/mine")
    assert call("evaluate", run)[0] == 0
    assert read_run(run).evaluation("1x").errors != evaluated
    assert is_evaluated(EXPERIMENT, run)
    for name in ("evaluation.json", "gallery.npz"):  # one alone is refused, too
        put_back(run, whole)
        shutil.copy(whole / "evaluation.json", run)
        shutil.copy(whole / "gallery.npz", run)
        assert exhibits_of([read_run(run)], [run])
        train_on(run)
        evaluate_run(run)
        shutil.copy(whole / name, run)
        with pytest.raises(DataError, match=f"{name} was made from other weights"):
            exhibits_of([read_run(run)], [run])


def test_runs_of_earlier_versions_are_read_and_said_to_be_so(run, call):
    path = run / "evaluation.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps([{k: v for k, v in one.items() if k != "weights"} for one in values]))
    with np.load(run / "gallery.npz") as file:
        arrays = {name: file[name] for name in file if name != "weights"}
    np.savez(run / "gallery.npz", **arrays)
    found = read_run(run)
    assert not found.is_hashed
    assert is_evaluated(EXPERIMENT, run)
    assert exhibits_of([found], [run])
    sentence = "he evaluation is of an earlier version and does not say which weights it was made from."
    assert sentence in summary([found])[-1]
    assert sentence in card(found)
    assert sentence in " ".join(call("report", run)[1].split())
