"""Jumps across the faces between patches (Section 6.2.2): differences between neighbours there and inside patches.

An edge of the grid lies inside if its two points belong to the same patches; otherwise it crosses a face or ends on
one. A point on a face belongs to both patches and has the mean of their values: half of the jump on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from operformer.domain import Grid, inner_product
from operformer.domain.patches import TensorPatches, make_patches
from operformer.domain.quadrature import edges


@dataclass(frozen=True)
class AxisJumps:
    """RMS of z(x_{i+1}) - z(x_i) along an axis, over samples and edges, in units of each truth's RMS over D."""

    axis: int
    error_across: float
    error_inside: float
    truth_across: float
    truth_inside: float


@dataclass(frozen=True)
class FaceJumps:
    """The differences along every axis that has faces, for a partition into ``n_patches``."""

    n_patches: tuple[int, ...]
    along: tuple[AxisJumps, ...]

    @property
    def face_ratio(self) -> float | None:
        """RMS difference of the error across faces over that inside; about 1 if faces are no worse than other places.

        None where the error has no differences inside.
        """
        across = sum(axis.error_across**2 for axis in self.along)
        inside = sum(axis.error_inside**2 for axis in self.along)
        return (across / inside) ** 0.5 if inside else None

    @property
    def truth_ratio(self) -> float | None:
        """The same of the truth, which knows no patches: how far from 1 chance alone leads."""
        across = sum(axis.truth_across**2 for axis in self.along)
        inside = sum(axis.truth_inside**2 for axis in self.along)
        return (across / inside) ** 0.5 if inside else None


class JumpMean:
    """Takes samples into account some at a time.

    Without a partition, on grids whose points are not equispaced (longer edges have larger differences), and where no
    axis has edges of both sorts, there is nothing to compare, and `mean` is None.
    """

    def __init__(self, grid: Grid, n_patches: Sequence[int] | None) -> None:
        self._grid, self._n_patches = grid, tuple(n_patches or ())
        self._crosses = _crossing_edges(grid, self._n_patches) if n_patches else {}
        # Sums of squares over samples for each edge along an axis: error, truth.
        self._sums = {
            k: torch.zeros(2, len(crosses), dtype=torch.float64, device=crosses.device)
            for k, crosses in self._crosses.items()
        }
        self._count = 0

    def add(self, prediction: Tensor, z: Tensor) -> None:
        """Samples (batch, channels, *shape) twice, in float64 and on the grid's device."""
        if not self._crosses:
            return
        unit = self._grid.volume * z.shape[1] / inner_product(z, z, self._grid)
        for k, total in self._sums.items():
            for row, values in zip(total, (prediction - z, z), strict=True):
                squares = edges(values, self._grid, k)[0].square().movedim(k + 2, 1).flatten(2).mean(-1)
                row += torch.einsum("be,b->e", squares, unit)
        self._count += len(z)

    def mean(self) -> FaceJumps | None:
        """The differences of what was added."""
        along = []
        for k, crosses in self._crosses.items():
            across, inside = (
                (self._sums[k][:, chosen].mean(-1) / self._count).sqrt() for chosen in (crosses, ~crosses)
            )
            (error_across, truth_across), (error_inside, truth_inside) = across.tolist(), inside.tolist()
            along.append(AxisJumps(k, error_across, error_inside, truth_across, truth_inside))
        return FaceJumps(self._n_patches, tuple(along)) if along else None


def _crossing_edges(grid: Grid, n_patches: tuple[int, ...]) -> dict[int, Tensor]:
    """For each axis with edges of both sorts: which of them cross a face (edges,)."""
    if not grid.is_uniform:
        return {}
    if any(count >= n for count, n in zip(n_patches, grid.shape, strict=False)):
        return {}  # no patch holds two points
    patches = make_patches(grid, n_patches)
    found = {}
    for k, axis in enumerate(patches.axes if isinstance(patches, TensorPatches) else ()):
        lowest, highest = axis.places.cpu() // axis.members.shape[-1]
        crosses = (lowest != lowest.roll(-1)) | (highest != highest.roll(-1))
        crosses = crosses if grid.kind == "periodic" else crosses[:-1]
        if bool(crosses.any()) and not bool(crosses.all()):
            found[k] = crosses.to(grid.weights.device)
    return found
