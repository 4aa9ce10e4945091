"""Meshes: points with cells, and functions that are linear on each cell (P1): integrals, gradients, values.

A cell is a simplex: an interval on a line, a triangle in the plane, a tetrahedron in space.
"""

# DESIGN.md: A mesh integrates functions that are linear on its cells

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import Any

import torch
from torch import Tensor

from operformer.domain.box import as_numbers
from operformer.errors import UsageError

BEYOND = 0.05  # of a cell's height: how far outside a point still counts as inside, for chords of a curved boundary
FLAT = 1e-12  # of the mean volume: cells below it have no gradient and no mass


@dataclass(frozen=True, eq=False)
class Cells:
    """The simplices of a mesh, and what integrals and gradients need of them.

    Args:
        corners: (M, d + 1), the numbers of the points at the corners of each cell.
        volumes: (M,), float64.
        inverse: (M, d, d), float64: from differences to the first corner to the gradient.
    """

    corners: Tensor
    volumes: Tensor
    inverse: Tensor

    @staticmethod
    def of(points: Tensor, given: Any) -> Cells:
        """The cells between points (N, d), compared with them; cells without volume are left out."""
        corners, dim = as_numbers(given, "cells"), points.shape[1]
        if corners.ndim != 2 or corners.shape[1] != dim + 1 or corners.is_floating_point() or not len(corners):
            raise UsageError(
                f"cells must be whole numbers (M, {dim + 1}), the corners of a cell in each row: got "
                f"{corners.dtype} of shape {tuple(corners.shape)}"
            )
        corners = corners.to(points.device, torch.long)
        if int(corners.min()) < 0 or int(corners.max()) >= len(points):
            bad = int(corners.max()) if int(corners.max()) >= len(points) else int(corners.min())
            raise UsageError(f"corners of cells are the points 0 to {len(points) - 1}: got {bad}")
        edges = _edges(points, corners)
        volumes = torch.linalg.det(edges).abs() / factorial(dim)
        is_flat = volumes <= FLAT * volumes.mean()
        if bool(is_flat.all()):
            raise UsageError("the cells of the mesh have no volume; check its points")
        kept = ~is_flat
        return Cells(corners[kept], volumes[kept], torch.linalg.inv(edges[kept]))

    def to(self, device: torch.device | str) -> Cells:
        """The same cells, their tensors on another device."""
        return Cells(self.corners.to(device), self.volumes.to(device), self.inverse.to(device))

    def weights(self, count: int) -> Tensor:
        """The lumped masses of ``count`` points (count,): the integrals of their hat functions.

        sum_i w_i u(x_i) is the integral of the function with these values that is linear on each cell, exactly. A point
        without cells has weight zero.
        """
        share = (self.volumes / self.corners.shape[1]).unsqueeze(1).expand(self.corners.shape)
        return torch.zeros_like(self.volumes[:1]).expand(count).scatter_add(0, self.corners.flatten(), share.flatten())

    def energy(self, u: Tensor) -> Tensor:
        """The integral of |grad u|^2 for u linear on each cell: (..., N) -> (...)."""
        on_corners = u[..., self.corners.to(u.device)]
        differences = on_corners[..., 1:] - on_corners[..., :1]
        slopes = torch.einsum("tij,...tj->...ti", self.inverse.to(u), differences)
        return slopes.square().sum(-1) @ self.volumes.to(u)

    def find(self, points: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The cell of each wanted point (n, d) among points (N, d): corners, shares, and whether there is one.

        A point outside of all cells gets the nearest point of the mesh.
        """
        import numpy as np
        from scipy.spatial import cKDTree  # here: it takes a fifth of torch's time to import

        corners, points, wanted = self.corners.cpu(), points.cpu(), wanted.cpu()
        centres = points[corners].mean(1)
        reach = (1 + 2 * BEYOND) * (points[corners] - centres.unsqueeze(1)).norm(dim=-1).amax(1)
        near = cKDTree(wanted.numpy()).query_ball_point(centres.numpy(), reach.numpy())
        cell = torch.from_numpy(np.repeat(np.arange(len(near)), [len(one) for one in near]))
        point = torch.tensor([k for one in near for k in one], dtype=torch.long)
        from_first = (wanted[point] - points[corners[cell, 0]]).unsqueeze(1)
        rest = (from_first @ self.inverse.cpu()[cell]).squeeze(1)
        shares = torch.cat([1 - rest.sum(-1, keepdim=True), rest], -1)
        # Of several cells that reach to a point the one that it lies deepest in.
        depth = shares.amin(-1)
        best = torch.full((len(wanted),), -torch.inf, dtype=depth.dtype).scatter_reduce(0, point, depth, "amax")
        chosen = torch.zeros(len(wanted), dtype=torch.long)
        is_best = depth == best[point]
        chosen[point[is_best]] = is_best.nonzero().squeeze(1)
        is_inside = best >= -BEYOND
        if not len(point):  # nothing to choose from
            cell, shares = cell.new_zeros(1), shares.new_zeros(1, corners.shape[1])
        nearest = torch.from_numpy(cKDTree(points.numpy()).query(wanted.numpy())[1]).long()
        first = torch.eye(corners.shape[1], dtype=shares.dtype)[0]
        inside, share = is_inside.unsqueeze(-1), shares[chosen].clamp(min=0)
        share = (share / share.sum(-1, keepdim=True)).where(inside, first)
        return corners[cell[chosen]].where(inside, nearest.unsqueeze(-1)), share, is_inside


def _edges(points: Tensor, corners: Tensor) -> Tensor:
    """From the first corner of each cell to the others: (M, d, d)."""
    return points[corners[:, 1:]] - points[corners[:, :1]]
