"""Files that are easy to read wrongly. Each is read rightly, or it is asked about in one line; none is guessed at.

Every file holds functions of known formulas at known points. Read rightly means: the values are those of the
formulas at the points of the grid that came out, and the box of that grid is the true one.
"""

from math import pi

import h5py
import numpy as np
import pytest
from scipy.io import netcdf_file, savemat

import operformer
from operformer.errors import DataError, UsageError

COUNT = 12
TRAPS = {}


def periodic(*x, length=1.0):
    """Twelve functions of period ``length``, without symmetries."""
    shift = np.arange(COUNT).reshape(-1, *[1] * x[0].ndim)
    return sum(
        np.sin(2 * pi * one / length + shift**2 * (k + 1)) + 0.3 * np.sin(4 * pi * one / length + shift)
        for k, one in enumerate(x)
    )


def dirichlet(*x):
    """Twelve functions that are zero at the ends of [0, 1]."""
    shift = np.arange(COUNT).reshape(-1, *[1] * x[0].ndim)
    product = 1.0
    for one in x:
        product = product * np.sin(pi * one)
    return product * (1.5 + np.sin(shift**2 + 2 * x[0]))


def general(*x):
    """Twelve functions with nothing to be said of their ends."""
    shift = np.arange(COUNT).reshape(-1, *[1] * x[0].ndim)
    return sum(np.exp((k + 1) / 12 * one * np.cos(shift)) * np.sin(shift**2 + 1) for k, one in enumerate(x))


def rough(*x):
    """Noise, of which nothing can be told."""
    return np.random.default_rng(0).normal(size=(COUNT, *x[0].shape))


def axis(kind, n, lower=0.0, upper=1.0):
    """The points of a kind in an interval."""
    h = (upper - lower) / (n - 1 if kind == "nodes" else n)
    return lower + h * (np.arange(n) + (0.5 if kind == "cells" else 0))


def trap(name, write, expect, law=general, box=None, **options):
    """A file, what to expect of it ("right" or "asked") and the truth: values at points, and bounds."""
    assert name not in TRAPS
    TRAPS[name] = (write, expect, law, box, options)


def npz(**arrays):
    return lambda folder: np.savez(folder / "a.npz", **arrays) or folder / "a.npz"


def mat(**arrays):
    return lambda folder: savemat(folder / "a.mat", arrays) or folder / "a.mat"


def netcdf3(dims, coordinates, **arrays):
    def write(folder):
        with netcdf_file(folder / "a.nc", "w") as file:
            shape = next(iter(arrays.values())).shape
            for dim, n in zip(dims, shape, strict=True):
                file.createDimension(dim, n)
            for dim, values in coordinates.items():
                file.createVariable(dim, "f8", (dim,))[:] = values
            for name, values in arrays.items():
                file.createVariable(name, "f8", dims)[:] = values
        return folder / "a.nc"

    return write


def netcdf4(dims, coordinates, attributes=None, **arrays):
    def write(folder):
        with h5py.File(folder / "a.nc", "w") as file:
            file.attrs["_NCProperties"] = "version=2"
            for dim, values in coordinates.items():
                file[dim] = values
                file[dim].make_scale(dim)
            for name, values in arrays.items():
                file[name] = values
                file[name].attrs.update(attributes or {})
                for k, dim in enumerate(dims):
                    if dim not in file:
                        file[dim] = np.arange(values.shape[k])
                        file[dim].make_scale(dim)
                    file[name].dims[k].attach_scale(file[dim])
        return folder / "a.nc"

    return write


def fields(law, *axes):
    x = np.meshgrid(*axes, indexing="ij")
    return {"u": law(*x), "z": 2 * law(*x)}


