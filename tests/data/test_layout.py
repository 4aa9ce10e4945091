from itertools import permutations

import numpy as np
import pytest

import operformer
from operformer.data.layout import as_floats, channels_first, inferred, parse
from operformer.errors import DataError, UsageError


@pytest.mark.parametrize("axes", ["b c x", "b c x y", "b c n"])
def test_every_order_of_axes_comes_out_as_one(axes, numbered, tmp_path):
    expected = numbered(axes)
    grid = "nodes"
    if "n" in axes:
        grid = operformer.Grid.scattered(np.linspace(0, 1, 17)[:, None])
    for order in permutations(axes.split()):
        np.savez(tmp_path / "a.npz", u=numbered(" ".join(order)), z=expected)
        samples = operformer.read(tmp_path / "a.npz", layout=(" ".join(order), axes), grid=grid)
        np.testing.assert_array_equal(samples.u.numpy(), expected)
        np.testing.assert_array_equal(samples.z.numpy(), expected)


def test_every_order_of_axes_in_three_dimensions_and_time(numbered, tmp_path):
    full = numbered("b t c x y z")
    np.savez(tmp_path / "z.npz", u=full[:, 0], z=full[:, 2])
    for order in permutations("btcxyz"):
        if order[0] in "bz":  # a third of 720 is enough
            stored = channels_first(numbered(" ".join(order)), order, ("x", "y", "z"))
            np.testing.assert_array_equal(stored, full)


@pytest.mark.parametrize(
    ("layout", "complaint"),
    [
        ("b w x", "unknown letter 'w'"),
        ("b x x", "twice"),
        ("x y", "must hold b"),
        ("b c", "one of x, x y, x y z or n"),
        ("b y", "one of x"),
        ("b x n", "one of x"),
        (7, "must be a text"),
    ],
)
def test_layouts_that_say_nothing(layout, complaint):
    assert parse("bcxy") == parse("b c x y") == parse(" b c  xy ") == ("b", "c", "x", "y")
    with pytest.raises(UsageError, match=complaint):
        parse(layout)


def letters(shapes, space=None, dim=None):
    found = inferred({str(k): shape for k, shape in enumerate(shapes)}, space, dim)
    return ["".join(one) for one in found.values()]


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(5, 7), (5, 7)], ["bx", "bx"]),
        ([(5, 7), (5, 7, 2)], ["bx", "bxc"]),
        ([(5, 2, 7), (5, 7)], ["bcx", "bx"]),
        ([(5, 7, 11), (5, 1, 7, 11)], ["bxy", "bcxy"]),
        ([(5, 7, 11, 3), (5, 7, 11)], ["bxyc", "bxy"]),
        ([(5, 2, 7, 11), (5, 3, 7, 11)], ["bcxy", "bcxy"]),
        ([(5, 7, 11, 2), (5, 7, 11, 3)], ["bxyc", "bxyc"]),
        ([(5, 64, 64), (5, 64, 64)], ["bxy", "bxy"]),
        ([(5, 16, 16, 16), (5, 16, 16, 16)], ["bxyz", "bxyz"]),
    ],
)
def test_what_shapes_alone_say(shapes, expected):
    assert letters(shapes) == expected


@pytest.mark.parametrize(
    "shapes",
    [
        [(5, 7, 11)] * 2, [(5, 2, 2)] * 2, [(5, 2, 7, 11), (5, 7, 11, 2)], [(5, 2, 7, 11)] * 2, [(5, 7), (5, 7, 7)],
    ],
)  # fmt: skip
def test_what_shapes_leave_open_is_asked_for(shapes):
    with pytest.raises(DataError, match="say which they are by a layout"):
        letters(shapes)


def test_a_grid_or_bounds_settle_it():
    assert letters([(5, 7, 11), (5, 7, 11)], space={"x": 7, "y": 11}) == ["bxy", "bxy"]
    assert letters([(5, 7, 11), (5, 7, 11)], space={"x": 11}) == ["bcx", "bcx"]
    assert letters([(5, 7, 11), (5, 7, 11)], space={"x": 7}) == ["bxc", "bxc"]
    assert letters([(5, 17, 2), (5, 17)], space={"n": 17}) == ["bnc", "bn"]
    assert letters([(5, 7, 11), (5, 7, 11)], dim=2) == ["bxy", "bxy"]
    with pytest.raises(DataError, match=r"on a grid of 7; say|on a grid of 7 could"):
        letters([(5, 7, 7), (5, 7, 7)], space={"x": 7})


def test_floats_keep_their_precision_and_the_rest_is_float32():
    for stored in ("f2", "f4", ">f4", "f8", ">f8", "i8", "?"):
        out = "f8" if stored.endswith("f8") else "f4"
        values = as_floats(np.array([0, 1], dtype=stored))
        assert values.dtype == np.dtype(out)
        assert values.tolist() == [0, 1]
