"""Numbers from files that arithmetic overflows on, or that are none: one line each, or a page without nonsense."""

import json
import shutil

import pytest

from operformer.errors import UsageError
from operformer.problems import Lorenz63
from operformer.runs import evaluate_run, find_experiment, train_run
from operformer.runs.experiment import Data, Experiment
from operformer.training.recipe import Training

SMALL = {"name": "TNO", "hidden_channels": 6, "n_layers": 1, "n_heads": 2}
EXPERIMENT = Experiment("mine", Lorenz63(), SMALL, Data(8, 13, 3, 5), Training(epochs=1, batch_size=5, device="cpu"))
JSON = {
    "a number of 400 digits": "9" * 400,
    "a number of 5000 digits": "9" * 5000,
    "1e308": "1e308",
    "1e999": "1e999",
    "-1e308": "-1e308",
    "NaN": "NaN",
    "a text": '"0.1"',
    "a truth value in a list": "[true]",
    "null in a list": "[null]",
    "deep nesting": "[" * 40 + "]" * 40,
    "deeper nesting": "[" * 900 + "]" * 900,
    "the deepest nesting": "[" * 100_000 + "]" * 100_000,
    "a table": '{"a": {}}',
}
PLACES = [
    ("report", "metrics.jsonl", "loss"), ("report", "metrics.jsonl", "validation_error"),
    ("report", "metrics.jsonl", "seconds"), ("report", "metrics.jsonl", "epoch"),
    ("report", "evaluation.json", "errors"), ("report", "evaluation.json", "points"),
    ("report", "evaluation.json", "label"), ("report", "evaluation.json", "h1_errors"),
    ("report", "seconds.json", "evaluation"), ("status", "status.json", "seconds_left"),
    ("status", "status.json", "loss"), ("status", "status.json", "epoch"),
    ("evaluate", "outputs.json", "mean"), ("evaluate", "operator/config.json", "settings"),
    ("evaluate", "experiment.json", "data"), ("evaluate", "experiment.json", "training"),
]  # fmt: skip
FINE = {("status", "-1e308"), ("seconds", "-1e308")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_run(EXPERIMENT, folder)
    evaluate_run(folder)
    return folder


def put(path, name, text):
    """The first value of this name becomes the text, whatever it is."""
    values = json.loads(path.read_text().splitlines()[0] if path.suffix == ".jsonl" else path.read_text())
    place = values[0] if isinstance(values, list) else values
    assert name in place
    place[name] = "HERE"
    path.write_text(json.dumps(values).replace('"HERE"', text) + "\n")


def attempt(whole, folder, call, place, text):
    command, file, name = place
    shutil.copytree(whole, folder)
    put(folder / file, name, text)
    code, out, err = call(command, folder)
    assert code == 3, (place, text[:20], out, err)
    assert err.startswith("operformer: ")
    assert err.count("\n") == 1
    assert len(err) < 600


@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_no_number_is_one_line(whole, tmp_path, call, place):
    attempt(whole, tmp_path / "run", call, place, JSON["a number of 400 digits"])


@pytest.mark.faults
def test_every_text_that_is_no_number_is_one_line(whole, tmp_path, call, count):
    for place in PLACES:
        for text in JSON.values():
            attempt(whole, tmp_path / "run", call, place, text)
            shutil.rmtree(tmp_path / "run")
    count("numbers in files that are none or too large, each told in one line", len(PLACES) * len(JSON))


def test_a_run_without_errors_is_reported(whole, tmp_path, call, recwarn):
    run = shutil.copytree(whole, tmp_path / "run")
    path = run / "evaluation.json"
    values = json.loads(path.read_text())
    for one in values:
        one["errors"] = [0.0] * len(one["errors"])
    path.write_text(json.dumps(values))
    code, out, err = call("report", run)
    assert (code, err) == (0, "")
    assert "median error 0.00%" in out


TYPED = ["9" * 400, "9" * 5000, "1e400", "nan", "[" * 900 + "]" * 900]
SETTINGS = [
    "problem.rho",
    "problem.recover",
    "operator.hidden_channels",
    "data.train",
    "training.learning_rate",
    "training.seed",
]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_number_that_a_user_types_is_a_number_or_refused(name, tmp_path, count):
    for text in TYPED:
        with pytest.raises(UsageError) as caught:
            find_experiment("lorenz-y", [f"{name}={text}"])
        section, _, key = name.partition(".")
        (tmp_path / "a.toml").write_text(f"[{section}]\n{key} = {text}\n")
        with pytest.raises(UsageError):
            find_experiment(str(tmp_path / "a.toml"))
        assert len(str(caught.value)) < 600
    count("numbers of users that are none or too large, each told in one line", 2 * len(TYPED))
