from math import pi

import numpy as np
import pytest
import torch

import operformer
from operformer import Grid, voronoi_weights
from operformer.data.exchange import where_points_are
from operformer.data.importing import import_pairs
from operformer.data.options import Options
from operformer.errors import DataError, UsageError


def save(tmp_path, shape, z=None, **arrays):
    """A file with u and z of a shape, and more arrays."""
    np.savez(
        tmp_path / "a.npz",
        **{"u": np.ones((n := len(arrays.get("u", "123")), *shape)), "z": np.ones((n, *(z or shape)))} | arrays,
    )
    return tmp_path / "a.npz"


def waves(*shape, is_periodic=True):
    """Nine smooth functions that continue from the last point to the first, or do not."""
    values = np.ones((9, *shape))
    for k, n in enumerate(shape):
        phase = np.linspace(0, 3, 9)[:, None] + (2 * pi * np.arange(n) / n if is_periodic else np.arange(n) / n)
        values = values * (2 + np.sin(phase)).reshape(9, *[n if k == j else 1 for j in range(len(shape))])
    return values


def read(tmp_path, axes, **options):
    return operformer.read(save(tmp_path, [len(values) for values in axes.values()], **axes), **options).grid


def same(grid, other):
    assert (grid.kind, grid.shape) == (other.kind, other.shape)
    np.testing.assert_allclose(grid.bounds, other.bounds, atol=1e-12)
    np.testing.assert_allclose(grid.points, other.points, atol=1e-6)
    np.testing.assert_allclose(grid.weights, other.weights, atol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bounds", [((0, 1), (-1, 1)), ((-2.5, 2.5), (0, 2 * pi)), ((0, 10), (0, pi / 2))])
@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "left"])
def test_the_kind_is_recognised(kind, bounds, dtype, tmp_path):
    grid = Grid.uniform((17, 23), bounds, kind)
    x, y = (axis.numpy().astype(dtype) for axis in grid.axes)
    u = waves(17, 23, is_periodic=kind == "periodic")
    same(operformer.read(save(tmp_path, (17, 23), x=x, y=y, u=u)).grid, grid)
    if kind in ("periodic", "left"):
        with pytest.raises(DataError, match=r"x runs from .* say --grid periodic .*, --grid left"):
            read(tmp_path, {"x": x, "y": y})  # of constants nobody can tell


def test_ends_that_are_not_round_are_nodes_unless_told_otherwise(tmp_path):
    x = {"x": np.linspace(0.13, 0.77, 11)}
    same(read(tmp_path, x), Grid.uniform(11, [(0.13, 0.77)]))
    same(read(tmp_path, x, grid="cells"), Grid.uniform(11, [(0.13 - 0.032, 0.77 + 0.032)], "cells"))
    same(read(tmp_path, x, grid="periodic"), Grid.uniform(11, [(0.13, 0.77 + 0.064)], "periodic"))
    same(read(tmp_path, x, bounds=[(0.13, 0.834)], grid="periodic"), Grid.uniform(11, [(0.13, 0.834)], "periodic"))


def test_pixels_are_cells_and_indices_are_nodes(tmp_path):
    same(read(tmp_path, {"x": np.arange(11) + 0.5}), Grid.uniform(11, [(0, 11)], "cells"))
    same(read(tmp_path, {"x": np.arange(11)}), Grid.uniform(11, [(0, 10)]))


def test_many_points_in_single_precision(tmp_path):
    x = (2 * pi * np.arange(16384) / 16384).astype(np.float32)
    same(read(tmp_path, {"x": x}, grid="periodic"), Grid.uniform(16384, [(0, 2 * pi)], "periodic"))
    bent = np.linspace(0, 1, 101) + 0.002 * np.sin(np.linspace(0, pi, 101))
    assert read(tmp_path, {"x": bent}).kind == "rectilinear"


def test_other_spacings_are_kept(tmp_path):
    x = np.array([0.0, 0.1, 0.4, 1.0])
    same(read(tmp_path, {"x": x}), Grid.rectilinear(x))
    same(read(tmp_path, {"x": x, "y": np.linspace(0, 1, 7)}), Grid.rectilinear(x, np.linspace(0, 1, 7)))
    same(read(tmp_path, {"x": x[::-1]}), Grid.rectilinear(x[::-1].copy()))


