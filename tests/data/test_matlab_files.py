import struct

import h5py
import numpy as np
import pytest
import torch
from scipy.io import loadmat, savemat

import operformer
from operformer.data.array_files import open_mat


@pytest.mark.parametrize("packed", [False, True])
def test_axes_are_as_matlab_shows_them(packed, numbered, tmp_path):
    u, z = numbered("b x y"), numbered("b x y c").astype(np.float32)
    savemat(tmp_path / "a.mat", {"coeff": u, "sol": z, "x": np.arange(7), "y": np.arange(11)}, do_compression=packed)
    samples = operformer.read(tmp_path / "a.mat")
    np.testing.assert_array_equal(samples.u[:, 0], u)
    np.testing.assert_array_equal(samples.z, np.moveaxis(z, -1, 1))
    assert samples.grid.bounds == ((0.0, 6.0), (0.0, 10.0))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"])
def test_every_type_as_scipy_reads_it(dtype, packed, tmp_path):
    values = (np.arange(-30, 30) % 100).reshape(4, 3, 5).astype(dtype)
    one = np.array([[3]], dtype=dtype)  # so small that its value stands in its tag
    savemat(tmp_path / "a.mat", {"a_rather_long_name": values, "s": one}, do_compression=packed)
    expected = loadmat(tmp_path / "a.mat")
    with open_mat(tmp_path / "a.mat") as contents:
        for name in ("a_rather_long_name", "s"):
            array = contents.arrays[name]
            read = array[(slice(None),) * len(array.shape)]
            np.testing.assert_array_equal(read, expected[name])
            assert read.dtype == np.dtype(dtype)


def element(order, kind, data):
    return struct.pack(f"{order}II", kind, len(data)) + data + b"\0" * (-len(data) % 8)


@pytest.mark.parametrize("order", ["<", ">"])
def test_small_integers_that_matlab_calls_double(order, tmp_path):
    """As MATLAB itself writes them: class double, stored in one byte each, in the byte order of the machine."""
    content = b"MATLAB 5.0 MAT-file, Platform: TEST".ljust(124) + struct.pack(f"{order}H", 0x0100)
    content += b"IM" if order == "<" else b"MI"
    for name in (b"u", b"z"):
        parts = element(order, 6, struct.pack(f"{order}II", 6, 0))
        parts += element(order, 5, struct.pack(f"{order}ii", 5, 7))
        parts += struct.pack(f"{order}I", (1 << 16) | 1) + name.ljust(4, b"\0")  # a small element: its bytes in its tag
        parts += element(order, 2, bytes(range(35)))
        content += element(order, 14, parts)
    (tmp_path / "a.mat").write_bytes(content)
    samples = operformer.read(tmp_path / "a.mat", grid="nodes")
    assert samples.u.dtype == torch.float64
    np.testing.assert_array_equal(samples.u[:, 0], np.arange(35).reshape(7, 5).T)
    np.testing.assert_array_equal(samples.u[:, 0], loadmat(tmp_path / "a.mat")["u"])


def test_version_73_is_hdf5_with_its_axes_reversed(numbered, tmp_path):
    u, z = numbered("b x y"), numbered("b x y t")
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        for name, values in (("a", u), ("u", z)):
            file[name] = values.T
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
        file["t"] = np.arange(3.0)[:, None]
        file["t"].attrs["MATLAB_class"] = np.bytes_("double")
        file["note"] = np.frombuffer(b"h\0i\0", np.uint16)[:, None]
        file["note"].attrs["MATLAB_class"] = np.bytes_("char")
    with (tmp_path / "a.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: TEST".ljust(124) + b"\x00\x02IM")
    samples = operformer.read(tmp_path / "a.mat", layout=("b x y", "b x y t"), grid="periodic")
    np.testing.assert_array_equal(samples.u[:, 0], u)
    np.testing.assert_array_equal(samples.z[:, 0], z[..., -1])
    assert samples.grid.kind == "periodic"
