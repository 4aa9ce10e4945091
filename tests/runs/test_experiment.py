"""Experiments by name and from files, changed by overrides, refused when a letter is wrong or they make no sense."""

import json
from dataclasses import replace

import pytest
import torch

from operformer.errors import DataError, UsageError
from operformer.problems import Lorenz63
from operformer.runs import find_experiment, parse
from operformer.training.loop import Training

TOML = """
name = "mine"
[problem]
name = "Lorenz63"
recover = ["z"]
horizon = 3
[operator]
hidden_channels = 6
n_layers = 1
n_heads = 2
[data]
train = 13
[training]
learning_rate = 1
schedule = "cosine"
"""


def test_a_toml_file_is_an_experiment(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    experiment = find_experiment(str(path))
    assert experiment.name == "mine"
    assert experiment.problem == Lorenz63(recover=("z",), horizon=3.0)
    assert experiment.operator == {"name": "TNO", "hidden_channels": 6, "n_layers": 1, "n_heads": 2}
    assert (experiment.data.train, experiment.data.validation) == (13, 1000)
    assert experiment.training == Training(learning_rate=1.0, schedule="cosine")
    assert find_experiment(str(path), overrides=["data.train=17"]).data.train == 17


def test_a_json_file_is_an_experiment(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(find_experiment("lorenz").to_mapping()))
    assert find_experiment(str(path)) == find_experiment("lorenz")


@pytest.mark.parametrize("content", [b"[training", b"a = 1\na = 2", b"\xff\xfe", b"epochs 5"])
def test_a_damaged_toml_file_is_told_in_one_line(tmp_path, content):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not TOML") as caught:
        find_experiment(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["[1, 2]", "7", "null", '"lorenz-y"'])
def test_a_json_file_that_holds_no_table_is_told_in_one_line(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_text(content)
    for overrides in ([], ["training.epochs=5"]):
        with pytest.raises((UsageError, DataError)):
            find_experiment(str(path), overrides=overrides)


def test_a_missing_file_is_bad_data():
    with pytest.raises(DataError, match=r"cannot read nowhere\.toml"):
        find_experiment("nowhere.toml")


def test_overrides_change_what_they_name_and_nothing_else():
    base = find_experiment("lorenz-y")
    changed = find_experiment(
        "lorenz-y",
        ["training.epochs=5", "training.learning_rate=1", "operator.n_heads=2", 'problem.recover=["z"]',
         "data.seed=7", "training.schedule=plateau", 'training.loss="h1"', "name=other"],
    )  # fmt: skip
    assert changed == replace(
        base,
        name="other",
        problem=Lorenz63(recover=("z",)),
        operator={**base.operator, "n_heads": 2},
        data=replace(base.data, seed=7),
        training=replace(base.training, epochs=5, learning_rate=1.0, schedule="plateau", loss="h1"),
    )
    assert find_experiment("lorenz-y") == base


@pytest.mark.parametrize("override", ["", "=", "=5", "training.epochs", "training.epochs=", "epochs=5", "training=5"])
def test_an_override_that_is_none_is_refused(override):
    with pytest.raises(UsageError, match="an override is"):
        find_experiment("lorenz-y", [override])


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("training.epochs=0", "training.epochs must be at least 1"),
        ("training.epochs=2.0", "training.epochs must be a whole number"),
        ("training.epochs=five", "training.epochs must be a whole number"),
        ("training.learning_rate=0", "training.learning_rate must be positive"),
        ("training.weight_decay=-1", "weight_decay"),
        ("training.seed=-1", "seed"),
        ("training.seed=1e3", "training.seed must be a whole number"),
        ("training.device=gpu", "training.device must be 'cpu' or 'cuda' or 'auto'"),
        ("data.train=0", "data.train must be at least 1"),
        ("data.test=true", "data.test must be a whole number"),
        ("data.seed=-1", "seed"),
        ("operator.n_heads=3", "n_heads must divide hidden_channels"),
        ("operator.dim=2", "unknown setting operator.dim"),
        ("operator.name=UNet", "operator.name is unknown"),
        ("operator.initial_channels=1", "initial_channels must be fewer"),
        ("problem.name=Lorenz", "did you mean Lorenz63"),
        ("problem.recover=y", "problem.recover must be a list"),
        ("problem.horizon=0", "horizon must be positive"),
        ("training.seed=99999999999999999999", "seed"),
    ],
)
def test_values_that_make_no_sense_are_refused_before_anything_starts(override, complaint):
    with pytest.raises(UsageError) as caught:
        find_experiment("lorenz-y", [override])
    assert complaint in str(caught.value)


