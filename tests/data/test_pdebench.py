"""Files with the names, shapes and types that PDEBench's own scripts write."""

import h5py
import numpy as np
import pytest

import operformer
from operformer import Grid
from operformer.errors import DataError, UsageError


def cells(n, lower=0.0, upper=1.0):
    return (lower + (upper - lower) * (np.arange(n) + 0.5) / n).astype(np.float32)


@pytest.fixture
def burgers(numbered, tmp_path):
    """1D_Burgers_Sols_Nu0.01.hdf5: a step more in t-coordinate than in tensor, as published."""
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["tensor"] = numbered("b t x").astype(np.float32)
        file["x-coordinate"], file["t-coordinate"] = cells(7), np.linspace(0, 2, 4).astype(np.float32)
        file.attrs["Nu"] = 0.01
    return tmp_path / "a.hdf5"


def test_steps_and_leads(burgers, numbered):
    stored = numbered("b t x").astype(np.float32)
    for steps, (before, after) in ((None, (0, 2)), ((1, 2), (1, 2)), ((-3, -2), (0, 1))):
        samples = operformer.read(burgers, steps=steps)
        np.testing.assert_array_equal(samples.u[:, 0], stored[:, before])
        np.testing.assert_array_equal(samples.z[:, 0], stored[:, after])
        assert repr(samples.grid) == repr(Grid.uniform(7, kind="cells"))
    samples = operformer.read(burgers, lead=1)
    np.testing.assert_array_equal(samples.u[:, 0], stored[:, :-1].reshape(10, 7))
    np.testing.assert_array_equal(samples.z[:, 0], stored[:, 1:].reshape(10, 7))
    for first in range(10):
        for count in range(1, 11 - first):
            part = operformer.read(burgers, lead=1, first=first, count=count)
            assert part.u.equal(samples.u[first : first + count])
            assert part.z.equal(samples.z[first : first + count])


def test_options_that_do_not_fit(burgers):
    for options, complaint in (
        ({"steps": (0, 3)}, "each from -3 to 2"),
        ({"steps": (0,)}, "steps must be 2 values"),
        ({"steps": (0, 1.0)}, "steps must be a whole number"),
        ({"lead": 3}, "lead must be from 1 to 2"),
        ({"lead": 0}, "lead must be from 1 to 2"),
        ({"lead": "1"}, "lead must be a whole number"),
        ({"lead": 1, "steps": (0, 1)}, "exclude each other"),
        ({"bounds": [(0, 1, 2)]}, "bounds must be"),
        ({"first": 5}, "ask for pairs 5 to 5: .* holds 5"),
        ({"count": 6}, "ask for pairs 0 to 5: .* holds 5"),
        ({"first": -1}, "first must not be negative"),
        ({"layout": "b x"}, "names 2 axes"),
        ({"layout": ("b t x", "b t n")}, "must have the same axes of space"),
        ({"u": 3}, "u must be a text"),
    ):
        with pytest.raises(UsageError, match=complaint):
            operformer.read(burgers, **options)


