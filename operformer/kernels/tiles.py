"""Tiles of points, rows of the latent function or values by heads: where they stand, how they are loaded and stored."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def tile_of(number, points, channels: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """The patch of a tile, its first point there, where its first row begins, and which of its rows are points."""
    tiles = tl.cdiv(points, block)
    patch = number // tiles
    first = (number - patch * tiles) * block
    wide = tl.program_id(0).to(tl.int64) * 0  # an address may need more than 32 bits
    start = ((patch + wide) * points + first) * channels
    return patch, first, start, (first + tl.arange(0, block) < points)[:, None]


@triton.jit
def rows_of(channels: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """The offsets of a tile in (rows, channels)."""
    return tl.arange(0, block)[:, None] * channels + tl.arange(0, channels)[None, :]


@triton.jit
def head_start(patch, first, points, patches, slots, heads: tl.constexpr, width: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where the points of a patch, from ``first`` on, begin in (batch, heads, slots, points, width)."""
    sample = patch // patches
    wide = tl.program_id(0).to(tl.int64) * 0
    slot = (sample + wide) * heads * slots + (patch - sample * patches)
    return (slot * points + first) * width


@triton.jit
def heads_of(points, slots, channels: tl.constexpr, width: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """The offsets of a tile in (batch, heads, slots, points, width)."""
    column = tl.arange(0, channels)
    across = (column // width)[None, :] * (slots * points * width) + (column % width)[None, :]
    return across + tl.arange(0, block)[:, None] * width


@triton.jit
def _turned(first, points, slots, heads: tl.constexpr, width: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """The offsets (heads, block width) of a tile that is turned, and which of them are points."""
    along = tl.arange(0, block * width)[None, :]
    return tl.arange(0, heads)[:, None] * (slots * points * width) + along, along // width < points - first


@triton.jit
def take_heads(at, first, points, slots, channels: tl.constexpr, width: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Load a tile of rows, the first of which begins at ``at`` in (heads, slots, points, width), head after head."""
    heads: tl.constexpr = channels // width
    offsets, present = _turned(first, points, slots, heads, width, block)
    y = tl.load(at + offsets, present, 0.0)
    return tl.reshape(tl.permute(tl.reshape(y, (heads, block, width)), (1, 0, 2)), (block, channels))


@triton.jit
def put_heads(y, to, first, points, slots, channels: tl.constexpr, width: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Store a tile of rows, the first of which begins at ``to`` in (heads, slots, points, width), head after head."""
    heads: tl.constexpr = channels // width
    y = tl.reshape(y.to(tl.float16), (block, heads, width))
    y = tl.reshape(tl.permute(y, (1, 0, 2)), (heads, block * width))
    offsets, present = _turned(first, points, slots, heads, width, block)
    tl.store(to + offsets, y, present)


def half(weight: Tensor) -> Tensor:
    """A matrix in half precision, row by row."""
    return weight.to(torch.float16).contiguous()
