"""Models that come with the library: made of a run, found by name, listed with what their cards say."""

from pathlib import Path

import pytest
import torch

import operformer
from operformer.errors import DataError, UsageError
from operformer.evaluation.errors import relative_errors
from operformer.operators.pretrained import SHIPPED, read_tensors, shipped_names
from operformer.problems import Lorenz63
from operformer.problems.problem import Draws
from operformer.runs import errors_on_tests, evaluate_run, read_run, train_run
from operformer.runs.experiment import Data, Experiment
from operformer.sharing.card import model_table, read_front_matter
from operformer.training.recipe import Training
from paper import shipping
from paper.archive import read_record
from paper.recipes import find_run

ROOT = Path(__file__).parents[2]
SMALL = {"name": "TNO", "hidden_channels": 6, "n_layers": 1, "n_heads": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    experiment = Experiment(
        "mine", Lorenz63(), SMALL, Data(8, 13, 3, 5), Training(epochs=1, batch_size=5, device="cpu")
    )
    train_run(experiment, folder)
    evaluate_run(folder)
    return folder


def test_a_run_is_shipped_in_half_the_bytes(run, tmp_path):
    place = shipping.ship(run, "small-tno", tmp_path)
    assert place == tmp_path / "small-tno"
    assert sorted(path.name for path in place.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    own, loaded = operformer.load(run / "operator"), operformer.load(place)
    kinds = {name: t.dtype for name, t in read_tensors(place / "model.safetensors").items()}
    assert kinds["input_mean"] == torch.float32
    assert {kinds[name] for name, _ in own.named_parameters()} == {torch.float16}
    before, after = (errors_on_tests(read_run(run).experiment, operator) for operator in (own, loaded))
    assert before == pytest.approx(read_run(run).evaluation("1x").errors, rel=1e-4)  # the same test pairs
    assert after == pytest.approx(before, rel=5e-4)
    ((name, maps, operator, parameters, trained, median, *_),) = model_table(tmp_path).rows
    assert (name, maps, operator) == ("small-tno", "lorenz-y: x to y", "TNO")
    assert parameters == f"{sum(p.numel() for p in own.parameters()):,}"
    assert trained.startswith("13 samples at resolution 8 on ")
    assert median == f"{read_run(run).evaluation('1x').median:.2%}"
    assert 'operator = load("small-tno")' in (place / "README.md").read_text()


def test_weights_that_half_precision_changes_are_kept_whole(run):
    experiment, operator = read_run(run).experiment, operformer.load(run / "operator")
    with torch.no_grad():  # so large in one layer and small in the next that float16 has no such numbers
        operator.network.head.linear.weight.mul_(1e-7)
        operator.output_scale.mul_(1e7)
        operator.network.head.linear.bias.mul_(1e-7)
    before = {name: t.clone() for name, t in operator.state_dict().items()}
    weights = shipping.stored(experiment, operator)
    assert {t.dtype for t in weights.values()} == {torch.float32}
    for now in (weights, operator.state_dict()):  # to the last bit, although float16 was tried in between
        assert all(torch.equal(t, now[name]) for name, t in before.items())


def test_names_and_sizes_are_limited(run, tmp_path, monkeypatch):
    for name in ("A", "", "a/b", "..", "a b"):
        with pytest.raises(UsageError, match="a model's name has small letters"):
            shipping.ship(run, name, tmp_path)
    monkeypatch.setattr(shipping, "MOST", 100)
    with pytest.raises(UsageError, match="MB together"):
        shipping.ship(run, "small-tno", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["", "---\nlicense: mit\n---\n", "---\noperformer: {}\n---\n", "---\noperformer: 3\n---\n"]
)
def test_a_card_that_says_too_little_is_told_in_one_line(tmp_path, text):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "README.md").write_text(text)
    with pytest.raises(DataError, match=r"broken/README\.md"):
        model_table(tmp_path)


# What is in the library


def test_every_shipped_model_does_what_its_card_says():
    assert "lorenz-tno" in shipped_names()
    for name in shipped_names():
        operator, said = operformer.load(name), read_front_matter(SHIPPED / name / "README.md")["operformer"]
        assert operator.input_mean.dtype == torch.float32
        assert sum(p.numel() for p in operator.parameters()) == said["parameters"]
        assert said["median"] < 0.1, f"{name} was not trained; it is what a test left"
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 20e6


def test_the_shipped_lorenz_model_has_the_error_of_its_card():
    said = read_front_matter(SHIPPED / "lorenz-tno" / "README.md")["operformer"]
    data = find_run("lorenz-y", "authors").data
    first = data.train + data.validation  # the test pairs, by which the card has its errors
    (samples,) = Draws().readings(
        Lorenz63(), data.test, [Lorenz63().grid(data.resolution)], data.seed, torch.device("cpu"), first
    )
    errors = relative_errors(operformer.load("lorenz-tno"), samples.to(dtype=torch.float32))
    assert errors.median().item() == pytest.approx(said["median"], rel=2e-3)


@pytest.mark.parametrize(
    ("model", "run", "tolerance"),
    [
        ("darcy-vitno", "darcy-416-vitno-blended", 2e-3),
        ("darcy-lognormal-spectral", "darcy-416-spectral", 2e-3),
        ("darcy-piecewise-spectral", "piecewise-416-spectral", 2e-3),
    ],
)
def test_the_shipped_darcy_models_have_the_errors_of_their_records(model, run, tolerance):
    experiment, record = find_run(run, "best"), read_record(ROOT / f"results/best/{run}.json")
    data, count = experiment.data, 4
    grid, first = experiment.problem.grid(data.resolution // 2), data.train + data.validation
    (samples,) = Draws().readings(experiment.problem, count, [grid], data.seed, torch.device("cpu"), first)
    errors = relative_errors(operformer.load(model), samples.to(dtype=torch.float32))
    assert errors.tolist() == pytest.approx(record.on("0.5x").errors[:count], rel=tolerance)
