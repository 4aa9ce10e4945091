"""Costs at the paper's sizes: formulas and counts against values by hand."""

import pytest

from paper import complexity
from paper.complexity import Setting
from paper.costs import costs
from paper.stated import COMPLEXITY


@pytest.fixture(scope="module")
def found():
    return costs()


def test_every_row_of_the_tables_is_there(found):
    assert found.keys() == COMPLEXITY.keys()
    assert {name: cost.resolution for name, cost in found.items()} == {
        "FNO": 416, "AFNO": 416, "TNO": 64, "ViTNO": 416, "FANO": 416,
    }  # fmt: skip


def test_parameters_differ_by_what_is_said(found):
    assert found["TNO"].parameters == 598145
    assert found["TNO"].formula_parameters == 591872
    assert found["AFNO"].parameters - found["AFNO"].formula_parameters == 128 + 4 * 640 + 4 * 512 + 4 * 512
    for name in ("ViTNO", "FANO"):
        biases = complexity.bias_parameters(Setting(1, 1, 2), name)
        last = (2 * 64 - 1) ** 2  # one channel
        assert found[name].parameters - found[name].formula_parameters == biases + last


def test_operations(found):
    """The layers of a TNO at N = 4096: 12 d^2 N, and 2 N^2 d for scores and for averages."""
    n, d = 4096, 128
    tno = 2 * n * 3 * d + 2 * n * d + 6 * (12 * d**2 * n + 2 * 2 * n**2 * d)
    assert found["TNO"].operations == tno  # on cells, whose weights are equal: no further channel
    assert found["TNO"].formula_operations == tno - 6 * 2 * n**2 * d
    fano = Setting(1, 1, 2, 128, (9, 9), (13, 13))
    inside = complexity.cost_fano_in_coefficients(fano, 416**2)
    assert inside < found["FANO"].operations < 1.002 * inside  # and the last layer
    assert found["FANO"].operations < found["FANO"].formula_operations


def test_growth(found):
    """Four times the points: N^2 makes the TNO nearly 16 times as expensive, the others about four times."""
    ratios = {n: c.operations_at_double / c.operations for n, c in found.items() if c.operations}
    assert 14 < ratios["TNO"] < 16
    assert 3.9 < ratios["ViTNO"] < 4.1
    assert 3.9 < ratios["AFNO"] < 4.1
    if "FNO" in ratios:  # without neuraloperator there is none
        assert 3.9 < ratios["FNO"] < 4.1
    assert 1 < ratios["FANO"] < 4
