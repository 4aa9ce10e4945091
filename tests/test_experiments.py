"""Experiments as values: named, read from files, changed by overrides, refused when a letter is wrong."""

import json
import string
from dataclasses import replace

import pytest
import torch

from operformer.errors import DataError, UsageError
from operformer.experiments import EXPERIMENTS, as_plain_transformer, find_experiment, parse
from operformer.learning.training import Training
from operformer.problems import ControlledODE, Lorenz63

NAMED = [pytest.param(e, id=f"{name}-{scale}") for name, both in EXPERIMENTS.items() for scale, e in both.items()]


@pytest.mark.parametrize("experiment", NAMED)
def test_an_experiment_comes_back_from_plain_values(experiment):
    assert parse(experiment.to_mapping()) == experiment
    assert parse(json.loads(json.dumps(experiment.to_mapping()))) == experiment
    plain = as_plain_transformer(experiment)
    assert parse(json.loads(json.dumps(plain.to_mapping()))) == plain
    assert plain != experiment


@pytest.mark.parametrize("experiment", NAMED)
def test_the_plain_transformer_differs_in_nothing_but_its_operator(experiment):
    plain = as_plain_transformer(experiment)
    assert replace(plain, name=experiment.name, operator=experiment.operator) == experiment
    ours, theirs = experiment.make_operator().settings, plain.make_operator().settings
    assert {key: ours[key] for key in theirs} == theirs


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_paper_scale_is_the_papers(name):
    experiment = find_experiment(name, "paper")
    assert experiment.name == name
    assert (experiment.data.train, experiment.data.resolution) == (8000, 200)
    assert experiment.problem.horizon == 2.0
    settings = experiment.make_operator().settings
    assert (settings["hidden_channels"], settings["n_layers"], settings["n_heads"]) == (128, 6, 8)
    assert (experiment.training.learning_rate, experiment.training.schedule) == (1e-3, "plateau")
    assert (experiment.training.batch_size, experiment.training.epochs) == (64, 100)


def test_the_parameters_are_as_many_as_the_papers():
    # 598 145 on the plane (5.98e5 in the paper's table); on a line the lift has one coordinate less to look at.
    operator = find_experiment("lorenz-y", "paper").make_operator()
    assert sum(p.numel() for p in operator.parameters()) == 598_145 - 128


def test_the_problems_are_those_of_section_6_1():
    assert find_experiment("lorenz-y").problem == Lorenz63(recover=("y",))
    assert find_experiment("lorenz-yz").problem == Lorenz63(recover=("y", "z"), initial=True)
    assert find_experiment("controlled-ode").problem == ControlledODE()
    assert find_experiment("lorenz-yz").make_operator().settings["initial_channels"] == 2


def test_the_first_weights_follow_from_the_seed_alone():
    def weights(*overrides):
        return find_experiment("lorenz-y", "smoke", overrides).make_operator().network.head.linear.weight

    torch.manual_seed(1)
    one = weights()
    state = torch.get_rng_state()
    other = weights()
    assert torch.equal(one, other)
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.equal(one, weights("training.seed=1"))


# Files and overrides

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
    path.write_text(json.dumps(EXPERIMENTS["lorenz-yz"]["paper"].to_mapping()))
    assert find_experiment(str(path)) == EXPERIMENTS["lorenz-yz"]["paper"]


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
        "smoke",
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
        find_experiment("lorenz-y", "smoke", [override])


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
        find_experiment("lorenz-y", "smoke", [override])
    assert complaint in str(caught.value)


FLOATS = [f"training.{n}" for n in ("learning_rate", "weight_decay", "clip_norm")] + [
    f"problem.{n}" for n in ("sigma", "rho", "beta")
]


@pytest.mark.parametrize("key", FLOATS)
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_numbers_that_no_file_can_hold_are_refused(key, value):
    # experiment.json is JSON, which has neither NaN nor infinity.
    with pytest.raises(UsageError, match=key.split(".")[1]):
        find_experiment("lorenz-y", "smoke", [f"{key}={value}"])


# Misspelt keys


def misspellings(word):
    for k in range(len(word)):
        yield word[:k] + word[k + 1 :]
        yield word[: k + 1] + word[k:]
        yield from (word[:k] + letter + word[k + 1 :] for letter in string.ascii_lowercase)


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
    "Lorenz63 and TNO": find_experiment("lorenz-yz", "smoke", SMALL),
    "ControlledODE and Transformer": as_plain_transformer(find_experiment("controlled-ode", "smoke", SMALL)),
}


@pytest.mark.parametrize("kind", SPELLED)
@pytest.mark.parametrize("section", ["", "problem", "operator", "data", "training"])
def test_every_misspelling_by_one_letter_is_refused(kind, section):
    whole = settings_of(SPELLED[kind])
    table = whole[section] if section else whole
    assert parse(whole).name == SPELLED[kind].name
    for key, value in table.items():
        for wrong in set(misspellings(key)) - table.keys():
            changed = {k: v for k, v in table.items() if k != key} | {wrong: value}
            with pytest.raises(UsageError, match="unknown setting"):
                parse({**whole, section: changed} if section else changed)


@pytest.mark.parametrize("name", ["FANO", "ViTNO"])
def test_patched_operators_are_made_from_settings(name):
    patched = [f"operator.name={name}", "operator.n_patches=[4]", "operator.n_modes=5"]
    operator = find_experiment("lorenz-y", "smoke", patched).make_operator()
    assert type(operator).__name__ == name
    assert operator.settings["n_patches"] == [4]
    assert operator.settings["hidden_channels"] == 64
    with pytest.raises(UsageError, match="the operator has 2 axes, the problem 1"):
        find_experiment("lorenz-y", "smoke", [patched[0], "operator.n_patches=[4, 4]", patched[2]])
    with pytest.raises(UsageError, match=r"operator.n_patches is missing"):
        find_experiment("lorenz-y", "smoke", [patched[0], patched[2]])


def test_another_operator_does_not_inherit_what_it_does_not_know():
    operator = find_experiment("lorenz-y", "smoke", ["operator.name=UniversalTNO"]).make_operator()
    assert operator.settings["hidden_channels"] == 64
    with pytest.raises(UsageError, match="did you mean FANO"):
        find_experiment("lorenz-y", "smoke", ["operator.name=Fano"])


def test_a_scale_does_not_go_with_a_file(tmp_path):
    (tmp_path / "a.toml").write_text("")
    with pytest.raises(UsageError, match="scale goes with an experiment's name"):
        find_experiment(str(tmp_path / "a.toml"), "paper")
