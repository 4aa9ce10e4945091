import numpy as np
import pytest
import torch

import operformer
from operformer.errors import DataError


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("names", [("u", "z"), ("x", "y"), ("input", "output"), ("a", "u"), ("coeff", "sol")])
def test_a_pair_with_names_that_say_so(names, save, numbered, tmp_path):
    u, z = numbered("b c x y"), numbered("b x y")
    save(tmp_path / "a.npz", **dict(zip(names, (u, z), strict=True)), extra=np.arange(3), note=np.array("text"))
    samples = operformer.read(tmp_path / "a.npz", grid="nodes")
    np.testing.assert_array_equal(samples.u, u)
    np.testing.assert_array_equal(samples.z, z[:, None])
    assert samples.u.dtype == samples.z.dtype == torch.float64
    assert samples.u.is_contiguous()


def test_several_arrays_become_channels_in_their_order(numbered, tmp_path):
    one, two, three = numbered("b x"), numbered("b c x") + 0.25, numbered("b x") + 0.5
    np.savez(tmp_path / "a.npz", one=one, two=two, three=three)
    samples = operformer.read(tmp_path / "a.npz", ["three", "two"], ("one",), grid="nodes")
    np.testing.assert_array_equal(samples.u, np.concatenate([three[:, None], two], axis=1))
    np.testing.assert_array_equal(samples.z, one[:, None])


def test_two_files(numbered, tmp_path):
    u, z = numbered("b x y").astype(">f4"), np.asfortranarray(numbered("b x y c"))
    np.save(tmp_path / "in.npy", u)
    np.save(tmp_path / "out.npy", z)
    samples = operformer.read(tmp_path / "in.npy", z=str(tmp_path / "out.npy"), grid="nodes")
    np.testing.assert_array_equal(samples.u, u[:, None].astype(np.float64))
    np.testing.assert_array_equal(samples.z, np.moveaxis(z, -1, 1))


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i8", "f2", "f4"])
def test_what_is_no_double_is_single(dtype, tmp_path):
    values = np.arange(35).reshape(5, 7).astype(dtype)
    np.savez(tmp_path / "a.npz", u=values, z=np.ones((5, 7), np.float32))
    samples = operformer.read(tmp_path / "a.npz", grid="nodes")
    assert samples.u.dtype == samples.z.dtype == torch.float32
    np.testing.assert_array_equal(samples.u[:, 0], values.astype(np.float32))


def test_u_and_z_get_the_wider_precision_and_what_is_not_finite_is_kept(tmp_path):
    z = np.full((5, 7), 0.1)
    z[3, 2], z[4, 1] = np.nan, np.inf
    np.savez(tmp_path / "data", u=np.ones((5, 7), bool), z=z)
    (tmp_path / "data.npz").rename(tmp_path / "data.bin")  # the name of a file does not matter
    samples = operformer.read(str(tmp_path / "data.bin"), grid="nodes")
    assert samples.u.dtype == samples.z.dtype == torch.float64
    np.testing.assert_array_equal(samples.z[:, 0], z)


def test_an_unknown_name_lists_the_known(tmp_path):
    np.savez(tmp_path / "a.npz", first=np.ones((5, 7)), second=np.ones((5, 7)))
    with pytest.raises(DataError, match=r"no array 'furst'; it holds 'first' \(5, 7\), 'second' \(5, 7\)"):
        operformer.read(tmp_path / "a.npz", "furst", "second")
