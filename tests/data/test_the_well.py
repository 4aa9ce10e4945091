"""Files after The Well's specification; equality with its own reader was checked when this was written."""

from math import pi

import h5py
import numpy as np
import pytest

import operformer
from operformer import Grid
from operformer.errors import DataError

FIELDS = {  # order, layout, varies along (x, y)
    "pressure": (0, "b t x y", (True, True)),
    "speed": (0, "x y", (True, True)),
    "depth": (0, "b x", (True, False)),
    "velocity": (1, "b t x y c", (True, True)),
    "stress": (2, "b t x y c d", (True, True)),
}


@pytest.fixture
def write(numbered, tmp_path):
    def make(name="a.hdf5", periodic=("x", "y"), keeps_axes=False, shift=0.0):
        stored = {}
        with h5py.File(tmp_path / name, "w") as file:
            file.attrs.update(dataset_name="test", grid_type="cartesian", n_spatial_dims=2, n_trajectories=5)
            file.attrs["simulation_parameters"] = ["a"]
            dimensions = file.create_group("dimensions")
            dimensions.attrs["spatial_dims"] = ["x", "y"]
            for dim, values in (("time", np.arange(3)), ("x", np.arange(7) / 7), ("y", np.arange(11) / 11 * 2 * pi)):
                dimensions[dim] = values.astype(np.float32)
                dimensions[dim].attrs.update(sample_varying=False, time_varying=False)
            conditions = file.create_group("boundary_conditions")
            for dim in "xy":
                kind = "PERIODIC" if dim in periodic else "WALL"
                group = conditions.create_group(f"{dim}_{kind.lower()}")
                group.attrs.update(bc_type=kind, sample_varying=False, time_varying=False)
                group.attrs["associated_dims"] = [dim] if dim == "x" else dim
                group["mask"] = np.zeros(7 if dim == "x" else 11, bool)
            for order in range(3):
                group = file.create_group(f"t{order}_fields")
                group.attrs["field_names"] = [field for field, (k, _, _) in FIELDS.items() if k == order]
            for k, (field, (order, layout, varying)) in enumerate(FIELDS.items()):
                values = numbered(layout.replace(" d", "")) + k / 8 + shift
                if "d" in layout:
                    values = np.stack([values, values + 1 / 16], axis=-1)
                stored[field] = values.astype(np.float32)
                kept = stored[field][..., None] if keeps_axes and field == "depth" else stored[field]
                file[f"t{order}_fields/{field}"] = kept
                flags = {"sample_varying": "b" in layout, "time_varying": "t" in layout, "dim_varying": varying}
                file[f"t{order}_fields/{field}"].attrs.update(flags)
            file.create_group("scalars").attrs["field_names"] = []
        return tmp_path / name, stored

    return make


def channels(stored, step):
    matrix = stored["stress"][:, step].reshape(5, 7, 11, 4)
    parts = [stored["pressure"][:, step, ..., None], stored["velocity"][:, step], matrix]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)


@pytest.mark.parametrize("keeps_axes", [False, True])
def test_all_fields(keeps_axes, write):
    path, stored = write(keeps_axes=keeps_axes)
    samples = operformer.read(path)
    assert samples.channels == (9, 7)
    np.testing.assert_array_equal(samples.u[:, :7], channels(stored, 0))
    np.testing.assert_array_equal(samples.z, channels(stored, 2))
    np.testing.assert_array_equal(samples.u[:, 7], np.broadcast_to(stored["speed"], (5, 7, 11)))
    np.testing.assert_array_equal(samples.u[:, 8], np.broadcast_to(stored["depth"][..., None], (5, 7, 11)))
    assert repr(samples.grid) == repr(Grid.uniform((7, 11), [(0, 1), (0, 2 * pi)], "periodic"))


def test_chosen_fields_and_every_step(write):
    path, stored = write()
    depth = operformer.read(path, u="depth", z="depth").u[:, 0]  # along one axis: spread over the other
    np.testing.assert_array_equal(depth, np.broadcast_to(stored["depth"][..., None], (5, 7, 11)))
    samples = operformer.read(path, u=["velocity", "speed"], z="pressure", lead=2)
    np.testing.assert_array_equal(samples.u[:, :2], np.moveaxis(stored["velocity"][:, 0], -1, 1))
    np.testing.assert_array_equal(samples.z[:, 0], stored["pressure"][:, 2])
    samples = operformer.read(path, u="pressure", z="pressure", lead=1)
    np.testing.assert_array_equal(samples.u[:, 0], stored["pressure"][:, :-1].reshape(10, 7, 11))
    np.testing.assert_array_equal(samples.z[:, 0], stored["pressure"][:, 1:].reshape(10, 7, 11))


def test_walls_across_one_axis(write):
    path, _ = write(periodic=("x",))
    grid = operformer.read(path).grid
    assert grid.kind == "rectilinear"
    np.testing.assert_allclose(grid.axis_weights[0], np.full(7, 1 / 7), rtol=1e-6)
    path, _ = write(periodic=())
    grid = operformer.read(path).grid
    assert grid.kind == "nodes"  # not periodic, whatever [0, 1) without its end looks like
    np.testing.assert_allclose(grid.bounds[0], (0, 6 / 7), rtol=1e-6)


def one_state(path, with_input):
    with h5py.File(path, "w") as file:
        file.create_group("dimensions").attrs["spatial_dims"] = ["x"]
        file["dimensions/x"] = np.linspace(0, 1, 7)
        for order in range(3):
            file.create_group(f"t{order}_fields").attrs["field_names"] = []
        names = ["after", "before"] if with_input else ["after"]
        file["t0_fields"].attrs["field_names"] = names
        for name, shape in (("after", (5, 1, 7)), ("before", (5, 7))):
            if name in names:
                file[f"t0_fields/{name}"] = np.arange(35.0).reshape(shape) + len(name)
                flags = {"sample_varying": True, "time_varying": name == "after", "dim_varying": [True]}
                file[f"t0_fields/{name}"].attrs.update(flags)


def test_one_state_depends_on_what_does_not_change(tmp_path):
    one_state(tmp_path / "a.hdf5", True)
    samples = operformer.read(tmp_path / "a.hdf5")
    np.testing.assert_array_equal(samples.u, np.arange(35.0).reshape(5, 1, 7) + len("before"))
    np.testing.assert_array_equal(samples.z, np.arange(35.0).reshape(5, 1, 7) + len("after"))
    one_state(tmp_path / "a.hdf5", False)
    with pytest.raises(DataError, match="no field at two times"):
        operformer.read(tmp_path / "a.hdf5")


def test_a_folder(write, tmp_path):
    _, one = write("a.hdf5")
    _, two = write("b.hdf5", shift=1 / 32)
    samples = operformer.read(tmp_path)
    np.testing.assert_array_equal(samples.z, np.concatenate([channels(one, 2), channels(two, 2)]))
