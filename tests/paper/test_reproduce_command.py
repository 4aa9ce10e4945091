"""The command reproduce: usage, and drawing again from a file."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        ([], 2, "name a study, or all"),
        (["lorentz"], 2, "did you mean lorenz?"),
        (["lorenz", "--jobs", "0"], 2, "jobs must be at least 1"),
        (["lorenz", "--recipe", "large"], 2, "large"),
        (["lorenz", "--from", "nowhere.json"], 3, "nowhere.json"),
        (["--from", "empty.json"], 3, "empty.json holds no results of a reproduction"),
    ],
)
def test_usage(call_paper, tmp_path, monkeypatch, arguments, code, part):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.json").write_text("{}")
    found, _, err = call_paper("reproduce", *arguments)
    assert found == code
    assert err.count("\n") == 1
    assert part in err
    assert not (tmp_path / "runs").exists()
