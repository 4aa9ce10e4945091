"""What README.md prints runs: its Python, its commands' names, its files."""

import re
from pathlib import Path

import pytest

from operformer.cli import app
from operformer.experiments import find_experiment

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_in_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    training, data, own = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(training, names)
    assert names["z"].shape == (8, 1, 201)
    assert names["z_scattered"].shape == (1, 1, 300)
    assert (tmp_path / "runs/readme/operator/model.safetensors").is_file()
    exec(data, names)
    assert names["samples"].u.shape == (60, 1, 32, 32)
    assert (tmp_path / "runs/from-disk/operator/model.safetensors").is_file()
    exec(own, names)
    assert names["found"].z.shape == (60, 1, 64, 64)
    assert (tmp_path / "predicted.npz").is_file()


def test_the_commands_in_the_readme_exist():
    used = set(re.findall(r"^    operformer ([a-z]+)", README, flags=re.MULTILINE))
    named = "generate import inspect experiments train status evaluate predict certify calibrate report card export"
    assert used == {*named.split(), "record", "ship", "models", "reproduce", "doctor"}
    assert used <= set(app)


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_targets_in_the_readme_exist(target):
    assert f"    make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def test_the_files_in_the_readme_exist():
    named = re.findall(r"`((?:operformer|examples)/[\w/]+(?:\.\w+)?/?)`", README)
    assert len(named) >= 14
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_experiments_among_the_examples_are_read():
    for path in (ROOT / "examples").glob("*.toml"):
        experiment = find_experiment(str(path))
        assert experiment.make_operator().in_channels == experiment.problem.in_channels
    assert "examples/lorenz.toml" in README
