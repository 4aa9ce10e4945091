import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import operformer
from operformer import TNO, Grid, SpectralOperator, voronoi_weights
from operformer.data.importing import store
from operformer.domain import Samples
from operformer.domain.interpolation import interpolate
from operformer.evaluation.source_error import source_error
from operformer.operators.baselines import AFNO


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def operator(tmp_path):
    torch.manual_seed(0)
    made = TNO(2, 1, 1, hidden_channels=6, n_layers=1, n_heads=2)
    made.output_mean.fill_(0.5)
    made.save_pretrained(tmp_path / "operator")
    return made


@pytest.fixture
def u():
    return np.random.default_rng(0).normal(size=(5, 7, 11)).astype(np.float32)


def test_from_arrays_to_arrays(call, operator, u):
    np.savez("new.npz", u=u)
    code, out, err = call("predict", "operator", "new.npz", "--out", "z.npz", "--grid", "nodes")
    assert (code, err) == (0, "")
    assert "5 functions on Grid(nodes, 7 x 11 points in [0, 1] x [0, 1])" in out
    written = np.load("z.npz")
    expected = operator(torch.tensor(u)[:, None], Grid.uniform((7, 11))).detach()
    np.testing.assert_allclose(written["z"], expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(written["u"], u[:, None])
    np.testing.assert_allclose(written["grid_y"], np.linspace(0, 1, 11))
    code, _, err = call("predict", "operator", "new.npz", "--out", "z.npz")
    assert (code, err.count("\n")) == (2, 1)
    assert "z.npz is there already" in err
    assert call("predict", "operator", "new.npz", "--out", "z.npz", "--force", "--grid", "cells")[0] == 0
    assert np.load("z.npz")["grid_x"][0] == pytest.approx(1 / 14)


def test_the_error_of_sources_is_printed(call, operator, u):
    np.save("new.npy", u)
    operator.sources = 16
    operator.save_pretrained("operator")
    code, out, _ = call("predict", "operator", "new.npy", "--out", "z.npz", "--grid", "nodes")
    values = torch.tensor(u)[:, None]
    exact = 100 * float(source_error(operator, values, Grid.uniform((7, 11))).max())
    assert code == 0
    assert f"sources: 16 in place of all points change the output by at most about {exact:.2g} % (5 functions)" in out
    code, out, _ = call("certify", "operator", "--resolution", "8", "8")
    assert re.search(r"sources: 16 in place of all points .* % \(3 functions\) on 33 x 33 points\n", out)
    operator.sources = 77
    operator.save_pretrained("operator")
    _, out, _ = call("predict", "operator", "new.npy", "--out", "again.npz", "--grid", "nodes")
    assert "sources: 77 are all points there; no error" in out


def test_at_another_resolution(call, operator, u):
    np.save("new.npy", u)
    assert (
        call("predict", "operator", "new.npy", "--grid", "nodes", "--resolution", "13", "21", "--out", "z.h5")[0] == 0
    )
    finer = Grid.uniform((13, 21))
    expected = operator(torch.tensor(u)[:, None], Grid.uniform((7, 11)), query=finer).detach()
    with h5py.File("z.h5") as file:
        np.testing.assert_allclose(file["z"], expected, rtol=0, atol=1e-6)
        moved = interpolate(torch.tensor(u)[:, None], Grid.uniform((7, 11)), finer)
        np.testing.assert_allclose(file["u"], moved, rtol=0, atol=1e-6)


def test_at_points_of_a_file(call, operator, u):
    points = np.random.default_rng(0).random((9, 2))
    np.save("new.npy", u)
    np.save("points.npy", points)
    np.savez("points.npz", points=points, weights=np.ones(9))
    lines = [",".join(map(repr, row)) for row in points.tolist()]
    Path("points.csv").write_text("\n".join(["x, y", *lines, ""]))
    expected = operator(torch.tensor(u)[:, None], Grid.uniform((7, 11)), query=Grid.scattered(points)).detach()
    for name in ("points.npy", "points.npz", "points.csv"):
        code, out, err = call(
            "predict", "operator", "new.npy", "--grid", "nodes", "--points", name, "--out", "z.npz", "--force"
        )
        assert (code, err) == (0, "")
        assert "predicted on Grid(scattered, 9 points" in out
        with np.load("z.npz") as written:
            np.testing.assert_allclose(written["z"], expected, rtol=0, atol=1e-6)
            np.testing.assert_array_equal(written["points"], points)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.csv", "1, 2\n3\n", "line 2 of a.csv has 1 numbers, the first 2"),
        ("a.csv", "x, y\n0.1, b\n", "line 2 of a.csv is no row of numbers"),
        ("a.csv", "x, y\n", "holds no points"),
        ("a.csv", "0.1, nan\n", "not finite, first in point 0"),
        ("a.csv", "0.1\n0.2\n", r"must hold points \(N, 2\)"),
        ("a.csv", "0.5, 0.5\n7, 0\n", "every point must lie inside"),
        ("a.txt", "1, 2", "points are read from .csv, .npy and .npz"),
        ("b.csv", None, "b.csv was not found"),
    ],
)
def test_files_without_points_are_refused(call, operator, u, name, content, complaint):
    np.save("new.npy", u)
    if content is not None:
        Path(name).write_text(content)
    code, _, err = call("predict", "operator", "new.npy", "--grid", "nodes", "--points", name, "--out", "z.npz")
    assert code in (2, 3)
    assert err.count("\n") == 1
    assert re.search(complaint, err)