# A line without coordinates: kinds, laws, and the option that settles it.
for kind in ("nodes", "cells", "periodic", "left"):
    for law in (periodic, dirichlet, general, rough):
        x = axis(kind, 48)
        settled = {("nodes", periodic), ("nodes", dirichlet), ("left", dirichlet), ("periodic", dirichlet)}
        expect = "right" if (kind, law) in settled else "asked"
        trap(f"line {kind} {law.__name__}", npz(**fields(law, x)), expect, box=[(0, 1)], law=law)
        trap(f"line {kind} {law.__name__} told", npz(**fields(law, x)), "right", box=[(0, 1)], law=law, grid=kind)
    # The same with coordinates, in intervals that are round, long, or of pi.
    for law, (lower, upper) in ((periodic, (0, 1)), (general, (0, 1)), (general, (-1, 1)), (general, (0, 10))):
        x = axis(kind, 48, lower, upper)
        trap(
            f"line {kind} {law.__name__} on {lower} {upper} with x",
            npz(**fields(law, x), x=x),
            "right",
            box=[(lower, upper)],
            law=law,
        )
    for law in (dirichlet, general):
        x = axis(kind, 32)
        expect = "right" if kind != "cells" and law is dirichlet else "asked"
        trap(f"square {kind} {law.__name__}", npz(**fields(law, x, x)), expect, box=[(0, 1)] * 2, law=law)
    x, y = axis(kind, 24, 0, 2), axis(kind, 32, 0, 1)
    X, Y = np.meshgrid(x, y, indexing="ij")
    law, box = (periodic if kind == "periodic" else general), [(0, 2), (0, 1)]
    whole = fields(law, x, y)
    turned = {name: np.swapaxes(values, 1, 2) for name, values in whole.items()}
    last = {name: np.moveaxis(values, 0, -1) for name, values in whole.items()}
    trap(f"plane {kind}", npz(**whole, x=x, y=y), "right", box=box, law=law)
    trap(f"plane {kind} transposed", npz(**turned, x=x, y=y), "right", box=box, law=law)
    trap(f"plane {kind} ndgrid", npz(**whole, X=X, Y=Y), "right", box=box, law=law)
    trap(f"plane {kind} meshgrid", npz(**turned, X=X.T, Y=Y.T), "right", box=box, law=law)
    trap(f"plane {kind} samples last", npz(**last, x=x, y=y), "right", box=box, law=law)
    trap(f"plane {kind} matlab", mat(**last, x=x, y=y), "right", box=box, law=law)
    trap(
        f"plane {kind} downwards",
        npz(u=whole["u"][:, :, ::-1], z=whole["z"][:, :, ::-1], x=x, y=y[::-1]),
        "right",
        box=None if kind == "periodic" else box,
        law=law,
    )
    trap(
        f"plane {kind} channels last",
        npz(u=whole["u"][..., None], z=whole["z"][..., None], x=x, y=y),
        "right",
        box=box,
        law=law,
    )
    for version in (netcdf3, netcdf4):
        name = f"{version.__name__} {kind}"
        trap(name, version(("sample", "y", "x"), {"x": x, "y": y}, **turned), "right", box=box, law=law)
        trap(f"{name} first dims", version(("x", "y", "sample"), {"x": x, "y": y}, **last), "right", box=box, law=law)
        trap(f"{name} odd names", version(("sample", "r", "s"), {"r": x, "s": y}, **whole), "right", box=box, law=law)
    trap(f"netcdf3 {kind} no coordinates", netcdf3(("sample", "x", "y"), {}, **whole), "asked", law=law)

# Squares whose axes differ: which comes first is not to be seen.
x, y = axis("nodes", 24, 0, 2), axis("nodes", 24, 0, 1)
trap("square of two lengths", npz(**fields(general, x, y), x=x, y=y), "asked", law=general)
trap("square of one length", npz(**fields(general, y, y), x=y, y=y), "right", box=[(0, 1)] * 2, law=general)

# Samples in columns, as many as points.
x = axis("nodes", COUNT)
for law, expect in ((general, "right"), (rough, "asked")):
    columns = {name: values.T for name, values in fields(law, x).items()}
    trap(f"columns, as many as points, {law.__name__}", npz(**columns, x=x), expect, box=[(0, 1)], law=law)
x = axis("nodes", 48)
columns = {name: values.T for name, values in fields(general, x).items()}
trap("columns", npz(**columns), "asked", law=general)
trap("columns with x", npz(**columns, x=x), "right", box=[(0, 1)], law=general)
trap("columns told", npz(**columns), "right", box=[(0, 1)], law=general, layout="x b", grid="nodes")

