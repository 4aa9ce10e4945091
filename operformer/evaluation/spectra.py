"""Where in wave number an operator errs: energies of truth, prediction and error by shell, mean over samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from operformer.domain import Grid, inner_product
from operformer.domain.spectra import TransformName, choose_transform, coefficients, shell_width, shells, sum_shells


@dataclass(frozen=True)
class ErrorSpectrum:
    """Energies by shell as shares of each sample's ||z||^2, mean over samples: the truth's sum to 1.

    The error's sum to the mean square of the relative L2 errors. ``wave_numbers`` are radians per unit of length.
    """

    transform: TransformName
    wave_numbers: tuple[float, ...]
    truth: tuple[float, ...]
    prediction: tuple[float, ...]
    error: tuple[float, ...]


class SpectrumMean:
    """Takes samples into account some at a time; None is made of grids whose points are not equispaced."""

    def __init__(self, grid: Grid, is_periodic: bool) -> None:
        self._grid, self._transform = grid, choose_transform(grid, is_periodic)
        # Sums over samples for each wave vector: truth, prediction, error.
        self._sums = torch.zeros(3, *grid.shape, dtype=torch.float64, device=grid.weights.device)
        self._count = 0

    def add(self, prediction: Tensor, z: Tensor) -> None:
        """Samples (batch, channels, *shape) twice, in float64 and on the grid's device."""
        if self._transform is None:
            return
        unit = inner_product(z, z, self._grid).reciprocal()
        truth = coefficients(z, self._grid, self._transform)
        found = coefficients(prediction, self._grid, self._transform)
        for total, entries in zip(self._sums, (truth, found, found - truth), strict=True):
            total += torch.einsum("bc...,b->...", entries.abs().square(), unit)
        self._count += len(z)

    def mean(self) -> ErrorSpectrum | None:
        """The energies of what was added."""
        if self._transform is None:
            return None
        energies = sum_shells(self._sums / self._count, shells(self._grid, self._transform)).tolist()
        width = shell_width(self._grid, self._transform)
        wave_numbers = tuple(width * shell for shell in range(len(energies[0])))
        return ErrorSpectrum(self._transform, wave_numbers, *map(tuple, energies))
