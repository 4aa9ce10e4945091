"""The kernels of small_heads.py: one tile of queries or of keys each, the other points in a loop.

Scores stand in base 2, so that exp is one instruction: scale log2(e) <q_i, k_j> + log2 w_j. No step of a loop asks
which points are there: rows behind the last one are computed and not stored, the last columns are a step of their own,
before the loop: behind it, it made the compiler wait for every product of the loop.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _block(start, first, points, stride, width: tl.constexpr, block: tl.constexpr, masked: tl.constexpr):  # type: ignore[no-untyped-def]
    """The points of a block (block, width) from ``first`` on, with zeros behind the last one."""
    row = first + tl.arange(0, block)
    there = start + row[:, None] * stride + tl.arange(0, width)[None, :]
    if masked:
        return tl.load(there, row[:, None] < points, 0.0)
    return tl.load(there)


@triton.jit
def _numbers(start, first, points, absent, block: tl.constexpr, masked: tl.constexpr):  # type: ignore[no-untyped-def]
    """One number for each point of a block, ``absent`` behind the last one."""
    row = first + tl.arange(0, block)
    if masked:
        return tl.load(start + row, row < points, absent)
    return tl.load(start + row)


@triton.jit
def _place(points, heads, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """The sample and the head of this program, their common number, and the first point of its tile."""
    tiles = tl.cdiv(points, block)
    number = tl.program_id(0) // tiles
    first = (tl.program_id(0) - number * tiles) * block
    sample = number // heads
    # An address may need more than 32 bits.
    return sample.to(tl.int64), (number - sample * heads).to(tl.int64), number.to(tl.int64), first


@triton.jit
def _average_step(  # type: ignore[no-untyped-def]
    q, highest, mass, total, k0, v0, w0, first, m, k_n, v_n, scale,
    width: tl.constexpr, keys: tl.constexpr, weighted: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    """sum_j p_ij and sum_j p_ij v_j, p_ij = 2^(s_ij - highest_i), over one more block of keys."""
    k = _block(k0, first, m, k_n, width, keys, masked)
    s = tl.dot(q, tl.trans(k))
    if weighted:
        s = s * scale + _numbers(w0, first, m, -float("inf"), keys, masked)[None, :]
        higher = tl.maximum(highest, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
    else:
        if masked:
            s = tl.where((first + tl.arange(0, keys) < m)[None, :], s, -float("inf"))
        higher = tl.maximum(highest, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - higher[:, None])
    shrunk = tl.exp2(highest - higher)
    v = _block(v0, first, m, v_n, width, keys, masked)
    mass = mass * shrunk + tl.sum(p, 1)
    total = tl.dot(p.to(v.dtype), v, total * shrunk[:, None])
    return higher, mass, total


@triton.jit
def average_kernel(  # type: ignore[no-untyped-def]
    query, key, value, weights, out, logarithm, every, every_sum, scale, most, n, m, heads,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, w_b, w_h,
    width: tl.constexpr, queries: tl.constexpr, keys: tl.constexpr, stages: tl.constexpr,
    weighted: tl.constexpr, even: tl.constexpr, less: tl.constexpr,
):  # fmt: skip
    """a_i = sum_j p_ij v_j and log2 sum_j w_j exp(scale <q_i, k_j>) for a tile of queries.

    If ``less``, these sums are taken away from those of the average ``every``, as mending.py explains.
    """
    sample, head, number, mine = _place(n, heads, queries)
    k0, v0, w0 = key + sample * k_b + head * k_h, value + sample * v_b + head * v_h, weights + sample * w_b + head * w_h
    q = _block(query + sample * q_b + head * q_h, mine, n, q_n, width, queries, True)
    highest = tl.full([queries], -float("inf"), tl.float32)
    mass = tl.zeros([queries], tl.float32)
    total = tl.zeros([queries, width], tl.float32)
    whole = m // keys * keys
    if not even:
        highest, mass, total = _average_step(
            q, highest, mass, total, k0, v0, w0, whole, m, k_n, v_n, scale, width, keys, weighted, True
        )
    for first in tl.range(0, whole, keys, num_stages=stages):
        highest, mass, total = _average_step(
            q, highest, mass, total, k0, v0, w0, first, m, k_n, v_n, scale, width, keys, weighted, False
        )
    row = mine + tl.arange(0, queries)
    there = number * n * width + row[:, None] * width + tl.arange(0, width)[None, :]
    average, power = total / mass[:, None], highest + tl.log2(mass)
    if less:
        natural = tl.load(every_sum + number * n + row, row < n, 0.0)
        # Rounding must not bring it to 1, whatever the scores.
        ratio = tl.minimum(tl.exp2(power - natural * 1.4426950408889634), most)
        share = (ratio / (1 - ratio))[:, None]
        average = tl.load(every + there, row[:, None] < n, 0.0).to(tl.float32) * (1 + share) - average * share
        power = natural + tl.log2(1 - ratio) * 0.6931471805599453
    tl.store(out + there, average.to(out.dtype.element_ty), row[:, None] < n)
    tl.store(logarithm + number * n + row, power, row < n)


@triton.jit
def slope_kernel(  # type: ignore[no-untyped-def]
    d_out, out, logarithm, slope, lowered, shift, n, heads, g_b, g_h, g_n,
    width: tl.constexpr, queries: tl.constexpr,
):  # fmt: skip
    """sum_c da_ic a_ic, which every score's gradient has taken away, and the logarithms less ``shift``."""
    sample, head, number, mine = _place(n, heads, queries)
    g = _block(d_out + sample * g_b + head * g_h, mine, n, g_n, width, queries, True)
    a = _block(out + number * n * width, mine, n, width, width, queries, True)
    row = mine + tl.arange(0, queries)
    tl.store(slope + number * n + row, tl.sum(g.to(tl.float32) * a.to(tl.float32), 1), row < n)
    there = number * n + row
    tl.store(lowered + there, tl.load(logarithm + there, row < n, 0.0) - shift, row < n)