# Coordinates under other names, or incomplete.
x = axis("left", 48)
trap("a row of an unknown name", npz(**fields(general, x), radius=2 * x), "asked", law=general)
trap(
    "a row of an unknown name, told",
    npz(**fields(general, x), radius=x),
    "right",
    box=[(0, 1)],
    law=general,
    axes=["radius"],
    grid="left",
)
trap(
    "a row of an unknown name, and the user's kind",
    npz(**fields(general, x), radius=x),
    "right",
    box=[(0, 1)],
    law=general,
    grid="left",
)
trap("points 0, 0.1, ... 0.9", npz(**fields(general, axis("left", 10)), x=axis("left", 10)), "asked", law=general)
trap("odd numbers", npz(**fields(general, axis("cells", 24, 0, 48)), x=axis("cells", 24, 0, 48)), "asked", law=general)
trap("pixels", npz(**fields(general, np.arange(24) + 0.5), x=np.arange(24) + 0.5), "right", box=[(0, 24)], law=general)
trap("indices", npz(**fields(general, np.arange(24.0)), x=np.arange(24.0)), "right", box=[(0, 23)], law=general)
chebyshev = np.cos(pi * (np.arange(24) + 0.5) / 24)
trap(
    "Chebyshev points",
    npz(**fields(general, chebyshev), x=chebyshev),
    "right",
    box=[(chebyshev.min(), chebyshev.max())],
    law=general,
)
trap(
    "Chebyshev points in a box",
    npz(**fields(general, chebyshev), x=chebyshev),
    "right",
    box=[(-1, 1)],
    law=general,
    bounds=[(-1, 1)],
)
trap("x with NaN", npz(**fields(general, x), x=np.where(x > 0.5, np.nan, x)), "asked", law=general)
trap("x twice the same", npz(**fields(general, x), x=np.round(x, 1)), "asked", law=general)
trap(
    "a period with both ends as coordinates, and values of i/n",
    npz(**fields(periodic, x), x=axis("nodes", 48)),
    "asked",
    law=periodic,
)
trap("only X of a meshgrid", npz(**fields(general, x, x), X=np.meshgrid(x, x)[0]), "asked", law=general)

# Latitude and longitude.
lat, lon = axis("nodes", 19, -90, 90), axis("periodic", 36, 0, 360)


def weather(*angles):
    """A function of latitude and longitude on the globe; axes come out as longitude, latitude."""
    return periodic(angles[0], length=360.0) * (2 + np.cos(angles[1] * pi / 180))


globe = fields(weather, lon, lat)
globe = {name: np.swapaxes(values, 1, 2) for name, values in globe.items()}
north_first = {name: values[:, ::-1] for name, values in globe.items()}
around = [(-5, 355), (-90, 90)]  # a period begins half a step before its points
trap("globe", npz(**globe, lat=lat, lon=lon), "right", box=around, law=weather)
trap("globe, north first", npz(**north_first, lat=lat[::-1], lon=lon), "right", box=around, law=weather)
moved = np.where(lon >= 180, lon - 360, lon)
trap("globe with a jump", npz(**globe, lat=lat, lon=moved), "right", box=None, law=weather)
for version in (netcdf3, netcdf4):
    given = version(("member", "latitude", "longitude"), {"latitude": lat[::-1], "longitude": lon}, **north_first)
    trap(f"{version.__name__} globe", given, "right", box=around, law=weather)

# Time.
x, t = axis("periodic", 48), np.linspace(0, 2.5, 7)
moving = np.stack([periodic(x - one) for one in t], 1)


def first_and_last(points):
    """What moves with speed one, at times 0 and 2.5."""
    return periodic(points), periodic(points - 2.5)


