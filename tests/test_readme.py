"""What README.md prints runs: its Python, its commands' names, its files; and the pages that it hands on to."""

import re
from pathlib import Path

import pytest

from operformer.cli import app
from operformer.experiments import find_experiment

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
OWN_DATA, PAPER = ((ROOT / "docs" / name).read_text() for name in ("own-data.md", "reproduction.md"))


def test_the_python_in_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (training,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(training, names)
    assert names["z"].shape == (8, 1, 201)
    assert names["z_scattered"].shape == (1, 1, 300)
    assert (tmp_path / "runs/readme/operator/model.safetensors").is_file()


def test_the_python_of_the_page_about_own_data_leaves_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", OWN_DATA, flags=re.DOTALL):
        exec(block, names)
    assert names["samples"].u.shape == (60, 1, 32, 32)
    assert (tmp_path / "runs/from-disk/operator/model.safetensors").is_file()
    assert names["found"].z.shape == (60, 1, 64, 64)
    assert (tmp_path / "written.npz").is_file()
    assert names["at"].z.shape == (6, 1, 33, 33)
    assert bool((names["lower"] < names["z"]).all())


def test_the_commands_in_the_readme_exist():
    used = set(re.findall(r"^    operformer ([a-z]+)", README, flags=re.MULTILINE))
    named = "generate import inspect experiments train status evaluate predict certify calibrate report card export"
    assert used == {*named.split(), "record", "ship", "models", "reproduce", "doctor"}
    assert used <= set(app)


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_targets_in_the_readme_exist(target):
    assert f"    make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def test_the_files_that_the_paper_is_in_exist():
    named = re.findall(r"`((?:operformer|examples)/[\w/]+(?:\.\w+)?/?)`", PAPER)
    assert len(named) >= 14
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_pages_in_the_readme_exist():
    named = re.findall(r"\]\(([\w/.-]+)\)", README)
    assert len(named) >= 20
    for path in named:
        assert (ROOT / path).is_file(), path


def test_the_experiments_among_the_examples_are_read():
    for path in (ROOT / "examples").glob("*.toml"):
        experiment = find_experiment(str(path))
        assert experiment.make_operator().in_channels == experiment.problem.in_channels
    assert "examples/lorenz.toml" in README
