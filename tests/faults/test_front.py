"""Bad values for every argument of the public front: a call works, or is refused in one line by an error of ours."""

import pytest
from front import campaign

CALLS = 7000
SLICE = 250


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Texts that are no path but could be one lead into an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.faults
def test_every_call_of_the_front_works_or_is_refused(tmp_path, count):
    found, broken = campaign(CALLS, 0, tmp_path)
    assert not broken, "\n".join(f"{outcome}  {call}" for outcome, call in broken)
    count("calls with bad values from Python, refused", found["refused"])
    count("calls with bad values from Python that work", found["worked"])
    assert found["refused"] >= 5000


def test_some_calls_of_the_front_work_or_are_refused(tmp_path):
    found, broken = campaign(SLICE, 1, tmp_path)
    assert not broken, "\n".join(f"{outcome}  {call}" for outcome, call in broken)
    assert found["refused"] > SLICE / 2
