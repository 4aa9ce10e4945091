"""predict and read_inputs against the operator called by hand on grids made by hand."""

import numpy as np
import pytest
import torch

import operformer
from operformer import FANO, TNO, Grid, pad, voronoi_weights
from operformer.domain.interpolation import interpolate
from operformer.domain.reading import beyond
from operformer.errors import DataError, DivergedError, UsageError
from operformer.evaluation import prediction
from operformer.operators.baselines import AFNO

BOXES = {1: [(0.0, 2.0)], 2: [(0.0, 2.0), (-1.0, 1.0)], 3: [(0.0, 2.0), (-1.0, 1.0), (0.0, 1.0)]}
SHAPES = {1: (11,), 2: (7, 11), 3: (5, 7, 3)}


def placed(operator, dim):
    """An operator as if it had been trained on the box."""
    box = torch.tensor(BOXES[dim])
    operator.domain_lower.copy_(box[:, 0])
    operator.domain_extent.copy_(box[:, 1] - box[:, 0])
    operator.output_mean.fill_(0.5)
    return operator.double().eval()


def tno(dim=2, in_channels=2):
    torch.manual_seed(0)
    return placed(TNO(dim, in_channels, 1, hidden_channels=6, n_layers=2, n_heads=2), dim)


def fano(dim=2, in_channels=2):
    torch.manual_seed(0)
    sizes = {"in_channels": in_channels, "out_channels": 1, "hidden_channels": 4, "n_layers": 1, "n_heads": 2}
    return placed(FANO((2,) * dim, 2, **sizes), dim)


