"""One file of pairs: what h5py and the reader of foreign files find in it, and the same bytes for the same pairs."""

import h5py
import numpy as np
import pytest
import torch
from sets import GRIDS, pairs

import operformer
from operformer.data.manifest import Fields
from operformer.data.shard import Shard, encode
from operformer.domain import Samples
from operformer.errors import DataError
from operformer.problems.kolmogorov import Kolmogorov

FIELDS = Fields(("a", "b"), ("p", "q", "r"), constants={"tau": 3.0, "n_modes": 8.0})


def written(folder, samples, fields=FIELDS):
    path = folder / "shard.hdf5"
    path.write_bytes(encode(samples, fields, "test"))
    return path


def opened(path, samples, fields=FIELDS):
    dtype = str(samples.u.dtype).removeprefix("torch.")
    return Shard(path, fields, len(samples), (samples.grid.shape,) * 2, dtype)


def test_a_part_is_read_to_the_last_bit(tmp_path):
    samples = pairs(GRIDS["nodes 1d"])
    samples.u[0, 0, :4] = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0])
    shard = opened(written(tmp_path, samples), samples)
    for first, last in ((0, 13), (0, 1), (12, 13), (3, 8)):
        u, z = shard.read(first, last)
        assert u.numpy().tobytes() == samples.u[first:last].numpy().tobytes()
        assert torch.equal(z, samples.z[first:last])
    shard.close()


@pytest.mark.parametrize("kind", GRIDS)
def test_the_same_pairs_give_the_same_bytes(kind):
    assert encode(pairs(GRIDS[kind]), FIELDS, "test") == encode(pairs(GRIDS[kind]), FIELDS, "test")
    # Whatever was in memory before, and however the values lie there.
    junk = [np.full(50_000, value, dtype=np.uint8) for value in range(20)]
    del junk
    samples = pairs(GRIDS[kind])
    strided = Samples(samples.u.repeat_interleave(2, 0)[::2], samples.z.clone(), samples.grid, checks=samples.checks)
    assert encode(strided, FIELDS, "test") == encode(samples, FIELDS, "test")


def test_the_layout_is_that_of_the_well(tmp_path):
    samples = pairs(GRIDS["cells 2d"])
    fields = Fields(FIELDS.inputs, FIELDS.outputs, None, "wall", FIELDS.constants)
    with h5py.File(written(tmp_path, samples, fields)) as file:
        assert set(file) == {"boundary_conditions", "dimensions", "scalars", "t0_fields", "t1_fields", "t2_fields"}
        assert dict(file.attrs) | {"simulation_parameters": None} == {
            "dataset_name": "test", "grid_type": "cartesian", "n_spatial_dims": 2, "n_trajectories": 13,
            "simulation_parameters": None, "tau": 3.0, "n_modes": 8.0,
        }  # fmt: skip
        assert list(file.attrs["simulation_parameters"]) == ["tau", "n_modes"]
        assert list(file["dimensions"].attrs["spatial_dims"]) == ["x", "y"]
        assert list(file["dimensions/time"]) == [0.0]
        assert list(file["t0_fields"].attrs["field_names"]) == ["a", "b", "p", "q", "r"]
        for k, name in enumerate("ab"):
            field = file["t0_fields"][name]
            assert (field.shape, field.chunks) == ((13, 5, 7), (1, 5, 7))
            assert (bool(field.attrs["sample_varying"]), bool(field.attrs["time_varying"])) == (True, False)
            assert np.array_equal(field, samples.u[:, k])
        for k, name in enumerate("pqr"):
            field = file["t0_fields"][name]
            assert (field.shape, field.chunks) == ((13, 1, 5, 7), (1, 1, 5, 7))
            assert (bool(field.attrs["sample_varying"]), bool(field.attrs["time_varying"])) == (True, True)
            assert list(field.attrs["dim_varying"]) == [True, True]
            assert np.array_equal(field[:, 0], samples.z[:, k])
        assert set(file["boundary_conditions"]) == {"x_wall", "y_wall"}
        condition = file["boundary_conditions/y_wall"]
        assert (condition.attrs["bc_type"], list(condition.attrs["associated_dims"])) == ("WALL", ["y"])
        assert list(condition["mask"]) == [True, *[False] * 5, True]
        assert list(file["scalars"].attrs["field_names"]) == ["tau", "n_modes", "residual"]
        assert np.array_equal(file["scalars/residual"], samples.checks["residual"])


