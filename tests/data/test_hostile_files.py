"""Damaged and malicious files: one line each, soon, and nothing happens."""

import pickle
import time

import pytest
from hostile import CASES

import operformer
from operformer.errors import DataError


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_it_is_refused_in_one_line_and_nothing_happens(make, tmp_path, count):
    arguments, options = make(tmp_path)
    before = {path: path.lstat() for path in tmp_path.rglob("*")}
    began = time.monotonic()
    with pytest.raises(DataError) as caught:
        operformer.read(*arguments, **options)
    assert time.monotonic() - began < 5
    message = str(caught.value)
    assert message.isprintable()
    assert 20 < len(message) < 600
    after = {path: path.lstat() for path in tmp_path.rglob("*")}
    assert after.keys() == before.keys()
    for path, status in after.items():
        assert (status.st_size, status.st_mtime_ns) == (before[path].st_size, before[path].st_mtime_ns)
    assert not (tmp_path / "canary").exists()
    count("hostile files, each told in one line", 1)


def test_the_canary_sings(tmp_path):
    (path,), _ = CASES["plain_pickle"](tmp_path)
    pickle.loads(path.read_bytes())
    assert (tmp_path / "canary").exists()
