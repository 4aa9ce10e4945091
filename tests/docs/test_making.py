"""What makes the site: formulas converted or refused, prose that stays prose, figures whose numbers are right."""

from math import exp, sin
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

pytest.importorskip("mkdocs", reason="mkdocs belongs to the extra docs")

import docstrings
import figures
import formulas
import measurements
from mkdocs.exceptions import PluginError

MATHML = "{http://www.w3.org/1998/Math/MathML}"


def tags(mathml):
    return [element.tag.removeprefix(MATHML) for element in ElementTree.fromstring(mathml).iter()]


def test_a_formula_has_the_parts_it_was_written_with():
    found = formulas.formula(r"\frac{a}{b_1} + \sqrt{x}", False, "here")
    assert tags(found).count("mfrac") == 1
    assert tags(found).count("msub") == 1
    assert tags(found).count("msqrt") == 1
    assert "".join(ElementTree.fromstring(found).itertext()) == "ab1+x"


@pytest.mark.parametrize(
    "broken", [r"\frac{1}", r"\nosuchcommand x", "x_", r"\frac{a", r"\begin{aligned} a &= b \end{aligned}"]
)
def test_a_formula_that_is_not_understood_ends_the_build(broken):
    with pytest.raises(PluginError, match=r"somewhere\.md"):
        formulas.formula(broken, True, "somewhere.md")


def test_prose_is_not_taken_for_markdown():
    markdown = pytest.importorskip("markdown")
    prose = "sum_i w_i u(x_i) <Qu, Kv> of *shape, then *shape [0, T][1] # `code_a` ``b*c*``"
    shown = ElementTree.fromstring(markdown.markdown(docstrings.as_markdown(prose, {})))
    assert "".join(shown.itertext()) == prose.replace("`", "")
    assert [code.text for code in shown.iter("code")] == ["code_a", "b*c*"]
    linked = docstrings.as_markdown("see `Grid.uniform`", {"Grid.uniform": "a.b.Grid.uniform"})
    assert 'identifier="a.b.Grid.uniform"' in linked


def test_the_continuum_is_an_integral():
    """A(u)(x) at one point, both integrals by the midpoint rule with plain sums."""
    count = 20000
    middle = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    query = measurements.Q @ torch.tensor([sin(0.9), exp(-0.3)], dtype=torch.float64)
    known = torch.stack([torch.sin(3 * middle), torch.exp(-middle)])
    density = torch.exp(query @ measurements.K @ known)
    expected = float((density * (known[0] - 0.5 * known[1])).sum() / density.sum())
    found = measurements.continuum(torch.tensor([[0.3]], dtype=torch.float64))
    assert float(found) == pytest.approx(expected, abs=1e-8)


def test_orders_in_the_figure_are_those_of_the_text():
    errors, sizes = measurements.attention_errors()
    orders = {name: measurements.observed_order([n - 1 for n in sizes], row) for name, row in errors.items()}
    assert orders["uniform, trapezoid"] == pytest.approx(2, abs=0.05)
    assert orders["graded, trapezoid"] == pytest.approx(2, abs=0.05)
    assert orders["random, equal weights"] == pytest.approx(0.5, abs=0.15)
    assert abs(orders["graded, equal weights"]) < 0.1
    assert errors["graded, equal weights"][-1] > 0.1


def test_rounding_grows_with_the_resolution_in_h1_alone():
    found, sizes = measurements.rounding_errors((32, 64, 128))
    for dtype, digits in (("bfloat16", 8), ("float16", 11)):
        steady, growing = found[dtype, "L2"], found[dtype, "H1"]
        # Rounding to nearest is off by at most 2^-digits, uniformly within a step on average by less.
        assert all(0.1 * 2**-digits < error < 2**-digits for error in steady)
        assert measurements.observed_order(sizes, growing) == pytest.approx(-1, abs=0.15)


@pytest.mark.parametrize("name", ["graded", "partition", "fano"])
def test_a_figure_is_the_one_that_is_kept_and_has_colours_for_both_schemes(name):
    measure, draw = figures.FIGURES[name]
    drawn = figures.picture(draw, measure())
    assert drawn == (Path(__file__).parents[2] / "docs" / "pictures" / f"{name}.svg").read_text(), "make pictures"
    sheet, _, rest = drawn.partition("</style>")
    for light, dark in (figures.INK, *figures.COLOURS):
        assert light in sheet
        assert dark in sheet
        assert light not in rest
