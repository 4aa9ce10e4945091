"""Blended patches: FANO and ViTNO against the definition written out, on every kind of grid, and in files."""

import json
from dataclasses import replace

import onnxruntime
import pytest
import torch
from test_vitno import BOTH, check_literal, noise, observed_order, randomised, u_smooth

import operformer
from operformer import FANO, Grid, Overlap, ViTNO, certify, export, set_precision
from operformer.domain.basis import BASES
from operformer.domain.blending import make_cover, transform_on
from operformer.domain.dilation import index_tables, make_dilation
from operformer.errors import UsageError
from operformer.evaluation.face_jumps import JumpMean
from operformer.operators import composition

SMALL = {"hidden_channels": 6, "n_layers": 2, "n_heads": 2}

PERIODIC = Overlap(0.25, "periodic")


@pytest.mark.parametrize(
    ("counts", "n_modes", "shape", "kind", "overlap"),
    [
        ((3,), 3, (12,), "cells", 0.25), ((3,), 3, (12,), "cells", PERIODIC), ((3,), 3, (13,), "nodes", 0.25),
        ((3,), 3, (13,), "nodes", Overlap(0.5, "periodic")), ((2,), 3, (12,), "periodic", Overlap(1 / 3, "periodic")),
        ((2, 3), (2, 3), (4, 6), "cells", 0.5), ((3, 1), 2, (12, 3), "cells", 0.25),
        ((1, 2), 2, (4, 9), "nodes", 0.25), ((2, 3), 2, (4, 6), "periodic", Overlap(0.5, "periodic")),
        ((2, 1, 2), 2, (4, 3, 4), "cells", 0.5),
    ],
)  # fmt: skip
@BOTH
def test_the_definition(make, counts, n_modes, shape, kind, overlap):
    operator = make(counts, n_modes, 2, 1, **SMALL, basis="cosine", overlap=overlap)
    check_literal(randomised(operator, 1), Grid.uniform(shape, kind=kind))


@pytest.mark.parametrize("basis", ["fourier", "extended-fourier"])
@BOTH
def test_the_definition_in_fouriers_basis(make, basis):
    operator = make((2, 3), 2, 1, 2, **SMALL, basis=basis, overlap=0.25)
    check_literal(randomised(operator, 2), Grid.uniform((8, 12), kind="cells"))


# What is exact


