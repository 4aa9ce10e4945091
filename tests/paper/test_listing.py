"""The printed catalogue: what it says of each run, its width, its JSON."""

import json

import pytest

from paper.catalogue import rows

NAMES = [row.name for row in rows(recipe="authors")]


@pytest.mark.parametrize("recipe", ["smoke", "authors"])
def test_every_run_has_a_line_of_at_most_a_hundred_columns(call_paper, recipe):
    code, out, err = call_paper("experiments", "--recipe", recipe)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    first = [line.split()[0] for line in lines if line.strip()]
    assert sorted(name for name in first if name in NAMES) == sorted(NAMES)
    assert "TFLOP/s" in out
    assert f"python -m paper train NAME --recipe {recipe}" in out


def test_json_is_the_same_with_all_digits(call_paper):
    code, out, _ = call_paper("experiments", "--recipe", "authors", "--json", "--tflops", "2")
    listed = json.loads(out)
    assert code == 0
    assert listed["rate"] == 2e12
    found = {row["name"]: row for row in listed["experiments"]}
    assert list(found) == NAMES
    assert found["darcy-64-fno"]["parameters"] == 5_705_089
    assert [found["lorenz-y"][key] for key in ("resolution", "samples", "epochs")] == [200, 8000, 100]
    for row in found.values():
        assert row["training_seconds"] == pytest.approx(row["training_operations"] / 2e12)


def test_parameters_stand_beside_the_papers(call_paper):
    code, out, err = call_paper("experiments", "--parameters")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 100
    assert "darcy-64-tno: 598 145, 5.98e5; the paper prints 5.98e5" in out
    operators = json.loads(call_paper("experiments", "--parameters", "--json")[1])["operators"]
    assert all(row["parameters"] == sum(line["count"] for line in row["lines"]) for row in operators)
    assert not any(
        row["paper"]
        for row in json.loads(call_paper("experiments", "--parameters", "--json", "--recipe", "smoke")[1])["operators"]
    )


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_a_rate_that_is_none_is_refused(call_paper, value):
    code, _, err = call_paper("experiments", "--tflops", value)
    assert (code, err.count("\n")) == (2, 1)
    assert "tflops must be positive" in err