# Experiments as values


def test_the_first_weights_follow_from_the_seed_alone():
    def weights(*overrides):
        return find_experiment("lorenz-y", overrides).make_operator().network.head.linear.weight

    torch.manual_seed(1)
    one = weights()
    state = torch.get_rng_state()
    other = weights()
    assert torch.equal(one, other)
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.equal(one, weights("training.seed=1"))


# Misspelt keys


def settings_of(experiment):
    mapping = experiment.to_mapping()
    mapping["operator"] = {"name": mapping["operator"]["name"]} | {
        key: value
        for key, value in experiment.make_operator().settings.items()
        if key not in ("dim", "in_channels", "out_channels")
    }
    return mapping


SMALL = ["operator.hidden_channels=6", "operator.n_layers=1", "operator.n_heads=2", "data.resolution=4"]
SPELLED = {
    "Lorenz63 and TNO": find_experiment("lorenz", SMALL),
    "ControlledODE and Transformer": find_experiment("lorenz-y-transformer", ["problem.name=ControlledODE", *SMALL]),
}


@pytest.mark.parametrize("kind", SPELLED)
@pytest.mark.parametrize("section", ["", "problem", "operator", "data", "training"])
def test_misspellings_by_one_letter_are_refused(misspellings, kind, section):
    whole = settings_of(SPELLED[kind])
    table = whole[section] if section else whole
    assert parse(whole).name == SPELLED[kind].name
    for key, value in table.items():
        for wrong in misspellings(key) - table.keys():
            changed = {k: v for k, v in table.items() if k != key} | {wrong: value}
            with pytest.raises(UsageError, match="unknown setting"):
                parse({**whole, section: changed} if section else changed)


@pytest.mark.parametrize("name", ["FANO", "ViTNO"])
def test_patched_operators_are_made_from_settings(name):
    patched = [f"operator.name={name}", "operator.n_patches=[4]", "operator.n_modes=5"]
    operator = find_experiment("lorenz-y", patched).make_operator()
    assert type(operator).__name__ == name
    assert operator.settings["n_patches"] == [4]
    assert operator.settings["hidden_channels"] == 64
    with pytest.raises(UsageError, match="the operator has 2 axes, the problem 1"):
        find_experiment("lorenz-y", [patched[0], "operator.n_patches=[4, 4]", patched[2]])
    with pytest.raises(UsageError, match=r"operator.n_patches is missing"):
        find_experiment("lorenz-y", [patched[0], patched[2]])


def test_another_operator_does_not_inherit_what_it_does_not_know():
    operator = find_experiment("lorenz-y", ["operator.name=UniversalTNO"]).make_operator()
    assert operator.settings["hidden_channels"] == 64
    with pytest.raises(UsageError, match="did you mean FANO"):
        find_experiment("lorenz-y", ["operator.name=Fano"])


@pytest.mark.parametrize("setting", ["data.resolution=3", "data.coarser=[2]"])
def test_a_resolution_without_a_grid_is_refused_before_anything_is_drawn(setting):
    with pytest.raises(UsageError, match=r"resolution must be at least 4: got [23]"):
        find_experiment("darcy", [setting])


def test_a_grid_that_no_memory_holds_is_refused():
    with pytest.raises(UsageError, match="a grid of resolution 1000000000000 is too large"):
        find_experiment("darcy", ["data.resolution=1000000000000"])
