"""Targets: their numbers, and reached or not reached by records whose errors are known."""

from dataclasses import replace

import pytest
from synthetic import errors, record

from operformer.experiments.protocol import PROTOCOLS
from operformer.experiments.recipes import RECIPES
from operformer.reproduction.targets import TARGETS, judge, resolution_table, target_table


def archive(*records):
    found = {protocol: {} for protocol in PROTOCOLS}
    for one in records:
        found[one.protocol].setdefault(one.settings["name"], []).append(one)
    return found


def test_the_targets_are_these():
    bounds = [(dict(target.at_most), dict(target.aim), target.protocols) for target in TARGETS]
    assert bounds == [
        ({"median": 7e-3}, {"median": 5e-3}, ("paper",)),
        ({"median": 4.7e-3}, {"median": 2.5e-3}, ("best",)),
        ({"median": 6e-3}, {"median": 3e-3}, ("paper", "best")),
        ({"median": 8e-3}, {"median": 4e-3}, ("paper", "best")),
        ({"median": 3.99e-3}, {"median": 1.5e-3}, ("paper", "best")),
        ({"median": 5e-3, "worst": 5e-2}, {"median": 2e-3, "worst": 2e-2}, ("paper", "best")),
        ({"mean": 4.9e-3}, {"mean": 4e-3}, ("best",)),
    ]
    for target in TARGETS:
        asked = {(name, protocol) for name in target.runs for protocol in target.protocols}
        assert all(name in RECIPES[protocol] for name, protocol in asked - {("lorenz-yz", "best")})


@pytest.mark.parametrize(
    ("number", "records", "status", "errors"),
    [
        (0, [], "not run", {}),
        (0, [("darcy-64-tno", "best", 1e-3)], "not run", {}),  # the other protocol
        (0, [("darcy-64-tno", "paper", 7.1e-3)], "not reached", {"median": 7.1e-3}),
        (0, [("darcy-64-tno", "paper", 6.9e-3)], "reached", {"median": 6.9e-3}),
        (0, [("darcy-64-tno", "paper", 4.9e-3)], "aim reached", {"median": 4.9e-3}),
        (2, [("darcy-416-vitno", "paper", 7e-3), ("darcy-416-fano", "best", 5e-3)], "reached", {"median": 5e-3}),
        (5, [("lorenz-yz", "paper", 1e-3)], "aim reached", {"median": 1e-3, "worst": 2e-3}),
        (5, [("lorenz-yz", "paper", 6e-3)], "not reached", {"median": 6e-3, "worst": 1.2e-2}),
        (6, [("darcy-li-85", "best", 1e-3, 0), ("darcy-li-85", "best", 1e-3, 1)], "2 of 3 seeds", {}),
        (
            6,
            [("darcy-li-85", "best", 4e-3, 0), ("darcy-li-85", "best", 4e-3, 1), ("darcy-li-85", "best", 5.5e-3, 2)],
            "reached",
            {"mean": 4.5e-3},
        ),
    ],
)
def test_a_target_is_judged_by_the_records(number, records, status, errors):
    verdict = judge(TARGETS[number], archive(*(record(*one) for one in records)))
    assert verdict.status == status
    assert verdict.errors == {key: pytest.approx(value) for key, value in errors.items()}


def test_the_table_says_who_reached_it():
    table = target_table(
        archive(record("kolmogorov-416-fano", "best", 1.4e-3), record("kolmogorov-416-vitno", "paper", 3e-3))
    )
    (row,) = (row for row in table.rows if row[0].startswith("Kolmogorov"))
    assert row[1:] == (
        "AFNO 0.399 % (paper)",
        "0.399 %",
        "0.150 %",
        "0.140 %",
        "kolmogorov-416-fano, best",
        "aim reached",
    )
    assert [row[-1] for row in table.rows].count("not run") == 6


def on_grids(name, protocol, seed=0, **factors):
    """A record of median 1e-2 with so many times that on other grids, "0.5x" written as half, and so on."""
    labels = {"half": "0.5x", "most": "0.75x", "more": "1.5x", "twice": "2x", "graded": "graded"}
    given = record(name, protocol, 1e-2, seed)
    kept = {"1x": 1.0} | {labels[key]: factor for key, factor in factors.items()}
    measured = (replace(m, errors=errors(kept[m.label] * 1e-2, 200)) for m in given.measured if m.label in kept)
    return replace(given, measured=tuple(measured))


def test_the_largest_change_between_half_and_twice_the_resolution_is_told():
    table = resolution_table(
        archive(
            on_grids("darcy-64-tno", "paper", half=1.1, more=1.25, twice=0.4, graded=9.0),
            on_grids("darcy-64-tno", "best", seed=0, half=1.3, twice=1.1),
            on_grids("darcy-64-tno", "best", seed=1, half=1.0, twice=1.6),
            on_grids("darcy-416-fano", "best", most=1.2),
            on_grids("darcy-64-afno", "paper"),  # the training grid alone
        )
    )
    assert table.header == ("run", "paper", "best")
    assert table.rows == (
        ("darcy-64-tno", "1.25 at 1.5x: reached", "1.60 at 2x: not reached"),
        ("darcy-416-fano", "", "1.20 at 0.75x: aim reached"),
    )
