"""The queue: what is to run, what fits into a time, and trainings that are stopped and resumed."""

import pytest

from operformer.errors import UsageError
from paper import queue
from paper.archive import read_archive
from paper.queue import Entry, entries, find_entries, states, work

RUN = "lorenz-yz"
TWO = [Entry(RUN, "same-operator"), Entry(RUN, "same-operator", 1)]


def test_every_run_ends_in_a_record(tmp_path, tiny_catalogue):
    told = []
    assert [state.text for state in states(TWO, tmp_path / "results", tmp_path / "runs")] == ["to run"] * 2
    assert work(TWO, tmp_path / "results", tmp_path / "runs", 5.0, told.append) == 2
    records = read_archive(tmp_path / "results")["same-operator"][RUN]
    assert [record.settings["training"]["seed"] for record in records] == [0, 1]
    for record in records:
        assert len(record.fresh.errors) == len(record.fresh.standardised_errors) == 500
        assert len(record.curve) == record.settings["training"]["epochs"]
    assert [state.text for state in states(TWO, tmp_path / "results", tmp_path / "none")] == ["recorded"] * 2
    assert work(TWO, tmp_path / "results", tmp_path / "none", 5.0, told.append) == 0
    tiny_catalogue(epochs=2)  # another recipe: the records are of trainings that are to run again
    assert [state.text for state in states(TWO[:1], tmp_path / "results", tmp_path / "none")] == ["to run"]


def test_a_training_is_stopped_in_time_and_resumed(tmp_path, tiny_catalogue):
    tiny_catalogue(epochs=300)
    told, chosen = [], TWO[:1]
    assert work(chosen, tmp_path / "results", tmp_path / "runs", 3 / 60, told.append) == 0
    assert "stopped, the time is over" in told[-1]
    (state,) = states(chosen, tmp_path / "results", tmp_path / "runs")
    assert 0 <= state.epoch < 300
    assert not state.is_recorded
    tiny_catalogue(epochs=300)
    assert work(chosen, tmp_path / "results", tmp_path / "runs", 5.0, told.append) == 1
    (record,) = read_archive(tmp_path / "results")["same-operator"][RUN]
    assert len(record.curve) == 300


@pytest.mark.parametrize(("left", "is_begun"), [(0.0, False), (60.0, True)])
def test_what_cannot_be_carried_begins_only_where_it_fits(tmp_path, tiny_catalogue, monkeypatch, left, is_begun):
    monkeypatch.setattr(queue, "LIGHT", 0)
    monkeypatch.setattr(queue, "_minutes", lambda *_: 10.0)
    told = []
    made = work(TWO[:1], tmp_path / "results", tmp_path / "runs", 5.0, told.append, left)
    assert made == is_begun
    assert is_begun or told == [f"{RUN}-same-operator: does not fit, about 10 min"]


def test_the_table_of_the_paper_comes_first(call_paper, tmp_path):
    found = entries()
    assert len(found) == len(set(found))
    assert [entry.run for entry in found[:4]] == [f"darcy-416-{name}" for name in ("vitno", "fano", "fno", "afno")]
    assert {entry.recipe for entry in found[:12]} == {"same-operator"}
    code, out, err = call_paper("queue", "lorenz-yz", "--records", tmp_path, "--folder", tmp_path)
    assert (code, err) == (0, "")
    assert "0 of 3 recorded" in out
    assert "lorenz-yz-same-operator-seed-2" in out


def test_the_names_that_are_listed_are_understood():
    known = entries()
    assert all(find_entries([entry.name]) == [entry] for entry in known)
    assert find_entries([]) == known
    assert {entry.run for entry in find_entries(["lorenz-yz"])} == {"lorenz-yz"}
    with pytest.raises(UsageError, match="lorenz-yx"):
        find_entries(["lorenz-yx"])
