"""Experiments as values: they follow from settings alone and are refused when a letter is wrong."""

import pytest
import torch

from operformer.errors import UsageError
from operformer.runs import find_experiment, parse


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
