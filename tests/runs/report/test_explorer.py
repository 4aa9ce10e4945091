"""What the explorer's script is given: the exhibits' numbers, each function once."""

import base64
import json
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

from operformer.errors import DataError
from operformer.runs.report.explorer import Exhibit, Shown, explorer_data

SHAPES = {"1x": (13, 7), "2x": (26, 11), "irregular": (8, 5)}


def values(data, number):
    lowest, highest, text = data["pictures"][number]
    return lowest + np.frombuffer(base64.b64decode(text), "<u2") / 65534 * (highest - lowest)


def test_functions_and_points_come_through(make_exhibit):
    exhibit = make_exhibit("flow", "A", 0.1, SHAPES)
    data = explorer_data([exhibit])
    (problem,) = data["problems"]
    (operator,) = problem["operators"]
    for label, shown in exhibit.views.items():
        view = operator["views"][label]
        for axis, number in zip((shown.x, shown.y), view["axes"], strict=True):
            found = np.frombuffer(base64.b64decode(data["axes"][number]), "<f4")
            np.testing.assert_allclose(found, axis, rtol=1e-6)
        for k, sample in enumerate(view["samples"]):
            assert sample["draw"] == shown.index[k]
            assert sample["error"] == f"{shown.errors[k]:.2%}"
            np.testing.assert_allclose(values(data, sample["u"][0]), shown.u[k, 0].ravel(), atol=1e-4)
            for channel in (0, 1):
                np.testing.assert_allclose(values(data, sample["z"][channel]), shown.z[k, channel].ravel(), atol=3e-5)
                assert data["pictures"][sample["e"][channel]][1] == pytest.approx(-1)  # log10 of the largest error
    assert json.loads(json.dumps(data)) == json.loads(json.dumps(explorer_data([exhibit])))


def test_the_error_is_taken_before_rounding():
    truth = np.linspace(0, 1e4, 97)[None, None]
    prediction = truth + 1e-3  # far below a step of the truth, 1e4 / 65534
    shown = Shown(np.arange(97.0), None, truth, truth, prediction, np.array([0.5]), np.array([0]))
    data = explorer_data([Exhibit("p", "A", "u", "z", {"1x": shown}, {"1x": 97})])
    (sample,) = data["problems"][0]["operators"][0]["views"]["1x"]["samples"]
    assert data["pictures"][sample["e"][0]][:2] == pytest.approx((-3, -3), abs=1e-6)


def test_operators_share_what_is_the_same(make_exhibit):
    one = explorer_data([make_exhibit("flow", "A", 0.1, SHAPES)])
    two = explorer_data([make_exhibit("flow", name, off, SHAPES) for name, off in (("A", 0.1), ("B", 0.2))])
    first, second = (operator["views"]["2x"]["samples"] for operator in two["problems"][0]["operators"])
    assert [sample["z"] for sample in first] == [sample["z"] for sample in second]
    assert [sample["e"] for sample in first] != [sample["e"] for sample in second]
    assert two["axes"] == one["axes"]


def test_pictures_have_at_most_96_points_along_an_axis(make_exhibit):
    exhibit = make_exhibit("flow", "A", 0.1, {"1x": (127, 31)})
    exhibit = replace(exhibit, points={"1x": (401, 201)})
    data = explorer_data([exhibit])
    view = data["problems"][0]["operators"][0]["views"]["1x"]
    x, y = (np.frombuffer(base64.b64decode(data["axes"][number]), "<f4") for number in view["axes"])
    assert (len(x), len(y)) == (96, 31)
    shown = exhibit.views["1x"]
    places = np.searchsorted(shown.x, x.astype(float) - 1e-6)
    assert (places[0], places[-1]) == (0, 126)
    found = values(data, view["samples"][1]["z"][0]).reshape(96, 31)
    np.testing.assert_allclose(found, shown.z[1, 0][places], atol=3e-5)  # values at points, none averaged
    assert view["size"] == "401 × 201 points, 96 × 31 of them drawn"


def test_curves_keep_all_points_and_stand_in_order():
    x = np.random.default_rng(1).permutation(2048).astype(float)
    shown = Shown(x, None, *(x[None, None],) * 3, np.array([0.5]), np.array([0]))
    data = explorer_data([Exhibit("p", "A", "u", "z", {"1x": shown}, {"1x": 2048})])
    view = data["problems"][0]["operators"][0]["views"]["1x"]
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(data["axes"][0]), "<f4"), np.arange(2048))
    np.testing.assert_allclose(values(data, view["samples"][0]["u"][0]), np.arange(2048), atol=0.02)
    assert view["size"] == "2048 points"


def test_grids_stand_in_order_and_those_that_lack_say_why(make_exhibit):
    shape = (3, 5)
    some = make_exhibit("flow", "A", 0.1, {"2x": shape, "1x": shape}, absent={"graded": "it needs <uniform> grids"})
    all_ = make_exhibit("flow", "B", 0.1, dict.fromkeys(("0.5x", "1x", "2x", "irregular", "graded"), shape))
    (problem,) = explorer_data([some, all_])["problems"]
    assert [grid["label"] for grid in problem["grids"]] == ["0.5x", "1x", "2x", "graded", "irregular"]
    assert [grid["short"] for grid in problem["grids"]] == ["0.5 ×", "training", "2 ×", "graded", "irregular"]
    lacking, complete = (operator["absent"] for operator in problem["operators"])
    assert lacking["graded"] == "it needs <uniform> grids"
    assert lacking["irregular"] == lacking["0.5x"] == "A was not evaluated there"
    assert complete == {}


def test_problems_without_a_view_are_left_out(make_exhibit):
    data = explorer_data([make_exhibit("flow", "A", 0.1, SHAPES), make_exhibit("empty", "A", 0.1, {})])
    assert [problem["name"] for problem in data["problems"]] == ["flow"]


def test_colours_are_matplotlibs():
    table = np.frombuffer(base64.b64decode(explorer_data([])["colours"]["magma"]), np.uint8).reshape(256, 3)
    for k in (0, 101, 255):
        np.testing.assert_allclose(table[k] / 255, mpl.colormaps["magma"](k)[:3], atol=1 / 255)


def test_what_does_not_fit_is_refused(make_exhibit):
    exhibit = make_exhibit("flow", "A", 0.1, SHAPES)
    with pytest.raises(DataError, match="two exhibits of flow are called A"):
        explorer_data([exhibit, exhibit])
    with pytest.raises(DataError, match="the channels of flow are p, q for A and p, r for B"):
        explorer_data([exhibit, make_exhibit("flow", "B", 0.1, SHAPES, outputs=("p", "r"))])
    with pytest.raises(DataError, match="A on flow: the number of points of grid 2x is missing"):
        replace(exhibit, points={"1x": 91, "irregular": 40})
    for name in ("u", "z", "prediction", "errors"):
        bad = replace(exhibit.views["1x"], **{name: np.zeros((2, 1, 13, 7))})
        with pytest.raises(DataError, match=rf"A on flow, grid 1x: {name} has the shape \(2, 1, 13, 7\), expected"):
            replace(exhibit, views={"1x": bad})
