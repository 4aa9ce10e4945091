"""Samples that go into a record as text and come back."""

import numpy as np
import pytest

from operformer.evaluation.errors import Curves, Images
from operformer.runs.report.encoding import encode_floats
from paper.samples import pack_looks, unpack_looks

AXIS = [0.0, 1 / 3, 1.0]
CURVES = Curves(0.1234567, AXIS, [[1.0, 1 / 3, -2.0]], [[1e-9, 2.0, 3.0]], [[1.1e-9, 2.1, 3.1]])
PLANE = [[[1.0, 2.0], [3.0, 4.0], [5.0, 1 / 7]]]
IMAGES = Images(0.5, AXIS, AXIS[:2], PLANE, PLANE, PLANE)


@pytest.mark.parametrize("look", [CURVES, IMAGES], ids=["curves", "images"])
def test_functions_come_back_in_single_precision(look):
    ((found, other),) = unpack_looks(pack_looks({"1x": (look, look)})).values()
    assert found == other
    assert type(found) is type(look)
    for name in ("u", "z", "prediction"):
        np.testing.assert_array_equal(getattr(found, name), np.float32(getattr(look, name)))
    assert found.x == [0.0, 0.333333, 1.0]
    assert found.error == pytest.approx(look.error, rel=1e-5)  # six digits


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"shape": [1, 2, 3]}, "do not live on its axes"),
        ({"shape": [1, 3, 3]}, "reshape"),
        ({"float32": encode_floats(np.full(6, np.nan))}, "not finite"),
        ({"float32": "?"}, "base64"),
    ],
)
def test_what_is_no_sample_is_refused(change, told):
    values = pack_looks({"1x": (IMAGES, IMAGES)})
    values["1x"][1]["u"] |= change
    with pytest.raises(ValueError, match=told):
        unpack_looks(values)
