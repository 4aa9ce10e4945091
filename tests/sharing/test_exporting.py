"""Exported graphs: the numbers of the operator itself, at sizes and batches the graph was not made with."""

import json

import onnxruntime
import pytest
import torch

from operformer import FANO, TNO, Grid, ViTNO
from operformer.domain.grid import symbolic_grid
from operformer.errors import ResourceError, UsageError
from operformer.operators import UniversalTNO
from operformer.operators.baselines import AFNO
from operformer.sharing import exporting
from operformer.sharing.exporting import export

SMALL = {"in_channels": 2, "out_channels": 1, "hidden_channels": 6, "n_layers": 1, "n_heads": 2}
BOX = ((-1.0, 1.0), (0.5, 4.5))


def on_a_box(operator):
    """An operator that was trained somewhere else than on the unit cube, in units of its own."""
    operator.input_mean.copy_(torch.tensor([0.3, -2.0]))
    operator.input_scale.copy_(torch.tensor([1.7, 0.4]))
    operator.output_mean.fill_(5.0)
    operator.output_scale.fill_(0.3)
    bounds = torch.tensor(BOX)[: operator.dim]
    operator.domain_lower.copy_(bounds[:, 0])
    operator.domain_extent.copy_(bounds[:, 1] - bounds[:, 0])
    return operator.eval()


def assert_same(graph, operator, kind, sizes, query=None):
    for batch, shape in sizes:
        u = torch.randn(batch, 2, *shape)
        with torch.no_grad():
            expected = operator(u, Grid.uniform(shape, BOX[: operator.dim], kind), query)
        torch.testing.assert_close(graph(u), expected, atol=1e-5, rtol=1e-5)


def run_onnx(path):
    session = onnxruntime.InferenceSession(path)
    return lambda u: torch.from_numpy(session.run(["z"], {"u": u.numpy()})[0])


@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "left"])
def test_a_symbolic_grid_is_the_uniform_one(kind):
    ours, grid = symbolic_grid((5, 11), BOX, kind), Grid.uniform((5, 11), BOX, kind)
    torch.testing.assert_close(ours.points, grid.points, atol=1e-14, rtol=0)
    torch.testing.assert_close(ours.weights, grid.weights, atol=1e-14, rtol=0)
    assert ours.has_equal_weights == grid.has_equal_weights


def test_a_tno_is_the_same_in_onnx(tmp_path):
    torch.manual_seed(0)
    operator = on_a_box(TNO(2, **SMALL))
    path = export(operator, tmp_path / "deep" / "tno.onnx", kind="nodes", names=(("head",), ("flux", "speed")),
                  units={"speed": "m/s"})  # fmt: skip
    told = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    assert (told["grid"], told["outputs"]) == ("nodes", '["flux", "speed"]')
    assert told["units"] == '{"speed": "m/s"}'
    assert json.loads(told["bounds"]) == [list(ends) for ends in operator.bounds]
    assert_same(run_onnx(path), operator, "nodes", [(1, (11, 3)), (4, (2, 17)), (3, (5, 7))])


def test_a_tno_on_an_interval_is_the_same_in_torch_export(tmp_path):
    torch.manual_seed(1)
    operator = on_a_box(TNO(1, **SMALL, initial_channels=1))
    path = export(operator, tmp_path / "tno.pt2")
    assert_same(torch.export.load(path).module(), operator, "nodes", [(1, (23,)), (2, (4,))])


def test_a_fano_is_the_same_in_onnx(tmp_path):
    torch.manual_seed(2)
    operator = on_a_box(FANO((3,), 3, **SMALL))
    path = export(operator, tmp_path / "fano.onnx", kind="cells")
    # Two points of a patch resolve one mode, 13 all three: which are kept is decided inside the graph.
    assert_same(run_onnx(path), operator, "cells", [(1, (39,)), (2, (6,))])
    (given,) = onnxruntime.InferenceSession(path).get_inputs()
    assert given.shape == ["batch", 2, "3*n0"]


@pytest.mark.slow
@pytest.mark.parametrize("make", [FANO, ViTNO])
def test_patched_operators_in_the_plane_are_the_same_in_onnx(tmp_path, make):
    torch.manual_seed(4)
    operator = on_a_box(make((2, 3), 3, **SMALL, last=(2, "periodic")))
    path = export(operator, tmp_path / "patched.onnx", kind="cells")
    assert_same(run_onnx(path), operator, "cells", [(1, (26, 9)), (2, (6, 33))])