def test_darcy(numbered, tmp_path):
    nu, solution = numbered("b x y").astype(np.float32), numbered("b x y").astype(np.float32) + 0.5
    with h5py.File(tmp_path / "2D_DarcyFlow_beta1.0_Train.hdf5", "w") as file:
        file["tensor"], file["nu"] = solution[:, None], nu
        file["x-coordinate"], file["y-coordinate"] = cells(7), cells(11)
        file.attrs["beta"] = 1.0
    samples = operformer.read(tmp_path / "2D_DarcyFlow_beta1.0_Train.hdf5")
    np.testing.assert_array_equal(samples.u[:, 0], nu)
    np.testing.assert_array_equal(samples.z[:, 0], solution)
    assert repr(samples.grid) == repr(Grid.uniform((7, 11), kind="cells"))
    with pytest.raises(UsageError, match="need arrays with time"):
        operformer.read(tmp_path / "2D_DarcyFlow_beta1.0_Train.hdf5", lead=1)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_compressible_flow(dim, numbered, tmp_path):
    space = "x y z"[: 2 * dim - 1]
    names = ["density", "pressure", "Vx", "Vy", "Vz"][: 2 + dim]
    stored = {name: numbered(f"b t {space}").astype(np.float32) + k / 8 for k, name in enumerate(names)}
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for name, values in stored.items():
            file[name] = values
        for letter, n in zip(space.split(), (7, 11, 13), strict=False):
            file[f"{letter}-coordinate"] = cells(n, -1, 1)
        file["t-coordinate"] = np.linspace(0, 1, 4)
    samples = operformer.read(tmp_path / "a.hdf5")
    assert samples.channels == (2 + dim, 2 + dim)
    for k, name in enumerate(names):
        np.testing.assert_array_equal(samples.u[:, k], stored[name][:, 0])
        np.testing.assert_array_equal(samples.z[:, k], stored[name][:, -1])
    assert repr(samples.grid) == repr(Grid.uniform((7, 11, 13)[:dim], [(-1, 1)] * dim, "cells"))
    some = operformer.read(tmp_path / "a.hdf5", u=["Vx", "density"], z="pressure", steps=(0, 1))
    np.testing.assert_array_equal(some.u, np.stack([stored["Vx"][:, 0], stored["density"][:, 0]], 1))
    np.testing.assert_array_equal(some.z[:, 0], stored["pressure"][:, 1])


@pytest.mark.parametrize("space", ["x", "x y"])
def test_a_group_for_each_sample(space, numbered, tmp_path):
    """2D_diff-react_NA_NA.h5 and 1D_diff-sorp_NA_NA.h5: lzf, float32, channels last."""
    stored = numbered(f"b t {space} c").astype(np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for k in range(5):
            options = {"dtype": "float32", "compression": "lzf"}
            file.create_dataset(f"{k:04}/data", data=stored[k], **options)
            for letter, n in zip(space.split(), (7, 11), strict=False):
                file.create_dataset(f"{k:04}/grid/{letter}", data=cells(n, -1, 1), **options)
            file.create_dataset(f"{k:04}/grid/t", data=np.linspace(0, 5, 3), **options)
            file[f"{k:04}"].attrs["config"] = "sim:\n  seed: 0\n"
    samples = operformer.read(tmp_path / "a.h5")
    np.testing.assert_array_equal(samples.u, np.moveaxis(stored[:, 0], -1, 1))
    np.testing.assert_array_equal(samples.z, np.moveaxis(stored[:, -1], -1, 1))
    assert repr(samples.grid) == repr(Grid.uniform((7, 11)[: samples.grid.dim], [(-1, 1)] * samples.grid.dim, "cells"))
    part = operformer.read(tmp_path / "a.h5", first=2, count=2)
    assert part.z.equal(samples.z[2:4])


def test_a_late_group_that_differs_is_found_when_it_is_read(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for k in range(3):
            file[f"{k:04}/data"], file[f"{k:04}/grid/x"] = np.ones((2, 7, 1), np.float32), np.arange(7) + 0.5 + (k == 2)
    assert len(operformer.read(tmp_path / "a.h5", count=2)) == 2
    with pytest.raises(DataError, match="0002 and 0000 are known on different grids"):
        operformer.read(tmp_path / "a.h5")


def test_incompressible_flow(numbered, tmp_path):
    """ns_incom_inhom_2d_512-0.h5: the force does not change and is an input."""
    force, velocity = numbered("b x y c"), numbered("b t x y c") + 0.5
    particles = numbered("b t x y c", c=1) + 0.25
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["force"], file["velocity"], file["particles"] = force, velocity, particles
        file["t"] = np.tile(np.linspace(0, 1, 3), (5, 1))
    samples = operformer.read(tmp_path / "a.h5")
    whole = np.concatenate([particles[:, 0], velocity[:, 0], force], axis=-1)
    np.testing.assert_array_equal(samples.u, np.moveaxis(whole, -1, 1))
    np.testing.assert_array_equal(
        samples.z, np.moveaxis(np.concatenate([particles[:, -1], velocity[:, -1]], axis=-1), -1, 1)
    )
    assert samples.grid.kind == "cells"
    assert operformer.read(tmp_path / "a.h5", lead=1).channels == (5, 3)
