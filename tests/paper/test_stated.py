"""The paper's numbers and formulas: each belongs to an experiment, each formula is the one that is computed."""

import re
from math import log2, sqrt

import pytest

from paper import complexity
from paper.complexity import Setting
from paper.section6 import EXPERIMENTS
from paper.stated import COMPLEXITY, STATED

S = Setting(in_channels=2, out_channels=3, dim=2, hidden_channels=5, n_modes=(4, 4), n_patches=(2, 3))
N = 1536
NAMES = {
    "c": 4, "d": 5, "d_z": 3, "d_FNO": 128, "N": N, "P": 6, "b": 8,
    "log": log2, "root": sqrt,
}  # fmt: skip


def value(text, k_max):
    """The printed formula: a space, or nothing before a bracket, is a product."""
    text = text.replace("²", "**2").replace("√N", "root(N)").replace("√(", "root(")
    text = re.sub(r"log root\(([^()]*)\)", r"log(root(\1))", text)
    tokens = re.findall(r"root|log|[A-Za-z_]+|\d+|\*\*2|[-+/()]", text)
    out = []
    for token in tokens:
        is_factor = token not in ("**2", "+", "-", "/", ")")
        if out and is_factor and (out[-1] not in ("+", "-", "/", "(", "root", "log")):
            out.append("*")
        out.append(token)
    return eval("".join(out), NAMES | {"k_max": k_max})


@pytest.mark.parametrize("name", COMPLEXITY)
def test_the_formulas_in_words_are_those_that_are_computed(name):
    k_max = 4 * 3 if name == "FNO" else 7 * 7
    extra = (N,) if name == "AFNO" else ()
    parameters = getattr(complexity, f"parameters_{name.lower()}")(S, *extra)
    if name == "AFNO":  # the function rounds 4 d^2 / b down
        parameters += 4 * (4 * 25 / 8 - 4 * 25 // 8)
    assert value(COMPLEXITY[name].parameters, k_max) == pytest.approx(parameters)
    cost = getattr(complexity, f"cost_{name.lower()}")(S, N)
    if name == "AFNO":  # printed without N
        cost += 4 * 16 * 25 * (1 - N)
    assert value(COMPLEXITY[name].cost, k_max) == pytest.approx(cost)


def test_the_values_of_formulas_are_read_rightly():
    """c d + 2 (d² + d_z/b) log √N by hand: 20 + 2 (25 + 3 / 8) log2(sqrt(1536))."""
    assert value("c d + 2 (d² + d_z/b) log √N", 1) == pytest.approx(20 + 2 * (25 + 3 / 8) * log2(sqrt(1536)))


def test_every_number_belongs_to_an_experiment():
    assert STATED.keys() <= EXPERIMENTS.keys()


def test_numbers_as_printed():
    """One from each column of the paper's tables."""
    assert (STATED["darcy-64-tno"].median, STATED["darcy-64-tno"].parameters) == (0.0119, 598000)
    assert STATED["darcy-416-vitno"].median == 0.00768
    assert STATED["piecewise-416-fno"].median == 0.0378
    assert STATED["kolmogorov-416-afno"].median == 0.00399
    assert STATED["lorenz-yz"].worst == "just below 10 %"
    assert sum(stated.label == "tab:2d_median_errors_high" for stated in STATED.values()) == 12