@pytest.mark.parametrize("kind", GRIDS)
def test_the_reader_of_foreign_files_finds_every_value_in_its_place(tmp_path, kind):
    samples = pairs(GRIDS[kind])
    boundary = "periodic" if samples.grid.kind == "periodic" else "open"
    path = written(tmp_path, samples, Fields(FIELDS.inputs, FIELDS.outputs, None, boundary))
    if samples.grid.kind == "scattered":
        with pytest.raises(DataError, match="open their folder"):
            operformer.read(path)
        return
    read = operformer.read(path, ["b", "a"], ["r", "p"])
    assert torch.equal(read.u, samples.u[:, [1, 0]])
    assert torch.equal(read.z, samples.z[:, [2, 0]])
    assert read.grid.shape == samples.grid.shape
    assert torch.allclose(read.grid.points, samples.grid.points, rtol=0, atol=1e-12)
    assert (read.grid.kind == "periodic") == (samples.grid.kind == "periodic")
    assert torch.equal(operformer.read(path).z, samples.z)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match=r"open it with operformer\.data\.store\.open_pairs"):
        operformer.read(tmp_path)


def test_a_trajectory_is_one_field_at_its_times(tmp_path):
    law = Kolmogorov(n_modes=8, start=0.1, lead=0.05, step=0.05, moments=3, viscosity=0.5, alpha=6.0, forcing=2)
    samples = law.sample(3, 5, seed=1)
    fields = Fields(law.input_names, law.output_names, law.times, law.boundary)
    path = written(tmp_path, samples, fields)
    with h5py.File(path) as file:
        assert list(file["t0_fields"]) == ["vorticity"]
        assert file["t0_fields/vorticity"].chunks == (1, 4, 5, 5)
        assert list(file["dimensions/time"]) == pytest.approx([0.1, 0.15, 0.2, 0.25])
    u, z = opened(path, samples, fields).read(1, 3)
    assert torch.equal(u, samples.u[1:3])
    assert torch.equal(z, samples.z[1:3])
    for step in (1, 2, 3):
        read = operformer.read(path, steps=(0, step))
        assert torch.equal(read.u, samples.u)
        assert torch.equal(read.z, samples.z[:, step - 1 : step])
    assert torch.allclose(read.grid.points, samples.grid.points, rtol=0, atol=1e-12)
    along = operformer.read(path, lead=1)
    assert torch.equal(along.u.reshape(3, 3, 5, 5), torch.cat([samples.u, samples.z[:, :2]], 1))


# Files that are not what the manifest says, though their checksum may be right.


def test_other_fields_shapes_and_types_are_refused(tmp_path):
    samples = pairs(GRIDS["cells 2d"])
    path = written(tmp_path, samples)
    for fields, count, shape, dtype in (
        (Fields(("c", "b"), ("p",)), 13, (5, 7), "float32"),
        (Fields(("../a",), ("p",)), 13, (5, 7), "float32"),
        (Fields(("",), ("p",)), 13, (5, 7), "float32"),
        (FIELDS, 11, (5, 7), "float32"),
        (FIELDS, 13, (7, 5), "float32"),
        (FIELDS, 13, (5, 7), "float64"),
        (Fields(("a_0",), ("a_1",), (0.0, 1.0)), 13, (5, 7), "float32"),
    ):
        with pytest.raises(DataError, match=r"shard\.hdf5"):
            Shard(path, fields, count, (shape, shape), dtype)


def test_links_out_of_the_file_are_not_followed(tmp_path):
    samples = pairs(GRIDS["cells 2d"])
    path = written(tmp_path, samples)
    other = tmp_path / "other.hdf5"
    other.write_bytes(path.read_bytes())
    for link in (h5py.ExternalLink("other.hdf5", "/t0_fields/a"), h5py.SoftLink("/t0_fields/b")):
        path.write_bytes(other.read_bytes())
        with h5py.File(path, "r+") as file:
            del file["t0_fields/a"]
            file["t0_fields/a"] = link
        with pytest.raises(DataError, match="link"):
            opened(path, samples)


def test_what_is_no_hdf5_is_refused(tmp_path):
    for rubbish in (b"", b"\x89HDF\r\n\x1a\n", b"\x00" * 5000, b"\x89HDF\r\n\x1a\n" + b"\xff" * 5000):
        (tmp_path / "shard.hdf5").write_bytes(rubbish)
        with pytest.raises(DataError, match=r"shard\.hdf5"):
            opened(tmp_path / "shard.hdf5", pairs(GRIDS["cells 2d"]))
