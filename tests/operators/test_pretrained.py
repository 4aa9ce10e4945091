"""Operators written to a folder and read back; files that are not what they claim to be."""

import json
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file

import operformer
from operformer import TNO, Grid, Transformer, UniversalTNO
from operformer.errors import DataError, OperformerWarning

OPERATORS = {
    "TNO": (TNO, {"hidden_channels": 10, "n_layers": 2, "n_heads": 5, "initial_channels": 1}),
    "TNO-waves": (TNO, {"hidden_channels": 10, "n_layers": 2, "n_heads": 5, "waves": 3, "sources": 7}),
    "UniversalTNO": (UniversalTNO, {"hidden_channels": 7, "n_layers": 2}),
    "Transformer": (Transformer, {"hidden_channels": 6, "n_layers": 1, "n_heads": 3}),
}
BUFFERS = {
    "input_mean": [0.3, -1.0], "input_scale": [2.0, 0.7], "output_mean": [5.0, 6.0, 7.0],
    "output_scale": [0.1, 10.0, 3.0], "domain_lower": [-1.5], "domain_extent": [3.0],
}  # fmt: skip


def make(name, dtype=torch.float32):
    """An operator with normalisation, as it is after training."""
    torch.manual_seed(0)
    kind, settings = OPERATORS[name]
    operator = kind(dim=1, in_channels=2, out_channels=3, **settings).to(dtype)
    for buffer, values in BUFFERS.items():
        getattr(operator, buffer).copy_(torch.tensor(values, dtype=torch.float64))
    return operator


@pytest.fixture
def folder(tmp_path):
    make("TNO").save_pretrained(tmp_path / "operator")
    return tmp_path / "operator"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_comes_back_as_it_was(name, dtype, tmp_path):
    operator = make(name, dtype)
    operator.save_pretrained(tmp_path / "a" / "b")
    loaded = operformer.load(str(tmp_path / "a" / "b"))
    assert type(loaded) is type(operator)
    assert loaded.settings == operator.settings
    assert not loaded.training
    torch.testing.assert_close(dict(loaded.state_dict()), dict(operator.state_dict()), rtol=0, atol=0)
    for buffer, values in BUFFERS.items():
        torch.testing.assert_close(getattr(loaded, buffer), torch.tensor(values, dtype=dtype), rtol=0, atol=0)
    grid = Grid.rectilinear([-1.5, -1.4, 0.0, 1.0, 1.5])
    u = torch.randn(2, 2, 5, generator=torch.Generator().manual_seed(1), dtype=dtype)
    torch.testing.assert_close(loaded(u, grid), operator(u, grid), rtol=0, atol=0)


def test_two_files_are_written_and_nothing_in_them_can_run(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    config = json.loads((folder / "config.json").read_text())
    assert config["operator"] == "TNO"
    assert config["settings"]["hidden_channels"] == 10
    assert config["version"] == operformer.__version__
    assert load_file(folder / "model.safetensors").keys() == make("TNO").state_dict().keys()


def test_saving_again_replaces_what_was_there(folder):
    other = make("UniversalTNO")
    other.save_pretrained(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert isinstance(operformer.load(folder), UniversalTNO)


def test_sources_of_files_without_a_version_were_points(tmp_path):
    """Until 0.2.0 sources were some of the points: what such a file gives now is said to differ."""
    TNO(1, 1, 1, hidden_channels=4, n_layers=1, n_heads=2, sources=5).save_pretrained(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operformer.load(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["version"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.warns(OperformerWarning, match="averages over cells now, so its output differs"):
        assert operformer.load(tmp_path).sources == 5


# Damage


def edit_config(**changes):
    def damage(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


def edit_settings(**changes):
    def damage(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        config["settings"] |= changes
        path.write_text(json.dumps(config))

    return damage


def edit_tensors(change):
    def damage(folder):
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return damage


def cut(name, keep):
    def damage(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(keep * len(content))])

    return damage


def overwrite(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def remove(name):
    return lambda folder: (folder / name).unlink()


WEIGHT = "network.layers.1.attention.value.weight"


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        pytest.param(remove("config.json"), "config.json", id="no config"),
        pytest.param(remove("model.safetensors"), "model.safetensors", id="no weights"),
        pytest.param(cut("model.safetensors", 0.5), "model.safetensors", id="half the weights"),
        pytest.param(cut("config.json", 0.5), "config.json", id="half the config"),
        pytest.param(edit_config(operator="FNO"), "config.json", id="unknown operator"),
        pytest.param(edit_settings(n_heads=3), "config.json", id="heads do not divide"),
        pytest.param(edit_settings(n_layers="two"), "config.json", id="a word for a number"),
        pytest.param(edit_settings(hidden_channels=20), "model.safetensors", id="another width"),
        pytest.param(edit_settings(n_layers=3), "model.safetensors", id="another depth"),
        pytest.param(edit_tensors(lambda t: t[WEIGHT][3].fill_(torch.nan)), WEIGHT, id="NaN"),
        pytest.param(edit_tensors(lambda t: t["input_scale"].fill_(torch.inf)), "input_scale", id="infinity"),
    ],
)
def test_damage_is_told_in_one_line_that_names_the_file(folder, damage, file):
    """Other damage: tests/test_hostile.py."""
    damage(folder)
    with pytest.raises(DataError) as caught:
        operformer.load(folder)
    message = str(caught.value)
    assert file in message
    assert str(folder) in message
    assert "\n" not in message


def test_weights_may_be_stored_in_half_precision(folder):
    operator = make("TNO")
    half = {key: t.half() if key not in BUFFERS else t for key, t in operator.state_dict().items()}
    operator.save_pretrained(folder, half)
    loaded = operformer.load(folder)
    assert {t.dtype for t in loaded.state_dict().values()} == {torch.float32}
    for key, tensor in operator.state_dict().items():
        expected = tensor if key in BUFFERS else tensor.half().float()
        torch.testing.assert_close(loaded.state_dict()[key], expected, rtol=0, atol=0)
    operator.save_pretrained(folder, {key: t.double() if key == WEIGHT else t for key, t in half.items()})
    with pytest.raises(DataError, match=f"float64 in {WEIGHT}"):
        operformer.load(folder)


def test_a_model_of_the_library_is_found_by_its_name_unless_a_folder_is(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert operformer.load("lorenz-tno").settings["hidden_channels"] != 10
    folder.rename(tmp_path / "lorenz-tno")
    assert operformer.load("lorenz-tno").settings["hidden_channels"] == 10
    with pytest.raises(DataError, match=r"there is no folder lorenz-tn; .* comes with the library \(.*lorenz-tno.*\)"):
        operformer.load("lorenz-tn")


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_folder_that_is_none_is_told_in_one_line(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=f"there is no folder .*{name}") as caught:
        operformer.load(tmp_path / name)
    assert "\n" not in str(caught.value)
