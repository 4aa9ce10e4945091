"""Dilated patches by their kernels, beside the slices of the domain."""

import pytest
import torch

from operformer import Grid, Overlap
from operformer.domain.blending import make_cover
from operformer.domain.dilation import make_dilation

pytestmark = pytest.mark.kernels

CASES = [
    ((3,), (15,), "cells", Overlap(0.5)), ((2, 3), (6, 12), "cells", Overlap(0.25)),
    ((3, 1), (13, 4), "nodes", Overlap(0.3)),
    ((2, 1, 3), (6, 2, 9), "periodic", Overlap(0.5, "periodic")), ((2,), (6,), "periodic", Overlap(0.25)),
]  # fmt: skip


@pytest.mark.parametrize(("counts", "shape", "kind", "overlap"), CASES, ids=str)
def test_cut_and_blended_like_slices_and_their_gradients(device, counts, shape, kind, overlap):
    from operformer.operators.fused_dilation import can_be_fused, tables_of

    cover = make_cover(Grid.uniform(shape, kind=kind), counts, overlap)
    dilation = make_dilation(cover, torch.zeros(1, dtype=torch.float64))
    tables, width, functions = tables_of(dilation, torch.device(device)), 4, 2
    assert can_be_fused(dilation)
    torch.manual_seed(0)
    v = torch.randn(functions, *shape, width, dtype=torch.float64).half().double().requires_grad_()
    pieces = dilation.cut(v)  # (functions, P, *points, width)
    patches, size = pieces.shape[1], len(dilation.weights)
    f = torch.randn_like(pieces).half().double().requires_grad_()
    blended = dilation.blend(f)
    dp, dz = torch.randn_like(pieces).half().double(), torch.randn_like(blended).half().double()
    expected = (pieces, blended, *torch.autograd.grad(pieces, v, dp), *torch.autograd.grad(blended, f, dz))

    def on(t, *sizes):
        return t.detach().half().to(device).reshape(functions, *sizes)

    n = v[0, ..., 0].numel()
    found = (
        tables.cut(on(v, n, width)), tables.blend(on(f, patches, size * width), width),
        tables.cut_backward(on(dp, patches, size * width), width), tables.blend_backward(on(dz, n, width)),
    )  # fmt: skip
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.double().cpu().flatten(), theirs.detach().flatten(), rtol=2e-3, atol=2e-3)
    padded = tables.cut(on(v, n, width), padded=1, slots=8).cpu()
    torch.testing.assert_close(padded[: 2 * patches].double().flatten(), pieces.detach().flatten())
    assert len(padded) == patches + 8
    assert not bool(padded[2 * patches :].any())
