"""Targets: their numbers, and reached or not reached by records whose errors are known."""

from dataclasses import replace

import pytest
from synthetic import errors, record

from paper.protocol import PROTOCOLS
from paper.recipes import RECIPES
from paper.record import Measured
from paper.targets import TARGETS, judge, resolution_table, target_table


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
        (1, [("darcy-64-tno", "best", 3e-3), ("darcy-64-spectral", "best", 2e-3)], "aim reached", {"median": 2e-3}),
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


def on_grids(name, protocol, seed=0, in_h1=1.0, **factors):
    """A record of median 1e-2, and so many times that on other grids, whose labels are here without a dot."""
    given = record(name, protocol, 1e-2, seed)
    kept = {"1x": 1.0} | {label.replace("_", "."): factor for label, factor in factors.items()}
    measured = [
        Measured(label, 7, errors(factor * 1e-2, 200), errors(in_h1 ** (label != "1x") * factor * 0.1, 200))
        for label, factor in kept.items()
    ]
    return replace(given, measured=tuple(measured))


def multiples(*records):
    return [
        dict(zip(table.header, row, strict=True))
        for table in [resolution_table(archive(*records))]
        for row in table.rows
    ]


def test_the_largest_change_between_half_and_twice_the_resolution_is_told():
    assert multiples(
        on_grids("darcy-64-tno", "paper", **{"0_5x": 1.1, "1_5x": 1.25, "2x": 0.4, "graded": 9.0, "irregular": 8.0}),
        on_grids("darcy-64-tno", "best", 0, **{"0_5x": 1.3, "2x": 1.1}),
        on_grids("darcy-64-tno", "best", 1, in_h1=2.0, **{"0_5x": 1.0, "2x": 1.6}),
        on_grids("darcy-416-fano", "best", **{"0_75x": 1.0}),
        on_grids("darcy-64-afno", "paper"),  # the training grid alone
    ) == [
        {
            "run": "darcy-64-tno", "paper: L2": "1.25 at 1.5x: reached", "paper: H1": "1.25 at 1.5x",
            "best: L2": "1.60 at 2x: not reached", "best: H1": "3.20 at 2x",
        },
        {
            "run": "darcy-416-fano", "paper: L2": "not run", "paper: H1": "",
            "best: L2": "1.00 at 0.75x: aim reached", "best: H1": "1.00 at 0.75x",
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("factor", "status"), [(1.19, "aim reached"), (1.21, "reached"), (1.49, "reached"), (1.51, "not reached")]
)
def test_a_change_is_judged_by_its_size(factor, status):
    (row,) = multiples(on_grids("darcy-64-fno", "paper", **{"2x": factor}))  # which has no best recipe
    assert row == {"run": "darcy-64-fno", "paper: L2": f"{factor} at 2x: {status}", "paper: H1": f"{factor} at 2x"}


def test_an_error_of_zero_has_no_multiples():
    given = on_grids("darcy-64-fno", "paper", **{"2x": 1.0})
    nothing = tuple(replace(there, errors=(0.0,) * 200) for there in given.measured)
    (row,) = multiples(replace(given, measured=nothing))
    assert row == {"run": "darcy-64-fno", "paper: H1": "1.00 at 2x"}