told = {"u": "v", "z": "v", "box": [(0, 1)], "law": first_and_last}
trap("trajectories", npz(v=moving, x=x, t=t), "right", **told)
trap("time first", npz(v=np.swapaxes(moving, 0, 1), x=x, t=t), "right", **told)
trap("time last", npz(v=np.moveaxis(moving, 1, -1), x=x, t=t), "right", **told)
trap("time without t", npz(v=np.repeat(moving, 2, 1), x=x), "asked", **told)
trap(
    "time first in NetCDF",
    netcdf3(("time", "sample", "x"), {"x": x, "time": t}, v=np.swapaxes(moving, 0, 1)),
    "right",
    **told,
)
trap("two fields of time", npz(u=moving, z=moving, x=x, t=t), "asked", law=periodic)
trap(
    "two fields of time, told",
    npz(u=moving, z=moving, x=x, t=t),
    "right",
    box=[(0, 1)],
    law=first_and_last,
    steps=(0, -1),
)
trap("an axis that nothing explains", npz(u=moving[:, 0], z=np.repeat(moving, 2, 1), x=x), "asked", law=periodic)
trap("NetCDF with an axis nobody knows", netcdf3(("sample", "what", "x"), {"x": x}, v=moving), "asked", **told)

# Packed and missing values.
packed = {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": np.int16(-999)}
x = axis("nodes", 24)
counts = np.round(20 * general(x)).astype("i2")


def unpacked(points):
    return 0.5 * np.round(20 * general(points)) + 3


trap(
    "packed integers",
    netcdf4(("sample", "x"), {"x": x}, packed, u=counts),
    "right",
    u="u",
    z="u",
    box=[(0, 1)],
    law=lambda points: (unpacked(points),) * 2,
)

# Different points in and out.
trap("two grids", npz(u=general(axis("nodes", 40)), z=general(axis("nodes", 24))), "asked", law=general)
trap("two grids in columns", npz(u=general(axis("nodes", 40)).T, z=general(axis("nodes", 24)).T), "asked", law=general)


@pytest.mark.parametrize("name", TRAPS)
def test_no_trap_is_read_wrongly(name, tmp_path):
    write, expect, law, box, options = TRAPS[name]
    path = write(tmp_path)
    if expect == "asked":
        with pytest.raises((DataError, UsageError)) as asked:
            operformer.read(path, **options)
        assert "\n" not in str(asked.value)
        return
    samples = operformer.read(path, **options)
    grid = samples.grid
    truth = law(*(axis.numpy() for axis in grid.points.unbind(-1)))
    for values, expected in zip(
        (samples.u, samples.z), truth if isinstance(truth, tuple) else (truth, 2 * truth), strict=True
    ):
        np.testing.assert_allclose(values[:, 0], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(grid.weights.sum(), grid.volume)
    if box is not None:
        np.testing.assert_allclose(grid.bounds, box, atol=1e-6)
    if "grid" not in options:
        assert (law, grid.kind) not in ((general, "periodic"), (periodic, "left"))


@pytest.mark.parametrize(
    ("kind", "law"), [("nodes", general), ("cells", general), ("left", general), ("periodic", periodic)]
)
@pytest.mark.parametrize("dim", [1, 2])
def test_a_coarser_file_tells_where_the_points_are(kind, law, dim, tmp_path):
    n, m = (49, 17) if kind == "nodes" else (48, 16)
    np.savez(tmp_path / "fine.npz", **fields(law, *[axis(kind, n)] * dim))
    np.savez(tmp_path / "coarse.npz", **fields(law, *[axis(kind, m)] * dim))
    with pytest.raises(DataError, match="does not say where"):
        operformer.read(tmp_path / "fine.npz", bounds=[(0, 1)] * dim)
    grid = operformer.read(tmp_path / "fine.npz", bounds=[(0, 1)] * dim, coarser=tmp_path / "coarse.npz").grid
    assert (grid.kind, grid.shape) == (kind, (n,) * dim)


def test_means_over_cells_are_cells_and_what_does_not_nest_is_refused(tmp_path):
    fine = fields(general, axis("cells", 48))
    np.savez(tmp_path / "fine.npz", **fine)
    np.savez(tmp_path / "means.npz", **{name: u.reshape(COUNT, 24, 2).mean(2) for name, u in fine.items()})
    np.savez(tmp_path / "others.npz", **fields(dirichlet, axis("cells", 24)))
    assert operformer.read(tmp_path / "fine.npz", coarser=tmp_path / "means.npz").grid.kind == "cells"
    with pytest.raises(DataError, match=r"are not among those of .*fine\.npz for any kind of grid"):
        operformer.read(tmp_path / "fine.npz", coarser=tmp_path / "others.npz")


def test_there_are_more_than_a_hundred():
    assert len(TRAPS) > 100
