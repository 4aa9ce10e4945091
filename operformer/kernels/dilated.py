"""Functions on D cut into functions on dilated patches, and these added up on D, in half precision.

    cut:   f(p, l) = w(p) v(x(p, l)),     added:   v(x) = sum_k w_k(x) f(p_k(x), l_k(x))

Each is the other's adjoint. Indices and weights are products over the axes, of which there are three, the first ones
perhaps of a single point. An axis has tables: where to read, and with which weight. Nothing is added in memory, so the
sums have one order at every call. Functions are those of `project_heads`, and slots the places of its patches.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, WARPS = 64, 4


@triton.jit
def _cut_kernel(  # type: ignore[no-untyped-def]
    v, out, m0, m1, m2, w0, w1, w2, size, slots, patches, points,
    p1, p2, l0, l1, l2, weighted: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """A tile of points of patches of functions (functions, slots, points, width); zero beyond the patches."""
    tiles = tl.cdiv(size, block)
    place = tl.program_id(0) // tiles
    local = (tl.program_id(0) - place * tiles) * block + tl.arange(0, block)
    function = place // slots
    patch = place - function * slots
    inside = local < size
    present = local < tl.where(patch < patches, size, 0)
    k2 = local % l2 + patch % p2 * l2
    k1 = local // l2 % l1 + patch // p2 % p1 * l1
    k0 = local // (l2 * l1) + patch // (p2 * p1) * l0
    at = tl.load(m0 + k0, present, 0) + tl.load(m1 + k1, present, 0) + tl.load(m2 + k2, present, 0)
    column = tl.arange(0, width)
    wide = tl.program_id(0).to(tl.int64) * 0  # an address may need more than 32 bits
    start = ((function + wide) * points + at) * width
    x = tl.load(v + start[:, None] + column[None, :], present[:, None], 0.0)
    if weighted:
        w = tl.load(w0 + k0, present, 0.0) * tl.load(w1 + k1, present, 0.0) * tl.load(w2 + k2, present, 0.0)
        x = (x.to(tl.float32) * w[:, None]).to(tl.float16)
    there = ((place + wide) * size + local) * width
    tl.store(out + there[:, None] + column[None, :], x, inside[:, None])


@triton.jit
def _add_kernel(  # type: ignore[no-untyped-def]
    f, out, a0, a1, a2, w0, w1, w2, points, stride, n0, n1, n2,
    c0: tl.constexpr, c1: tl.constexpr, c2: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """A tile of points of D of functions: of each point up to c0 c1 c2 places are added."""
    tiles = tl.cdiv(points, block)
    function = tl.program_id(0) // tiles
    point = (tl.program_id(0) - function * tiles) * block + tl.arange(0, block)
    x2 = point % n2
    x1 = point // n2 % n1
    x0 = point // (n2 * n1)
    present = point < points
    wide = function + tl.program_id(0).to(tl.int64) * 0  # an address may need more than 32 bits
    column = tl.arange(0, width)
    total = tl.zeros([block, width], tl.float32)
    for i in tl.static_range(c0):
        at0 = tl.load(a0 + i * n0 + x0, present, 0)
        share0 = tl.load(w0 + i * n0 + x0, present, 0.0)
        for j in tl.static_range(c1):
            at1 = at0 + tl.load(a1 + j * n1 + x1, present, 0)
            share1 = share0 * tl.load(w1 + j * n1 + x1, present, 0.0)
            for k in tl.static_range(c2):
                share = share1 * tl.load(w2 + k * n2 + x2, present, 0.0)
                start = (wide * stride + at1 + tl.load(a2 + k * n2 + x2, present, 0)) * width
                x = tl.load(f + start[:, None] + column[None, :], (share > 0.0)[:, None], 0.0)
                total += share[:, None] * x.to(tl.float32)
    there = (wide * points + point) * width
    tl.store(out + there[:, None] + column[None, :], total.to(tl.float16), present[:, None])


@torch.library.custom_op("operformer::cut_dilated", mutates_args=())
def cut_dilated(
    v: Tensor, members: list[Tensor], weights: list[Tensor], patches: list[int], points: list[int], padded: int,
    slots: int,
) -> Tensor:  # fmt: skip
    """(functions, n, width) on D -> (places, points of a patch, width), function by function, patch by patch.

    ``members`` of each axis add up to a point of D. ``weights`` of each axis may be empty: all are 1. The last
    ``padded`` functions have ``slots`` places, of which those beyond the patches are zero.
    """
    (functions, n, width), size = v.shape, points[0] * points[1] * points[2]
    count = patches[0] * patches[1] * patches[2]
    plain = functions - padded
    out = v.new_empty(plain * count + padded * slots, size, width)
    given = weights or members  # not read
    parts = ((v[:plain], out[: plain * count], count), (v[plain:], out[plain * count :], slots))
    for source, there, own in parts:
        if len(there):
            _cut_kernel[(len(there) * triton.cdiv(size, ROWS),)](
                source, there, *members, *given, size, own, count, n, patches[1], patches[2], *points,
                weighted=bool(weights), width=width, block=ROWS, num_warps=WARPS,
            )  # fmt: skip
    return out


@cut_dilated.register_fake
def _(
    v: Tensor, members: list[Tensor], weights: list[Tensor], patches: list[int], points: list[int], padded: int,
    slots: int,
) -> Tensor:  # fmt: skip
    places = (len(v) - padded) * patches[0] * patches[1] * patches[2] + padded * slots
    return v.new_empty(places, points[0] * points[1] * points[2], v.shape[-1])


@torch.library.custom_op("operformer::add_dilated", mutates_args=())
def add_dilated(f: Tensor, places: list[Tensor], weights: list[Tensor], sizes: list[int], width: int) -> Tensor:
    """(functions, slots, points of a patch times width) -> (functions, n, width) on D.

    ``places`` (K_k, n_k) of each axis add up to the place of a point among those of all slots.
    """
    functions, stride = len(f), f[0].numel() // width
    n = sizes[0] * sizes[1] * sizes[2]
    out = f.new_empty(functions, n, width)
    counts = [len(place) for place in places]
    _add_kernel[(functions * triton.cdiv(n, ROWS),)](
        f, out, *places, *weights, n, stride, *sizes,
        c0=counts[0], c1=counts[1], c2=counts[2], width=width, block=ROWS, num_warps=WARPS,
    )  # fmt: skip
    return out


@add_dilated.register_fake
def _(f: Tensor, places: list[Tensor], weights: list[Tensor], sizes: list[int], width: int) -> Tensor:
    return f.new_empty(len(f), sizes[0] * sizes[1] * sizes[2], width)