def test_scattered_points(call, operator):
    points = np.random.default_rng(0).random((29, 2))
    u = np.random.default_rng(1).normal(size=(3, 29)).astype(np.float32)
    np.savez("new.npz", u=u, points=points)
    assert call("predict", "operator", "new.npz", "--out", "z.npz")[0] == 0
    grid = Grid.scattered(points, voronoi_weights(torch.tensor(points)))
    expected = operator(torch.tensor(u)[:, None], grid).detach()
    written = np.load("z.npz")
    np.testing.assert_allclose(written["z"], expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(written["weights"].sum(), 1.0)
    assert call("predict", "operator", "new.npz", "--weights", "equal", "--out", "e.npz")[0] == 0
    assert np.abs(np.load("e.npz")["z"] - written["z"]).max() > 1e-6


def test_coefficients_by_least_squares(call, operator):
    torch.manual_seed(0)
    made = SpectralOperator((3, 3), 1, 1, 4, n_layers=1, basis="cosine")
    made.save_pretrained("modal")
    points = np.random.default_rng(0).random((57, 2))
    u = np.random.default_rng(1).normal(size=(3, 57)).astype(np.float32)
    np.savez("new.npz", u=u, points=points)
    fitted = ("new.npz", "--out", "z.npz", "--analysis", "least-squares")
    assert call("predict", "modal", *fitted)[0] == 0
    made.analysis = "least-squares"
    expected = made(torch.tensor(u)[:, None], Grid.scattered(points, voronoi_weights(torch.tensor(points)))).detach()
    with np.load("z.npz") as written:
        np.testing.assert_allclose(written["z"], expected, rtol=0, atol=1e-6)
    code, _, err = call("predict", "operator", *fitted, "--force")
    assert code == 2
    assert "TNO finds no coefficients at scattered points; leave --analysis out" in err


def test_a_run_on_a_set_of_ones_own(call, tmp_path):
    """Four commands: import, train, evaluate, predict; cells are remembered, though the new file has no coordinates."""
    numbers = np.random.default_rng(0).random((24, 1, 1))
    x = (np.arange(8) + 0.5) / 8
    u = (numbers + np.sin(3 * x[:, None] * numbers + x)).astype(np.float32)
    np.savez("mine.npz", u=u, z=u.cumsum(-1) / 8, x=x, y=x)
    (tmp_path / "own.toml").write_text(
        '[problem]\nname = "Imported"\nfolder = "data"\n[operator]\nname = "FANO"\nn_patches = [1, 1]\nn_modes = 2\n'
        "hidden_channels = 4\nn_layers = 1\nn_heads = 2\n[data]\ntrain = 16\nvalidation = 4\ntest = 4\n"
        '[training]\nepochs = 1\nbatch_size = 4\ndevice = "cpu"\n'
    )
    assert call("import", "mine.npz", "--out", "data")[0] == 0
    assert call("train", "own.toml", "--out", "run")[0] == 0
    assert call("evaluate", "run")[0] == 0
    np.savez("new.npz", u=u[20:])
    for source, rows in (("new.npz", slice(20, 24)), ("data", slice(0, 24))):
        code, out, err = call("predict", "run", source, "--out", "z.npz", "--force")
        assert (code, err) == (0, "")
        assert "Grid(cells, 8 x 8 points" in out
        operator = operformer.load("run/operator")
        expected = operator(torch.tensor(u[rows])[:, None], Grid.uniform((8, 8), kind="cells")).detach()
        np.testing.assert_allclose(np.load("z.npz")["z"], expected, rtol=0, atol=1e-6)
    # Its errors are those of the evaluation: the same pairs, the same grid.
    found, z = np.load("z.npz")["z"][20:], (u.cumsum(-1) / 8)[20:, None]
    errors = np.sqrt(((found - z) ** 2).sum((1, 2, 3)) / (z**2).sum((1, 2, 3)))
    (evaluation,) = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert evaluation["errors"] == pytest.approx(errors.tolist(), rel=1e-4)


def test_a_run_on_scattered_points_predicts_and_is_exported(call, tmp_path):
    points = 0.4 * torch.rand(19, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points[0] = 1.0  # the others leave most of the box empty
    u = torch.rand(12, 1, 19, generator=torch.Generator().manual_seed(1)) + 0.5
    store(Samples(u, u**2, Grid.scattered(points)), "data", "mine", {"file": "mine"})
    (tmp_path / "own.toml").write_text(
        '[problem]\nname = "Imported"\nfolder = "data"\n[operator]\nname = "TNO"\nhidden_channels = 4\nn_layers = 1\n'
        "n_heads = 2\n[data]\ntrain = 8\nvalidation = 2\ntest = 2\n"
        '[training]\nepochs = 1\nbatch_size = 4\ndevice = "cpu"\n'
    )
    assert call("train", "own.toml", "--out", "run")[0] == 0
    np.savez("new.npz", u=u, points=points)
    assert call("predict", "run", "new.npz", "--out", "file.npz")[0] == 0
    assert call("predict", "run", "data", "--out", "set.npz")[0] == 0
    np.testing.assert_allclose(np.load("file.npz")["z"], np.load("set.npz")["z"], rtol=0, atol=1e-6)
    assert call("calibrate", "run", "--alpha", 0.6)[0] == 0
    np.savetxt("points.csv", [[0.2, 0.2], [0.9, 0.3], [0.1, 0.3]], delimiter=",")
    assert call("predict", "run", "new.npz", "--points", "points.csv", "--out", "there.npz")[0] == 0
    with np.load("there.npz") as written:
        assert np.isnan(written["z"]).all((0, 1)).tolist() == [False, True, False]
        assert np.isnan(written["half_width"]).tolist() == [[False, True, False]]
    np.savez("box.npz", u=np.ones((3, 1, 9, 9)))  # the run knows its domain where the inputs' grid does not
    assert call("predict", "run", "box.npz", "--grid", "nodes", "--out", "box-z.npz")[0] == 0
    assert np.isnan(np.load("box-z.npz")["z"][0, 0, [0, 7], [0, 1]]).tolist() == [False, True]
    code, _, err = call("export", "run", "run.pt2")
    assert (code, err.count("\n")) == (2, 1)
    assert "trained on scattered points; give the --kind of the graph's grid: one of nodes, cells" in err
    assert call("export", "run", "run.pt2", "--kind", "cells")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["nowhere", "u.npz", "--out", "z.npz"], 3, "there is no folder nowhere"),
        (["operator", "nowhere.npz", "--out", "z.npz"], 3, "nowhere.npz"),
        (["operator", "u.npz", "--out", "z.csv"], 2, ".npz or .h5"),
        (["operator", "u.npz"], 2, "out"),
        (["operator", "channels.npz", "--out", "z.npz"], 3, "(samples, 1, x, y)"),
        (["operator", "line.npz", "--out", "z.npz"], 3, "takes dimension 2"),
        (["operator", "nan.npz", "--grid", "nodes", "--out", "z.npz"], 3, "sample 1 of u"),
        (["operator", "far.npz", "--out", "z.npz"], 2, "trained on [0, 1]"),
        (["operator", "u.npz", "--u", "v", "--out", "z.npz"], 3, "no array 'v'"),
        (
            ["operator", "u.npz", "--grid", "nodes", "--resolution", "5", "5", "5", "--out", "z.npz"],
            2,
            "one for each of 2 axes",
        ),
        (["operator", "u.npz", "--grid", "nodes", "--resolution", "1", "--out", "z.npz"], 2, "at least two points"),
        (["operator", "u.npz", "--bounds", "0", "--out", "z.npz"], 2, "bounds are pairs of numbers"),
        (["operator", "u.npz", "--layout", "b q", "--out", "z.npz"], 2, "unknown letter"),
        (["operator", "u.npz", "--grid", "nodes", "--out", "u.npz/z.npz"], 5, "cannot write"),
        (["afno", "points.npz", "--out", "z.npz"], 2, "AFNO"),
    ],
)
def test_errors_are_one_line(call, operator, u, arguments, code, part):
    AFNO((2, 2), 1, 1, hidden_channels=4, n_layers=1, n_blocks=2).save_pretrained("afno")
    broken = u.copy()
    broken[1, 2, 3] = np.nan
    np.savez("u.npz", u=u)
    np.savez("channels.npz", u=np.stack([u, u], 1))
    np.savez("line.npz", u=u[:, 0], x=np.linspace(0, 1, 11))
    np.savez("nan.npz", u=broken)
    np.savez("far.npz", u=u, x=np.linspace(0, 5, 7), y=np.linspace(0, 1, 11))
    np.savez("points.npz", u=u[:, 0], points=np.random.default_rng(0).random((11, 2)))
    found, _, err = call("predict", *arguments)
    assert (found, err.count("\n")) == (code, 1)
    assert part in err
    assert "Traceback" not in err