def test_axes_of_several_kinds_keep_the_weights_of_each(tmp_path):
    cells = Grid.uniform(7, kind="cells")
    periodic = Grid.uniform(11, [(0, 2 * pi)], "periodic")
    grid = read(tmp_path, {"x": cells.axes[0].numpy(), "y": periodic.axes[0].numpy()}, grid=("cells", "periodic"))
    assert grid.kind == "rectilinear"
    np.testing.assert_allclose(grid.weights, np.full((7, 11), 2 * pi / 77), rtol=1e-12)
    np.testing.assert_allclose(grid.bounds, [(0, 1), (-pi / 11, 2 * pi - pi / 11)], rtol=1e-12)


BOX = Grid.uniform((7, 11), [(0, 2), (0, 3)])
X, Y = np.linspace(0, 2, 7), np.linspace(0, 3, 11)


@pytest.mark.parametrize("pattern", ["{}-coordinate", "{}_coord", "grid_{}", "{}"])
def test_the_usual_names(pattern, tmp_path):
    same(operformer.read(save(tmp_path, (7, 11), **{pattern.format("x"): X, pattern.format("y"): Y})).grid, BOX)


def test_all_points_of_a_tensor_product_are_its_axes(tmp_path):
    x, y = np.meshgrid(X, Y, indexing="ij")
    same(operformer.read(save(tmp_path, (7, 11), X=x, Y=y)).grid, BOX)
    with pytest.raises(DataError, match="do not vary along one axis alone"):
        operformer.read(save(tmp_path, (7, 11), X=x + 0.1 * y, Y=y))


def test_a_function_of_time_lives_on_its_times(tmp_path):
    path = save(tmp_path, (2, 11), (1, 11), t=np.linspace(0, 2, 11))
    same(operformer.read(path).grid, Grid.uniform(11, [(0, 2)]))


def test_coordinates_follow_their_axis_when_axes_are_swapped(tmp_path):
    same(operformer.read(save(tmp_path, (11, 7), x=X, y=Y), layout="b y x").grid, BOX)


def test_scattered_points_in_the_box_that_holds_them(tmp_path):
    points = np.random.default_rng(0).random((17, 2)) * [2, 3]
    path = save(tmp_path, (17, 2), (17,), points=points)
    box = list(zip(points.min(0), points.max(0), strict=True))
    for bounds, given in ((box, None), ([(0, 2), (0, 3)], [(0, 2), (0, 3)])):
        cells = Grid.scattered(points, voronoi_weights(torch.tensor(points), bounds), bounds)
        same(operformer.read(path, bounds=given).grid, cells)
        equal = operformer.read(path, bounds=given, weights="equal").grid
        same(equal, Grid.scattered(points, bounds=bounds))
        assert equal.has_equal_weights
        is_said = "the domain is the box of the points" in where_points_are(path, Options(bounds=given))
        assert is_said is (given is None)
    with pytest.raises(UsageError, match=r"weights must be .voronoi. or .equal.: got 'area'"):
        operformer.read(path, weights="area")
    with pytest.raises(DataError, match="no points for 17 scattered values"):
        operformer.read(save(tmp_path, (17, 2), (17,)), layout=("b n c", "b n"))


def many(tmp_path, lengths=(17, 11, 13), **arrays):
    """A file of functions that are each known on points of their own; what lies beyond them is nonsense."""
    generator = np.random.default_rng(1)
    points, u = generator.random((3, 17, 2)), generator.random((3, 17, 2))
    for k, n in enumerate(lengths):
        points[k, n:], u[k, n:] = np.nan, np.nan
    given = {"u": u, "z": u[..., 0], "points": points, "counts": np.array(lengths)} | arrays
    np.savez(tmp_path / "a.npz", **{name: array for name, array in given.items() if array is not None})
    return points, u


@pytest.mark.parametrize("layout", [None, ("b n c", "b n")])
@pytest.mark.parametrize("rule", ["voronoi", "equal"])
def test_points_of_their_own_for_each_sample(tmp_path, layout, rule):
    points, u = many(tmp_path)
    box = [(0.0, 1.0), (0.0, 1.0)]
    samples = operformer.read(tmp_path / "a.npz", layout=layout, bounds=box, weights=rule)
    assert samples.grid.counts == (17, 11, 13)
    assert samples.channels == (2, 1)
    for k, n in enumerate((17, 11, 13)):
        x = torch.tensor(points[k, :n])
        weights = voronoi_weights(x, box) if rule == "voronoi" else torch.full((n,), 1 / n)
        one = samples.grid.of_sample(k)
        np.testing.assert_array_equal(one.points, x)
        np.testing.assert_allclose(one.weights, weights, rtol=1e-6)
        np.testing.assert_array_equal(samples.u[k, :, :n], u[k, :n].T)
        assert not samples.u[k, :, n:].any()
        assert not samples.z[k, :, n:].any()
    (last,) = list(operformer.read(tmp_path / "a.npz", first=2, bounds=box).grid.counts)
    assert last == 13


