"""What is read back from the text, by the formulas in the docstrings, is what was written."""

import base64

import numpy as np
import pytest

from operformer.runs.report.encoding import encode_errors, encode_floats, encode_values


def codes(text, dtype="<u2"):
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=dtype)


def decode_errors(lowest, highest, text):
    found = codes(text).astype(int)
    size = 10 ** (lowest + ((found & 32767) - 1) / 32766 * (highest - lowest))
    return np.where(found & 32767, np.where(found >> 15, -size, size), np.where(found >> 15, np.nan, 0.0))


def test_values_are_off_by_half_a_step_at_most():
    values = np.random.default_rng(0).normal(3.0, 7.0, (11, 13))
    lowest, highest, text = encode_values(values)
    assert (lowest, highest) == (values.min(), values.max())
    found = lowest + codes(text) / 65534 * (highest - lowest)
    np.testing.assert_allclose(found, values.ravel(), rtol=0, atol=0.5001 * (highest - lowest) / 65534)


@pytest.mark.parametrize("value", [0.0, -2.5, 1e30])
def test_a_constant_is_kept(value):
    lowest, highest, text = encode_values(np.full(5, value))
    assert lowest == highest == value
    assert list(codes(text)) == [0] * 5


def test_what_is_no_number_is_marked():
    lowest, highest, text = encode_values(np.array([1.0, np.nan, 3.0, np.inf, -np.inf]))
    assert (lowest, highest, list(codes(text))) == (1.0, 3.0, [0, 65535, 65534, 65535, 65535])
    assert codes(encode_values(np.full(2, np.nan))[2]).tolist() == [65535, 65535]
    found = decode_errors(*encode_errors(np.array([0.5, np.nan, -np.inf, 0.0])))
    np.testing.assert_array_equal(np.isnan(found), [False, True, True, False])
    assert (found[0], found[3]) == (pytest.approx(0.5), 0.0)


def test_errors_keep_their_size_and_sign_over_eleven_decades():
    sizes = np.logspace(-11, 0, 1009)
    errors = sizes * np.where(np.arange(1009) % 3, 1, -1)
    found = decode_errors(*encode_errors(errors))
    np.testing.assert_allclose(found, errors, rtol=5e-4)  # half of 12 / 32766 decades is 0.042 %


def test_errors_beyond_twelve_decades_count_as_the_smallest():
    found = decode_errors(*encode_errors(np.array([1.0, 1e-20, -1e-40, 0.0])))
    np.testing.assert_allclose(found, [1.0, 1e-12, -1e-12, 0.0], rtol=1e-9)


def test_no_error_is_not_taken_for_a_large_one():
    lowest, highest, text = encode_errors(np.zeros(3))
    assert lowest == highest == -300.0
    assert list(codes(text)) == [0, 0, 0]


def test_axes_are_kept_as_they_are():
    points = np.array([0.0, 0.1, 7.25], dtype=np.float32)
    np.testing.assert_array_equal(codes(encode_floats(points), "<f4"), points)
