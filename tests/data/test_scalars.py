"""Numbers of each sample in files: parameters as channels of u, functionals as outputs."""

import numpy as np
import pytest
import torch

from operformer import SpectralOperator, read, read_inputs
from operformer.data.importing import import_pairs
from operformer.errors import DataError, UsageError
from operformer.training.recommend import recommend

DRAWS = np.random.default_rng(0)
X = np.linspace(0, 1, 9)
U, NU, DRAG = DRAWS.random((12, 9)), DRAWS.random(12), DRAWS.random((12, 2))


@pytest.fixture
def path(tmp_path):
    np.savez(tmp_path / "flow.npz", u=U, z=2 * U, x=X, nu=NU, row=NU[None], drag=DRAG, many=np.ones((12, 3, 2)))
    return tmp_path / "flow.npz"


def test_parameters_are_constant_channels(path, tmp_path):
    found = read(path, parameters=["nu", "drag", "row"])
    assert found.channels == (5, 1)
    expected = np.concatenate([U[:, None], *(np.repeat(v.reshape(12, -1, 1), 9, 2) for v in (NU, DRAG, NU))], 1)
    np.testing.assert_array_equal(found.u, expected)
    stored = import_pairs(path, tmp_path / "set", parameters=["nu"])
    assert stored.manifest.header.fields.inputs == ("u", "nu")
    operator = SpectralOperator((2,), 2, 1, 8, n_layers=1)
    values, _ = read_inputs(path, operator, "u", parameters=["nu"], grid="nodes")
    np.testing.assert_array_equal(values, expected[:, :2])


def test_functionals_live_on_the_corners(path, tmp_path):
    found = read(path, "u", functionals=["drag"])
    assert (found.channels, found.grid.shape, found.query.shape) == ((1, 2), (9,), (2,))
    np.testing.assert_array_equal(found.z, np.repeat(DRAG[:, :, None], 2, 2))
    both = read(path, functionals=["nu"], z="z")
    assert both.query is None
    np.testing.assert_array_equal(both.z[:, 1], np.repeat(NU[:, None], 9, 1))
    stored = import_pairs(path, tmp_path / "set", "u", functionals=["drag"])
    assert stored.manifest.header.fields.outputs == ("drag_0", "drag_1")
    chosen = recommend(stored, minutes=0.01, training={"epochs": 1})
    assert chosen.operator["wrappers"] == ["Functional"]
    assert "a number for each sample" in chosen.reasons[1]
    z = chosen.make_operator()(found.u.float(), found.grid, found.query)
    assert torch.equal(z[..., 0], z[..., 1])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"parameters": ["many"]}, DataError, r"'many' has shape \(12, 3, 2\), where one number for each of 12"),
        ({"parameters": ["x"]}, DataError, r"'x' has shape \(9,\), where one number for each of 12 samples"),
        ({"parameters": ["nothing"]}, DataError, "has no array 'nothing'"),
        ({"functionals": ["nu"], "query": "nodes"}, UsageError, "functionals are numbers and have no points"),
    ],
)
def test_what_is_no_number_is_refused(path, options, error, message):
    with pytest.raises(error, match=message):
        read(path, **options)
