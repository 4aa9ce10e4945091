"""The command reproduce: usage, and drawing again from a file."""

from dataclasses import replace

import pytest

from paper.record import write_results


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


# Everything again from a file


@pytest.fixture
def source(made, tmp_path):
    """Results of the study lorenz, with the tiny run in place of both of its runs."""
    _, results, _ = made
    run = results.runs["lorenz-yz"]
    other = replace(run, settings=run.settings | {"name": "lorenz-yz-invariant"})
    runs = {"lorenz-yz": run, "lorenz-yz-invariant": other}
    write_results(replace(results, studies=("lorenz",), runs=runs, views={}), tmp_path / "results.json")
    return tmp_path / "results.json"


@pytest.mark.parametrize("studies", [[], ["lorenz"], ["all"]])
def test_a_study_is_drawn_again(call_paper, source, tmp_path, studies):
    code, out, err = call_paper("reproduce", *studies, "--from", source, "--out", tmp_path / "drawn")
    assert (code, err) == (0, "")
    assert "just below 10 %" in out
    names = {path.name for path in (tmp_path / "drawn").rglob("*") if path.is_file()}
    tables = {f"{name}.{kind}" for name in ("lorenz", "lorenz_grids") for kind in ("md", "tex")}
    assert names == tables | {"xtoyz.svg", "xtoyz.png", "index.html"}
    assert not (tmp_path / "drawn" / "runs").exists()


def test_a_study_that_is_not_in_the_file_is_refused(call_paper, source, tmp_path):
    code, _, err = call_paper("reproduce", "cost", "--from", source, "--out", tmp_path / "drawn")
    assert code == 2
    assert "holds no study cost; it has lorenz" in err
    assert not (tmp_path / "drawn").exists()
