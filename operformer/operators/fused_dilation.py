"""Dilated patches for fused layers: tables for the kernels that cut and add functions, in half precision."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import pad

from operformer.domain.dilation import AxisDilation, Dilation, index_tables
from operformer.kernels.dilated import add_dilated, cut_dilated

MOST_COPIES = 3  # of a point along an axis: its patch's, a neighbour's, and an image or another neighbour's


@dataclass(frozen=True, eq=False)
class DilatedTables:
    """What the kernels read, for each of three axes, the first ones perhaps of a single point."""

    patches: list[int]
    points: list[int]  # of a dilated patch
    sizes: list[int]  # points of D
    members: list[Tensor]  # (P L,), where the points of patches stand on D
    window: list[Tensor]  # (P L,), chi_j there
    places: list[Tensor]  # (2, n), where the points of D stand among those of patches
    shares: list[Tensor]  # (2, n), chi_j there
    copies: list[Tensor]  # (3, n), all places of a point of D, its images too
    counts: list[Tensor]  # (3, n), 1 for a place, 0 where there is no more

    def cut(self, v: Tensor, padded: int = 0, slots: int = 0) -> Tensor:
        """(functions, n, width) -> (places, points, width); the last functions have more slots than patches."""
        return cut_dilated(v, self.members, [], self.patches, self.points, padded, slots)

    def blend(self, f: Tensor, width: int) -> Tensor:
        """sum_j chi_j f_j: (functions, P, points width) -> (functions, n, width)."""
        return add_dilated(f, self.places, self.shares, self.sizes, width)

    def blend_backward(self, gradient: Tensor) -> Tensor:
        """(functions, n, width) -> (functions P, points, width)."""
        return cut_dilated(gradient, self.members, self.window, self.patches, self.points, 0, 0)

    def cut_backward(self, gradient: Tensor, width: int) -> Tensor:
        """(functions, slots, points width) -> (functions, n, width)."""
        return add_dilated(gradient, self.copies, self.counts, self.sizes, width)


def can_be_fused(dilation: Dilation) -> bool:
    """Nodes on a torus, whose two ends are one point, are left to plain layers; others have tables."""
    return all(axis.is_even or axis.kind != "nodes" for axis in dilation.axes)


def tables_of(dilation: Dilation, device: torch.device) -> DilatedTables:
    """The tables of a dilation, on the device of the kernels."""
    axes = [_AxisTables.of(axis, device) for axis in dilation.axes]
    while len(axes) < 3:
        axes.insert(0, _AxisTables.trivial(1, device))
    patches, points, sizes = ([getattr(axis, name) for axis in axes] for name in ("patches", "points", "n"))

    def offsets(table: Tensor, k: int) -> Tensor:
        """Places along an axis, patch by patch, as places among those of all patches."""
        patch = table // points[k] * prod(patches[k + 1 :]) * prod(points)
        return (patch + table % points[k] * prod(points[k + 1 :])).to(torch.int32).contiguous()

    return DilatedTables(
        patches, points, sizes,
        [(axis.members * prod(sizes[k + 1 :])).to(torch.int32).contiguous() for k, axis in enumerate(axes)],
        [axis.window for axis in axes],
        [offsets(axis.places, k) for k, axis in enumerate(axes)],
        [axis.shares.contiguous() for axis in axes],
        [offsets(axis.copies, k) for k, axis in enumerate(axes)],
        [axis.counts.contiguous() for axis in axes],
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _AxisTables:
    """The tables of one axis, in points of it."""

    patches: int
    points: int
    n: int
    members: Tensor
    window: Tensor
    places: Tensor
    shares: Tensor
    copies: Tensor
    counts: Tensor

    @staticmethod
    def trivial(n: int, device: torch.device) -> _AxisTables:
        """A single patch."""
        here, ones = torch.arange(n, device=device), torch.ones(n, device=device)
        return _AxisTables(1, n, n, here, ones, here[None], ones[None], here[None], ones[None])

    @staticmethod
    def of(axis: AxisDilation, device: torch.device) -> _AxisTables:
        """Those of an axis of dilated patches."""
        if axis.share is None:
            return _AxisTables.trivial(len(axis.weights), device)
        members, other = index_tables(axis, device)
        first = torch.arange(axis.count, device=device).unsqueeze(1) * axis.size + axis.reach
        own = (first + torch.arange(axis.points, device=device)).flatten()
        share = axis.share.float().to(device).flatten()
        if axis.kind == "nodes":  # the last one belongs to the last patch
            end = own[-1:] + 1
            own, other, share = torch.cat([own, end]), torch.cat([other, end]), pad(share, (0, 1), value=1.0)
        n = len(own)
        window = torch.zeros(len(members), device=device).index_add(0, own, share).index_add(0, other, 1 - share)
        ordered, order = torch.sort(members, stable=True)
        here = torch.arange(n, device=device)
        at = torch.searchsorted(ordered, here) + torch.arange(MOST_COPIES, device=device).unsqueeze(1)
        inside = at.clamp(max=len(members) - 1)
        counts = ((at < len(members)) & (ordered[inside] == here)).float()
        places, shares = torch.stack([own, other]), torch.stack([share, 1 - share])
        return _AxisTables(axis.count, axis.size, n, members, window, places, shares, order[inside], counts)