def random_points(count, dim):
    return torch.rand(count, dim, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


GRIDS = [
    *(Grid.uniform((17, 23), kind=kind) for kind in ("cells", "nodes", "periodic")),
    Grid.uniform((24, 7), kind="cells"), Grid.uniform(40, kind="periodic"), Grid.uniform((9, 8, 7)),
    Grid.rectilinear(random_points(31, 1)[:, 0], torch.linspace(0, 2, 19, dtype=torch.float64) ** 1.5),
    Grid.scattered(random_points(90, 1)), Grid.scattered(random_points(211, 2)), Grid.scattered(random_points(353, 3)),
]  # fmt: skip


@pytest.mark.parametrize("overlap", [Overlap(0.25), Overlap(0.5), PERIODIC], ids=str)
@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_windows_sum_to_one_and_constants_stay_what_they_are(grid, basis, overlap):
    cover = make_cover(grid, (2, 1, 2)[: grid.dim], overlap)
    transform = transform_on(cover, basis, (4, 3, 2)[: grid.dim], noise(1))
    ones = torch.ones(1, *grid.shape, 1, dtype=torch.float64)
    found = transform.analyse(ones)
    first = torch.zeros_like(found)
    first[:, :, 0] = basis.one**grid.dim  # the function 1, whose blend is sum_j chi_j
    torch.testing.assert_close(found, first, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(transform.synthesise(first), ones, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("overlap", [Overlap(0.25), Overlap(0.5, "periodic")], ids=str)
@pytest.mark.parametrize(("counts", "shape"), [((2,), (16,)), ((2, 3), (8, 12)), ((2, 1, 2), (8, 3, 8))])
def test_points_known_one_by_one_are_the_same_cover(counts, shape, overlap):
    """Cells as scattered points in another order; the two covers have no code in common but the windows."""
    operator = randomised(FANO(counts, 2, 1, 1, **SMALL, basis="extended-fourier", overlap=overlap), 4)
    grid, u = Grid.uniform(shape, kind="cells"), noise(2, 1, *shape)
    order = torch.randperm(u[0, 0].numel(), generator=torch.Generator().manual_seed(5))
    points = Grid.scattered(grid.points.flatten(0, -2)[order], grid.weights.flatten()[order], grid.bounds)
    expected = operator(u, grid).flatten(2)[..., order]
    torch.testing.assert_close(operator(u.flatten(2)[..., order], points), expected, rtol=1e-10, atol=1e-10)


def test_an_axis_in_any_order_and_without_its_kind_is_the_same():
    operator, grid = randomised(FANO((3, 2), 3, 1, 1, **SMALL, overlap=0.25), 4), Grid.uniform((13, 8), kind="nodes")
    order, u = torch.randperm(13, generator=torch.Generator().manual_seed(5)), noise(2, 1, 13, 8)
    other = Grid.rectilinear(grid.axes[0][order], grid.axes[1])
    torch.testing.assert_close(operator(u[:, :, order], other), operator(u, grid)[:, :, order], rtol=1e-10, atol=1e-10)


# The same function on finer grids


@pytest.mark.parametrize("kind", ["cells", "nodes", "periodic", "left"])
@pytest.mark.parametrize("basis", ["fourier", "extended-fourier", "cosine", "legendre"])
def test_order_two(kind, basis):
    operator = randomised(FANO((3,), 3, 1, 1, **SMALL, basis=basis, overlap=0.2), 3)
    refinements, reference = (3, 6) if kind == "cells" else (5, 10)
    assert 1.9 < observed_order(operator, kind, (15,), refinements, reference) < 2.6


@pytest.mark.parametrize(
    ("kind", "overlap"), [("cells", 0.2), ("cells", PERIODIC), ("nodes", 0.3), ("nodes", PERIODIC)]
)
def test_order_two_point_by_point(kind, overlap):
    """Margins of whole points and of parts of a point, by turns."""
    operator = randomised(ViTNO((3,), 3, 1, 1, **SMALL, basis="cosine", overlap=overlap), 3)
    refinements, reference = (3, 6) if kind == "cells" else (5, 10)
    assert 1.9 < observed_order(operator, kind, (15,), refinements, reference) < 2.6


@pytest.mark.parametrize("kind", ["cells", "nodes", "periodic"])
@pytest.mark.parametrize("overlap", [Overlap(0.2), Overlap(0.5), PERIODIC], ids=str)
def test_what_is_cut_is_put_together_again(kind, overlap):
    """7 and 5 points to a patch: margins are whole numbers of points or not."""
    grid = Grid.uniform([n + (kind == "nodes") for n in (21, 5, 10)], kind=kind)
    dilation = make_dilation(make_cover(grid, (3, 1, 2), overlap), noise(1))
    v = noise(2, *grid.shape, 4)
    if kind == "nodes" and overlap == PERIODIC:  # both ends are one point
        v[:, -1], v[:, :, :, -1] = v[:, 0], v[:, :, :, 0]
    pieces = dilation.cut(v)
    torch.testing.assert_close(dilation.blend(pieces), v, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(dilation.weights.sum(), noise(1)[0] * 0 + 1, rtol=1e-13, atol=0)
    assert pieces.shape[1] == 6
    assert len(dilation.weights) == pieces[0, 0, ..., 0].numel()
    # The tables that graphs of all sizes have in place of slices.
    axes = [a if a.share is None else replace(a, tables=index_tables(a, v.device)) for a in dilation.axes]
    by_tables, f = replace(dilation, axes=tuple(axes)), noise(*pieces.shape)
    assert torch.equal(by_tables.cut(v), pieces)
    assert torch.equal(by_tables.blend(f), dilation.blend(f))


def jump_ratio(operator, n):
    grid = Grid.uniform((n, n), kind="cells")
    with torch.no_grad():
        z = operator(u_smooth(grid.points), grid)
    jumps = JumpMean(grid, operator.partition)
    jumps.add(z + 1, torch.ones_like(z))  # differences of z itself
    return jumps.mean().face_ratio


@BOTH
def test_outputs_do_not_jump_between_patches(make):
    """Across faces over inside. Hard: jumps stay while differences inside fall with 1 / n, so the ratio grows with n.

    Blended: the same difference of two patches, spread over a width that belongs to D, so the ratio is one of D.
    """
    hard, blended = (randomised(make((3, 3), 3, 1, 1, **SMALL, basis="cosine", overlap=r), 6) for r in (0, 0.25))
    ratios = {n: (jump_ratio(hard, n), jump_ratio(blended, n)) for n in (24, 96)}
    print(ratios)
    assert ratios[96][0] > 2.5 * ratios[24][0] > 2.5
    assert 1 < ratios[96][1] < 1.1 * ratios[24][1] < 3


@pytest.mark.parametrize(("make", "counts"), [(FANO, (2, 2)), (ViTNO, (3,))])
def test_the_certificate_passes(make, counts):
    torch.manual_seed(0)
    operator = make(counts, 4, 1, 1, hidden_channels=16, n_layers=2, n_heads=2, basis="cosine", overlap=0.25).double()
    certificate = certify(operator)
    print("\n".join(certificate.lines()))
    assert certificate.passed
    assert certificate["refine"].order > 1.9
    verdicts = [check.verdict for check in certificate.checks]
    assert set(verdicts) == ({"passed"} if make is FANO else {"passed", "skipped"})  # other grids


# Files, compilers, precision


@BOTH
def test_files_hold_the_overlap_and_old_ones_have_none(make, tmp_path):
    u, grid = noise(1, 1, 12, 9), Grid.uniform((12, 9), kind="cells")
    for overlap in (0.25, PERIODIC):
        operator = randomised(make((2, 3), 2, 1, 1, **SMALL, overlap=overlap), 9)
        operator.save_pretrained(tmp_path)
        assert torch.equal(operformer.load(tmp_path)(u, grid), operator(u, grid))
    hard = randomised(make((2, 3), 2, 1, 1, **SMALL, overlap=0), 9)
    hard.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["settings"]["overlap"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert torch.equal(operformer.load(tmp_path)(u, grid), hard(u, grid))


@BOTH
@pytest.mark.parametrize("kind", ["cells", "nodes"])
def test_exported_for_all_sizes(make, kind, tmp_path):
    torch.manual_seed(2)
    operator = make((2,), 3, 1, 1, **SMALL, basis="cosine", overlap=0.25)
    program = torch.export.load(export(operator, tmp_path / "fano.pt2", kind)).module()
    session = onnxruntime.InferenceSession(export(operator, tmp_path / "fano.onnx", kind))
    for batch, n in ((1, 26), (3, 6)):
        u = noise(batch, 1, n + (kind == "nodes")).float()
        expected = operator(u, Grid.uniform(u.shape[2:], kind=kind)).detach()
        torch.testing.assert_close(program(u).detach(), expected, rtol=1e-5, atol=1e-5)
        (found,) = session.run(None, {"u": u.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "shape", "kind"),
    [(FANO, (9, 11), "cells"), (FANO, (9, 12), "nodes"), (ViTNO, (10, 9), "cells"), (ViTNO, (9, 10), "nodes")],
)
def test_one_compiled_graph(make, shape, kind):
    operator = make((2, 3), 2, 1, 1, **SMALL, overlap=0.25).double()
    grid, u = Grid.uniform(shape, kind=kind), noise(2, 1, *shape)
    compiled = torch.compile(operator, fullgraph=True, backend="aot_eager", dynamic=False)(u, grid)
    torch.testing.assert_close(compiled, operator(u, grid), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("make", "basis"), [(FANO, "extended-fourier"), (ViTNO, "cosine")])
def test_fused_layers_decline_what_they_do_not_have(make, basis, monkeypatch):
    """Functions that are not orthonormal on a dilated patch, and nodes whose ends are one point."""
    operator = make((3, 3), 3, 1, 1, hidden_channels=32, n_layers=2, n_heads=4, basis=basis, overlap=PERIODIC)
    grid, u = Grid.uniform((19, 25)), noise(2, 1, 19, 25)
    expected = operator.double()(u, grid)
    monkeypatch.setattr(composition, "can_fuse", lambda layers, v: True)
    found = set_precision(operator.float(), torch.float16)(u.float(), grid)
    torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=2e-3 * float(expected.detach().abs().max()))
    assert operformer.backend(operator, grid) == ("layer by layer",)


@pytest.mark.parametrize(
    ("overlap", "message"),
    [
        (0.6, "overlap must be a part of a patch's side, from 0 to 0.5: got 0.6"), (-0.1, "from 0 to 0.5"),
        (True, "a number, or an Overlap, or a Mapping: got True"), ("wide", "overlap must be a number"),
        (float("nan"), "overlap must be finite"),
        ({"margin": 0.2, "continuation": "odd"}, "continuation"), ({"margins": 0.2}, "margin"),
    ],
)  # fmt: skip
def test_wrong_overlaps_are_refused_in_one_line(overlap, message):
    with pytest.raises(UsageError, match=message) as caught:
        FANO((2, 2), 2, 1, 1, **SMALL, overlap=overlap)
    assert "\n" not in str(caught.value)


def test_too_few_points_are_refused_in_one_line():
    operator = FANO((5,), 2, 1, 1, **SMALL, overlap=0.25).double()
    for grid in (Grid.uniform(4), Grid.rectilinear(torch.tensor([0.0, 0.01, 0.02, 0.03, 0.04, 1.0]))):
        with pytest.raises(UsageError, match=r"use (at most|fewer)"):
            operator(noise(1, 1, *grid.shape), grid)