def test_points_of_their_own_with_weights_and_on_disk(tmp_path):
    mine = np.random.default_rng(2).random((3, 17))
    many(tmp_path, weights=mine)
    grid = operformer.read(tmp_path / "a.npz").grid
    for k, n in enumerate((17, 11, 13)):
        np.testing.assert_array_equal(grid.of_sample(k).weights, mine[k, :n])
    with pytest.raises(UsageError, match="a set on disk has one grid"):
        import_pairs(tmp_path / "a.npz", tmp_path / "set")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"counts": np.array([16, 11, 13])}, "counts that do not fit its 17 points"),
        ({"counts": np.array([17, 1, 13])}, "counts that do not fit"),
        ({"counts": None}, "points that are not finite"),
        ({"points": np.ones((4, 17, 2)), "counts": None}, "points for 4 samples, and values for 3"),
        ({"points": np.ones((3, 16, 2)), "counts": None}, r"shape \(3, 16, 2\) for points of their own: \(samples, 17"),
        ({"points": np.ones((3, 17, 2)), "counts": None}, "make no grid"),
    ],
)
def test_points_of_their_own_that_make_no_grid_are_told(tmp_path, arrays, said):
    many(tmp_path, **arrays)
    with pytest.raises(DataError, match=said):
        operformer.read(tmp_path / "a.npz", layout=("b n c", "b n"))


def test_points_in_the_plane_are_not_taken_for_a_line(tmp_path):
    path = save(tmp_path, (17,), points=np.random.default_rng(0).random((17, 2)))
    with pytest.raises(DataError, match=r'points \(17, 2\) for values that the layout puts on a line; .* "b n"'):
        operformer.read(path, layout="b x")
    same(operformer.read(path, layout="b x", grid="nodes").grid, Grid.uniform((17,)))


def test_without_coordinates_the_user_says_where(tmp_path):
    path = save(tmp_path, (7,))
    with pytest.raises(DataError, match=r"does not say where its 7 points are: say --grid nodes .*, --grid cells .*, "):
        operformer.read(path)
    same(operformer.read(path, grid="cells", bounds=[(0, 2)]).grid, Grid.uniform(7, [(0, 2)], "cells"))
    own = Grid.rectilinear([0.0, 0.1, 0.3, 0.4, 0.7, 0.9, 1.0])
    assert operformer.read(path, grid=own).grid is own
    with pytest.raises(DataError, match=r"values of shape \(7,\): the grid has \(8,\)"):
        operformer.read(path, grid=Grid.uniform(8), layout="b x")
    with pytest.raises(UsageError, match="grid must be"):
        operformer.read(path, grid="knots")


def test_a_user_who_contradicts_the_file_is_told(tmp_path):
    x = np.linspace(0, 1, 11)
    with pytest.raises(DataError, match=r"x runs from 0 to 1 in 11 values, which are not cells of \[0.0, 1.0\]"):
        read(tmp_path, {"x": x}, grid="cells", bounds=[(0, 1)])
    with pytest.raises(DataError, match="not equispaced cells"):
        read(tmp_path, {"x": x**2}, grid="cells")
    with pytest.raises(UsageError, match="for each of 1 axes"):
        read(tmp_path, {"x": x}, bounds=[(0, 1), (0, 1)], layout="b x")


def test_a_kind_of_grid_makes_up_for_coordinates_that_are_missing(tmp_path):
    path = save(tmp_path, (5, 5), x=np.linspace(0, 1, 5))
    with pytest.raises(DataError, match="no coordinates of y for 5 values; say what grid it is"):
        operformer.read(path, layout="b x y")
    grid = operformer.read(path, layout="b x y", grid="cells", bounds=[(0, 1), (0, 3)]).grid
    same(grid, Grid.uniform((5, 5), [(0, 1), (0, 3)], "cells"))