@pytest.mark.parametrize(
    ("make", "n_patches", "kind", "settings"),
    [
        (ViTNO, (3,), "cells", {"waves": 2}),
        (FANO, (3,), "nodes", {"basis": "extended-fourier", "overlap": 0}),
        pytest.param(ViTNO, (1,), "nodes", {}, marks=pytest.mark.slow),
        pytest.param(ViTNO, (3, 2), "nodes", {}, marks=pytest.mark.slow),
        pytest.param(FANO, (3,), "periodic", {"basis": "cosine", "last": "periodic"}, marks=pytest.mark.slow),
        pytest.param(FANO, (3,), "cells", {"basis": "extended-fourier", "last": 2}, marks=pytest.mark.slow),
        pytest.param(ViTNO, (3, 1), "periodic", {"last": "dirichlet"}, marks=pytest.mark.slow),
    ],
)
def test_patched_operators_are_the_same_in_torch_export(tmp_path, make, n_patches, kind, settings):
    torch.manual_seed(3)
    operator = on_a_box(make(n_patches, 3, **SMALL, **settings))
    graph = torch.export.load(export(operator, tmp_path / "patched.pt2", kind)).module()
    d, last = len(n_patches), int(kind == "nodes")
    sizes = [(1, (33, 4)[:d]), (4, (9, 14)[:d])]
    assert_same(graph, operator, kind, [(batch, tuple(n + last for n in shape)) for batch, shape in sizes])
    if n_patches[0] > 1:
        with pytest.raises((AssertionError, RuntimeError)):
            graph(torch.zeros(1, 2, *(11, 6)[:d]))  # neither eleven points nor ten intervals make three patches


@pytest.mark.parametrize(
    ("make", "kind", "settings", "suffix"),
    [
        (FANO, "cells", {"last": (2, "neumann"), "overlap": 0.25}, ".onnx"),
        pytest.param(FANO, "nodes", {"last": "dirichlet"}, ".pt2", marks=pytest.mark.slow),
        pytest.param(ViTNO, "cells", {"overlap": 0.25, "basis": "cosine"}, ".onnx", marks=pytest.mark.slow),
        pytest.param(ViTNO, "periodic", {"last": 2}, ".pt2", marks=pytest.mark.slow),
    ],
)
def test_points_are_part_of_the_graph(tmp_path, make, kind, settings, suffix):
    torch.manual_seed(6)
    operator, points = on_a_box(make((3,), 3, **SMALL, **settings)), torch.linspace(-0.9, 1.0, 7)[:, None]
    query = Grid.scattered(points, bounds=BOX[:1])
    path = export(operator, tmp_path / f"read{suffix}", kind, query=query)
    graph = run_onnx(path) if suffix == ".onnx" else torch.export.load(path).module()
    sizes = [(1, (39 + (kind == "nodes"),)), (2, (9 + (kind == "nodes"),))]
    assert_same(graph, operator, kind, sizes, query)


def test_the_operator_is_left_as_it_was(tmp_path):
    operator = UniversalTNO(1, 2, 1, 6).train()
    before = {name: t.clone() for name, t in operator.state_dict().items()}
    export(operator, tmp_path / "universal.pt2", "periodic")
    assert operator.training
    assert all(torch.equal(t, before[name]) for name, t in operator.state_dict().items())


@pytest.mark.parametrize(
    ("make", "path", "kind", "message"),
    [
        (lambda: TNO(1, **SMALL), "a.pt", "nodes", r"a \.pt2 or an \.onnx file"),
        (lambda: TNO(1, **SMALL), "a.pt2", "rectilinear", "kind must be .nodes. or .cells. or .periodic. or .left."),
        (lambda: TNO(1, **SMALL, sources=9), "a.pt2", "nodes", "operator.sources=None"),
        (lambda: TNO(1, **SMALL, initial_channels=1), "a.onnx", "cells", "cells have none"),
        (lambda: FANO((3,), 3, **SMALL), "a.pt2", "left", "patches of left ends differ in size"),
        (lambda: ViTNO((2,), 3, **SMALL, basis="legendre"), "a.pt2", "cells", "Legendre"),
        (lambda: AFNO((8, 8), 2, 1, 8), "a.pt2", "cells", "got AFNO"),
    ],
)
def test_what_cannot_be_exported_is_said(tmp_path, make, path, kind, message):
    with pytest.raises(UsageError, match=message):
        export(make(), tmp_path / path, kind)
    assert not (tmp_path / path).exists()


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"pip install 'operformer\[onnx\]'"):
        export(TNO(1, **SMALL), tmp_path / "a.onnx")
