"""What a run was trained with, and what took how long."""

import subprocess
from importlib.metadata import version

import pytest
import torch

from operformer.errors import DataError
from operformer.runs import provenance
from operformer.runs.provenance import note_seconds, read_provenance, read_seconds, write_provenance


def say(monkeypatch, text, code=0):
    done = subprocess.CompletedProcess([], code, stdout=text)
    monkeypatch.setattr(provenance.subprocess, "run", lambda *_, **__: done)


@pytest.mark.parametrize(
    ("said", "variable", "commit", "is_clean"),
    [
        ("abc123\n", "", "abc123", True),
        ("abc123-dirty\n", "", "abc123", False),
        ("abc123-dirty\n", "def456", "def456", True),  # a copy of the files over another checkout
        ("", "", None, None),
        ("", "def456", "def456", True),  # a copy that is no checkout
        ("", "def456-dirty", "def456", False),
    ],
)
def test_the_commit_and_whether_files_differ_from_it(monkeypatch, said, variable, commit, is_clean):
    say(monkeypatch, said, code=0 if said else 128)
    monkeypatch.setenv("OPERFORMER_COMMIT", variable)
    found = provenance.provenance()
    assert (found["commit"], found["is_clean"], found["torch"]) == (commit, is_clean, version("torch"))


def test_another_checkout_around_an_environment_is_not_ours(tmp_path, monkeypatch):
    monkeypatch.delenv("OPERFORMER_COMMIT", raising=False)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    package = tmp_path / "environment" / "provenance.py"
    package.parent.mkdir()
    package.touch()
    monkeypatch.setattr(provenance, "__file__", str(package))
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "theirs"], check=True)
    assert provenance.provenance()["commit"] is None
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "ours"], check=True)
    assert provenance.provenance()["commit"]


def test_the_device_is_the_one_that_trains(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    named = [provenance.provenance(device)["device"] for device in (None, torch.device("cuda", 0), torch.device("cpu"))]
    assert named[:2] == ["a GPU", "a GPU"]
    assert named[2].startswith("CPU (")


def test_a_run_that_goes_on_keeps_its_first_start(tmp_path, monkeypatch):
    assert read_provenance(tmp_path) == {}
    write_provenance(tmp_path)
    first = read_provenance(tmp_path)
    (tmp_path / "made.json").write_text('{"started": "2030-01-01T00:00:00+00:00", "torch": "0"}')
    write_provenance(tmp_path)
    assert read_provenance(tmp_path) == first | {"started": "2030-01-01T00:00:00+00:00"}


def test_seconds_of_both_parts_are_kept(tmp_path):
    note_seconds(tmp_path, "data", 1.23456)
    note_seconds(tmp_path, "evaluation", 7.0)
    note_seconds(tmp_path, "data", 2.0)
    assert read_seconds(tmp_path) == {"data": 2.0, "evaluation": 7.0}
    (tmp_path / "seconds.json").write_text("[1]")
    with pytest.raises(DataError, match=r"seconds\.json is damaged"):
        read_seconds(tmp_path)
