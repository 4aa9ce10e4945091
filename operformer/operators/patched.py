"""What the two patched operators share: the check of their settings, and their last layers (Section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from torch import Tensor, nn

from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.operators.integral import SpectralResidual
from operformer.operators.smoothing import Smoothing

SmoothingName = Literal["none", "periodic", "dirichlet", "neumann"]


def check_patches(n_patches: Sequence[int]) -> tuple[int, ...]:
    """One positive number of patches for each of one, two or three axes."""
    if isinstance(n_patches, int) or not 1 <= len(n_patches) <= 3:
        raise UsageError(f"n_patches must be one number for each axis, such as (4, 4): got {n_patches!r}")
    if any(not isinstance(count, int) or isinstance(count, bool) or count < 1 for count in n_patches):
        raise UsageError(f"n_patches must be at least 1 along each axis: got {tuple(n_patches)}")
    return tuple(n_patches)


class LastLayers(nn.Module):
    """z + W z with ``final_modes`` modes (0: without), then smoothing (Remark smoothing): either, both or neither."""

    def __init__(self, dim: int, channels: int, final_modes: int, smoothing: SmoothingName) -> None:
        super().__init__()
        if final_modes < 0:
            raise UsageError(f"final_modes must not be negative: got {final_modes}; 0 leaves the layer out")
        if smoothing not in get_args(SmoothingName):
            raise UsageError(f"smoothing must be one of {', '.join(get_args(SmoothingName))}: got {smoothing!r}")
        self.residual = SpectralResidual(dim, channels, final_modes) if final_modes else None
        self.smoothing = Smoothing(smoothing) if smoothing != "none" else None

    def forward(self, z: Tensor, grid: Grid) -> Tensor:
        """(batch, *shape, channels) -> the same."""
        if self.residual is not None:
            z = self.residual(z, grid)
        return z if self.smoothing is None else self.smoothing(z, grid)


def refuse_query(query: Grid | None, name: str) -> None:
    """Patched operators answer on the points of their input."""
    if query is not None:
        raise UsageError(f"{name} gives its output on the grid of the input: leave query= out, or use a TNO")
