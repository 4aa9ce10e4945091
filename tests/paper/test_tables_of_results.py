"""Small pieces of the tables: numbers as text, columns, rollouts."""

from dataclasses import replace

import pytest
from tiny import NAMES

from operformer.evaluation.rollout import Rollout
from paper.tables import error_text, rollout_table, scaling_table


@pytest.mark.parametrize(
    ("error", "text"),
    [(0.0119, "1.19 %"), (0.00768, "0.768 %"), (1.234, "123 %"), (0.5, "50.0 %"), (0.09999, "10.00 %"),
     (3e-6, "3.00e-04 %"), (0.0, "0.00e+00 %"), (123.4, "1.23e+04 %"), ("< 1 %", "< 1 %"), (None, "")],
)  # fmt: skip
def test_errors_have_three_digits(error, text):
    assert error_text(error) == text


def test_rollouts_stand_beside_the_forecast_of_no_change(made):
    _, results, _ = made
    rollout = Rollout((0.1, 0.2, 0.3), ((0.1, 0.3), (0.2, 0.4), (0.5, 0.7)), ((0.2, 0.4),) * 3, None)
    name = NAMES[1]
    results = replace(results, runs={name: replace(results.runs[name], rollout=rollout)})
    table = rollout_table(results, "Growth", [name])
    assert table.header == ("operator", "t = 0.1", "t = 0.2", "t = 0.3")
    assert table.rows == (
        ("FANO, 2 × 2 patches", "20.0 %", "30.0 %", "60.0 %"),
        ("no change", "30.0 %", "30.0 %", "30.0 %"),
    )


def test_growth_with_the_number_of_points(made):
    rows = {row[0]: row for row in scaling_table(made[1]).rows}
    assert rows["TNO"][2:4] == ("64 × 64", "14.10")