@triton.jit
def _query_step(  # type: ignore[no-untyped-def]
    q, g, lowered, slope, total, k0, v0, w0, first, m, k_n, v_n, scale,
    width: tl.constexpr, keys: tl.constexpr, weighted: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    """sum_j p_ij (<da_i, v_j> - slope_i) k_j over one more block of keys."""
    k = _block(k0, first, m, k_n, width, keys, masked)
    v = _block(v0, first, m, v_n, width, keys, masked)
    s = tl.dot(q, tl.trans(k)) * scale - lowered[:, None]
    if weighted:
        s += _numbers(w0, first, m, -float("inf"), keys, masked)[None, :]
    elif masked:
        s = tl.where((first + tl.arange(0, keys) < m)[None, :], s, -float("inf"))
    ds = tl.exp2(s) * (tl.dot(g, tl.trans(v)) - slope[:, None])
    return tl.dot(ds.to(k.dtype), k, total)


@triton.jit
def query_kernel(  # type: ignore[no-untyped-def]
    query, key, value, weights, d_out, lowered, slope, d_query, scale, factor, n, m, heads,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, w_b, w_h, g_b, g_h, g_n,
    width: tl.constexpr, queries: tl.constexpr, keys: tl.constexpr, stages: tl.constexpr,
    weighted: tl.constexpr, even: tl.constexpr, less: tl.constexpr,
):  # fmt: skip
    """The gradient of a tile of queries; if ``less``, it is taken away from the one that is there."""
    sample, head, number, mine = _place(n, heads, queries)
    k0, v0, w0 = key + sample * k_b + head * k_h, value + sample * v_b + head * v_h, weights + sample * w_b + head * w_h
    q = _block(query + sample * q_b + head * q_h, mine, n, q_n, width, queries, True)
    g = _block(d_out + sample * g_b + head * g_h, mine, n, g_n, width, queries, True)
    low = _numbers(lowered + number * n, mine, n, float("inf"), queries, True)
    slopes = _numbers(slope + number * n, mine, n, 0.0, queries, True)
    total = tl.zeros([queries, width], tl.float32)
    whole = m // keys * keys
    if not even:
        total = _query_step(
            q, g, low, slopes, total, k0, v0, w0, whole, m, k_n, v_n, scale, width, keys, weighted, True
        )
    for first in tl.range(0, whole, keys, num_stages=stages):
        total = _query_step(
            q, g, low, slopes, total, k0, v0, w0, first, m, k_n, v_n, scale, width, keys, weighted, False
        )
    row = mine + tl.arange(0, queries)
    there = d_query + number * n * width + row[:, None] * width + tl.arange(0, width)[None, :]
    total *= factor
    if less:
        total = tl.load(there, row[:, None] < n, 0.0).to(tl.float32) - total
    tl.store(there, total.to(d_query.dtype.element_ty), row[:, None] < n)


@triton.jit
def _key_step(  # type: ignore[no-untyped-def]
    k, v, bias, d_key, d_value, q0, g0, lowered, slope, d_query, first, n, q_n, g_n, scale,
    width: tl.constexpr, queries: tl.constexpr, biased: tl.constexpr, joint: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    """sum_i p_ij (<da_i, v_j> - slope_i) q_i and sum_i p_ij da_i over one more block of queries."""
    q = _block(q0, first, n, q_n, width, queries, masked)
    g = _block(g0, first, n, g_n, width, queries, masked)
    s = tl.dot(k, tl.trans(q)) * scale - _numbers(lowered, first, n, float("inf"), queries, masked)[None, :]
    if biased:
        s += bias[:, None]
    p = tl.exp2(s)
    d_value = tl.dot(p.to(g.dtype), g, d_value)
    ds = p * (tl.dot(v, tl.trans(g)) - _numbers(slope, first, n, 0.0, queries, masked)[None, :])
    ds = ds.to(q.dtype)
    d_key = tl.dot(ds, q, d_key)
    if joint:
        row = first + tl.arange(0, queries)
        there = d_query + row[:, None] * width + tl.arange(0, width)[None, :]
        if masked:
            tl.atomic_add(there, tl.dot(tl.trans(ds), k), row[:, None] < n, sem="relaxed")
        else:
            tl.atomic_add(there, tl.dot(tl.trans(ds), k), sem="relaxed")
    return d_key, d_value


@triton.jit
def key_kernel(  # type: ignore[no-untyped-def]
    query, key, value, weights, d_out, lowered, slope, d_query, d_key, d_value, scale, key_factor, value_factor,
    n, m, heads, q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, w_b, w_h, g_b, g_h, g_n,
    width: tl.constexpr, queries: tl.constexpr, keys: tl.constexpr, stages: tl.constexpr,
    weighted: tl.constexpr, even: tl.constexpr, biased: tl.constexpr, joint: tl.constexpr, parted: tl.constexpr,
):  # fmt: skip
    """The gradients of a tile of keys and values; if ``joint``, its part of those of all queries is added to them.

    If ``parted``, those of a part of the queries, as many parts as there are programs along the second axis.
    """
    sample, head, number, mine = _place(m, heads, keys)
    q0, g0 = query + sample * q_b + head * q_h, d_out + sample * g_b + head * g_h
    low0, slope0, d_query0 = lowered + number * n, slope + number * n, d_query + number * n * width
    k = _block(key + sample * k_b + head * k_h, mine, m, k_n, width, keys, True)
    v = _block(value + sample * v_b + head * v_h, mine, m, v_n, width, keys, True)
    row = mine + tl.arange(0, keys)
    if weighted:
        bias = _numbers(weights + sample * w_b + head * w_h, mine, m, -float("inf"), keys, True)
    else:
        bias = tl.where(row < m, 0.0, -float("inf"))
    dk = tl.zeros([keys, width], tl.float32)
    dv = tl.zeros([keys, width], tl.float32)
    whole = n // queries * queries
    begin, end, rest = 0, whole, whole
    if parted:
        span = tl.cdiv(n // queries, tl.num_programs(1)) * queries
        begin = tl.program_id(1) * span
        end = tl.minimum(begin + span, whole)
        rest = tl.where(tl.program_id(1) == 0, whole, n)  # from n on there are no queries, which add nothing
        number += tl.program_id(1) * (tl.num_programs(0) // tl.cdiv(m, keys))
    if not even:
        dk, dv = _key_step(
            k, v, bias, dk, dv, q0, g0, low0, slope0, d_query0, rest, n, q_n, g_n, scale,
            width, queries, biased, joint, True,
        )  # fmt: skip
    for first in tl.range(begin, end, queries, num_stages=stages):
        dk, dv = _key_step(
            k, v, bias, dk, dv, q0, g0, low0, slope0, d_query0, first, n, q_n, g_n, scale,
            width, queries, biased, joint, False,
        )  # fmt: skip
    there = number * m * width + row[:, None] * width + tl.arange(0, width)[None, :]
    tl.store(d_key + there, (dk * key_factor).to(d_key.dtype.element_ty), row[:, None] < m)
    tl.store(d_value + there, (dv * value_factor).to(d_value.dtype.element_ty), row[:, None] < m)