def values(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "left"])
def test_on_its_own_grid_it_is_the_operator(dim, kind, monkeypatch):
    u, grid = values(5, 2, *SHAPES[dim]), Grid.uniform(SHAPES[dim], BOXES[dim], kind)
    operator = tno(dim)
    calls = []
    operator.register_forward_hook(lambda module, inputs, output: calls.append(len(output)))
    monkeypatch.setattr(prediction, "POINTS", 2 * np.prod(SHAPES[dim]))
    found = operformer.predict(operator, u, grid)
    assert calls == [2, 2, 1]
    expected = operator(torch.tensor(u), grid)
    torch.testing.assert_close(found.z, expected.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(found.u, torch.tensor(u), rtol=0, atol=0)
    assert not found.z.requires_grad


def test_without_a_grid_nodes_of_the_trained_domain_are_meant():
    u = values(3, 2, *SHAPES[2]).astype(np.float32)  # an operator in float64 takes it, too
    found = operformer.predict(tno(), u)
    assert (found.grid.kind, found.grid.bounds) == ("nodes", tuple(BOXES[2]))
    torch.testing.assert_close(found.z, tno()(torch.tensor(u, dtype=torch.float64)).detach())


@pytest.mark.parametrize("make", [tno, fano])
def test_operators_are_read_elsewhere(make):
    u, grid = values(3, 2, 7, 11), Grid.uniform((7, 11), BOXES[2], "cells")
    finer = Grid.uniform((13, 5), BOXES[2], "cells")
    found = operformer.predict(make(), u, grid, resolution=(13, 5))
    torch.testing.assert_close(found.grid.points, finer.points, rtol=0, atol=0)
    torch.testing.assert_close(found.z, make()(torch.tensor(u), grid, query=finer).detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(found.u, interpolate(torch.tensor(u), grid, finer), rtol=0, atol=1e-12)
    same = operformer.predict(make(), u, grid, query=finer)
    torch.testing.assert_close(same.z, found.z, rtol=0, atol=1e-12)


def test_operators_of_one_grid_are_applied_where_they_can_be_and_interpolated_elsewhere():
    torch.manual_seed(0)
    operator = placed(AFNO((16, 16), 2, 1, 8, n_layers=1), 2)
    grid, bound = Grid.uniform((8, 8), BOXES[2], "periodic"), Grid.uniform((16, 16), BOXES[2], "periodic")
    u, points = torch.tensor(values(3, 2, 8, 8)), Grid.scattered(torch.rand(5, 2), bounds=BOXES[2])
    there = interpolate(u, grid, bound)
    expected = operator(there, bound).detach()
    torch.testing.assert_close(operformer.predict(operator, u, grid, resolution=16).z, expected, rtol=0, atol=1e-12)
    found = operformer.predict(operator, there, bound, query=points)
    torch.testing.assert_close(found.z, interpolate(expected, bound, points), rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [tno, fano])
def test_functions_on_points_of_their_own(make, monkeypatch):
    points = [torch.tensor(values(n, 2, seed=n)).clamp(-0.9, 0.9).abs() for n in (17, 29, 23)]
    grid = Grid.ragged(points, [voronoi_weights(x, BOXES[2]) for x in points], BOXES[2])
    u = [torch.tensor(values(2, n, seed=n)) for n in (17, 29, 23)]
    monkeypatch.setattr(prediction, "POINTS", 60)
    found = operformer.predict(make(), u, grid)
    for k, one in enumerate(operformer.unpad(found.z, grid)):
        expected = make()(u[k][None], grid.of_sample(k))[0].detach()
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-10)
    at = operformer.predict(make(), u, grid, resolution=8)
    there = Grid.uniform((8, 8), BOXES[2])
    expected = make()(u[1][None], grid.of_sample(1), query=there).detach()
    expected = expected.masked_fill(beyond(grid.of_sample(1), there), torch.nan)  # half of the box has no points
    torch.testing.assert_close(at.z[1:2], expected, rtol=0, atol=1e-10, equal_nan=True)


@pytest.mark.parametrize(
    ("call", "error", "complaint"),
    [
        (
            lambda u: operformer.predict(tno(), u[:, :1], Grid.uniform((7, 11), BOXES[2])),
            UsageError,
            r"u must be \(batch, 2",
        ),
        (lambda u: operformer.predict(tno(), u, Grid.uniform(7)), UsageError, "must have dimension 2"),
        (lambda u: operformer.predict(tno(), u[0]), UsageError, r"u must be \(count, 2, \*, \*\)"),
        (lambda u: operformer.predict(tno(), u[:0]), UsageError, "at least one sample"),
        (lambda u: operformer.predict(tno(), u + 1j), UsageError, "array of real numbers"),
        (lambda u: operformer.predict(tno(), [["a"]]), UsageError, "array of real numbers"),
        (lambda u: operformer.predict(tno(), u / (np.arange(3) - 1).reshape(3, 1, 1, 1)), DataError, "sample 1 of u"),
        (
            lambda u: operformer.predict(tno(), u, Grid.uniform((7, 11), [(0, 9), (-1, 1)])),
            UsageError,
            "from 0 to 9, and",
        ),
        (lambda u: operformer.predict(tno(), u, resolution=(3, 4, 5)), UsageError, "one for each of 2 axes: got 3"),
        (lambda u: operformer.predict(tno(), u, resolution=1), UsageError, "at least two points"),
        (
            lambda u: operformer.predict(tno(), u, resolution=5, query=Grid.uniform((5, 5))),
            UsageError,
            "give one of them",
        ),
        (lambda u: operformer.predict(tno(), u * 1e290), DivergedError, "sample 0 is not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*divide by zero:RuntimeWarning")
def test_what_does_not_fit_is_refused(call, error, complaint):
    with pytest.raises(error, match=complaint):
        call(values(3, 2, 7, 11))


# Files of inputs


@pytest.mark.parametrize(
    ("shape", "layout", "move"),
    [
        ((5, 2, 7, 11), None, (0, 1, 2, 3)),
        ((5, 7, 11, 2), None, (0, 3, 1, 2)),
        ((7, 5, 11, 2), "x b y c", (1, 3, 0, 2)),
    ],
)
def test_the_operator_says_which_axis_is_channels(shape, layout, move, tmp_path):
    u = values(*shape)
    np.savez(tmp_path / "new.npz", u=u)
    np.save(tmp_path / "new.npy", u)
    torch.save({"x": torch.tensor(u)}, tmp_path / "new.pt")
    for name in ("new.npz", "new.npy", "new.pt"):
        found, grid = operformer.read_inputs(tmp_path / name, tno(), layout=layout, grid="nodes")
        np.testing.assert_array_equal(found, u.transpose(move))
        assert (grid.shape, grid.kind, grid.bounds) == ((7, 11), "nodes", tuple(BOXES[2]))


def test_what_the_user_and_the_file_say_comes_first(tmp_path):
    u = values(5, 2, 7, 11)
    cells = Grid.uniform((7, 11), [(0, 1), (0, 1)], "cells")
    np.savez(tmp_path / "a.npz", u=u, grid_x=cells.axes[0], grid_y=cells.axes[1])
    _, grid = operformer.read_inputs(tmp_path / "a.npz", tno(), kind="periodic")
    torch.testing.assert_close(grid.points, cells.points)
    assert grid.kind == "cells"
    x, y = np.array([0, 0.1, 0.3, 0.7, 1, 1.5, 2]), np.linspace(-1, 1, 11) ** 3
    np.savez(tmp_path / "b.npz", u=u, x=x, y=y)
    _, grid = operformer.read_inputs(tmp_path / "b.npz", tno())
    torch.testing.assert_close(grid.weights, Grid.rectilinear(x, y).weights)
    np.savez(tmp_path / "c.npz", density=u, z=u[:, :1])
    found, grid = operformer.read_inputs(tmp_path / "c.npz", tno(), "density", grid="cells", bounds=[(0, 1), (0, 1)])
    np.testing.assert_array_equal(found, u)
    torch.testing.assert_close(grid.points, cells.points)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_scattered_points_get_the_weights_of_their_cells(dim, tmp_path):
    lower, upper = np.array(BOXES[dim]).T
    points = lower + (upper - lower) * np.random.default_rng(0).random((31, dim))
    u = values(5, 2, 31)
    np.savez(tmp_path / "a.npz", u=u, points=points)
    found, grid = operformer.read_inputs(tmp_path / "a.npz", tno(dim))
    np.testing.assert_array_equal(found, u)
    torch.testing.assert_close(grid.weights, voronoi_weights(torch.tensor(points), BOXES[dim]))
    assert float(grid.weights.sum()) == pytest.approx(2.0**dim / (1 if dim < 3 else 2))
    _, equal = operformer.read_inputs(tmp_path / "a.npz", tno(dim), weights="equal")
    assert equal.has_equal_weights
    mine = np.random.default_rng(1).random(31)
    np.savez(tmp_path / "b.npz", u=u, points=points, weights=mine)
    np.testing.assert_array_equal(operformer.read_inputs(tmp_path / "b.npz", tno(dim))[1].weights, mine)
    np.savez(tmp_path / "c.npz", u=u, z=u, points=points, weights=mine)
    np.testing.assert_array_equal(operformer.read(tmp_path / "c.npz").grid.weights, mine)


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"u": values(5, 3, 7, 11)}, r"has shape \(5, 3, 7, 11\), where the operator takes \(samples, 2, x, y\)"),
        ({"u": values(5, 31)}, r"or points \(N, 2\) beside it"),
        (
            {"u": values(5, 3, 31), "points": np.random.default_rng(0).random((31, 2))},
            "has 3 channels, and the operator takes 2",
        ),
        ({"u": values(5, 2, 31), "x": np.linspace(0, 1, 31)}, "the operator takes dimension 2"),
        ({"one": values(5, 2, 7, 11), "two": values(5, 2, 7, 11)}, "does not say which array is the input u"),
        ({"note": np.array("text")}, "does not say which array is the input u"),
        (
            {"u": np.zeros(96)},
            r"'?u'? has shape \(96,\), without an axis of samples; store one function as \(1, 1, 96\)",
        ),
        ({"u": values(5, 2, 7)}, "say what its axes are by a layout, such as b c x y"),
    ],
)
def test_files_that_do_not_fit_the_operator_are_refused(arrays, complaint, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=complaint):
        operformer.read_inputs(tmp_path / "a.npz", tno())


def test_what_is_predicted_on_points_of_their_own_is_read_again(tmp_path):
    generator = torch.Generator().manual_seed(3)
    points = [torch.rand(n, 2, generator=generator, dtype=torch.float64) for n in (7, 12, 9)]
    grid = Grid.ragged(points, [voronoi_weights(x) for x in points])
    operator = TNO(2, 1, 1, hidden_channels=8, n_layers=1, n_heads=2)
    u = pad([torch.randn(1, len(x), generator=generator) for x in points], grid)
    found = operformer.predict(operator, u, grid)
    for suffix in ("npz", "h5"):
        operformer.write(found, tmp_path / f"a.{suffix}")
        again, there = operformer.read_inputs(tmp_path / f"a.{suffix}", operator)
        torch.testing.assert_close(again, u)
        torch.testing.assert_close(operformer.predict(operator, again, there).z, found.z)
        samples = operformer.read(tmp_path / f"a.{suffix}")
        assert samples.grid.counts == (7, 12, 9)
        torch.testing.assert_close(samples.z, found.z)
