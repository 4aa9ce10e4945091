"""Mean, standard deviation and root mean square of functions over D and over samples, some samples at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from operformer.domain.grid import Grid


class Moments:
    """Moments of each channel with the weights of the samples' grids; NaN before anything was added.

    The squares about the mean of two parts together are those of each and n m / (n + m) (difference of the means)^2.
    """

    def __init__(self, channels: int) -> None:
        self._mean = torch.zeros(channels, dtype=torch.float64)
        self._squares = torch.zeros(channels, dtype=torch.float64)
        self._counted = 0

    def add(self, values: Tensor, grid: Grid) -> None:
        """Take samples (count, channels, *shape) on a grid into account; of a ragged one each counts the same."""
        count = len(values)
        if not count:
            return
        flat, weights = values.flatten(2).double(), _shares(grid).to(values.device)
        over = "bcn,n->c" if grid.counts is None else "bcn,bn->c"
        mean = torch.einsum(over, flat, weights) / count
        squares = torch.einsum(over, (flat - mean[:, None]).square(), weights)
        share, difference = count / (self._counted + count), mean.cpu() - self._mean
        self._mean += share * difference
        self._squares += squares.cpu() + self._counted * share * difference.square()
        self._counted += count

    @property
    def mean(self) -> Tensor:
        """(channels,), float64."""
        return self._mean if self._counted else torch.full_like(self._mean, torch.nan)

    @property
    def std(self) -> Tensor:
        """(channels,), float64."""
        return (self._squares / (self._counted or torch.nan)).sqrt()

    @property
    def root_mean_square(self) -> Tensor:
        """(channels,), float64: the deviation from zero."""
        return (self.std.square() + self.mean.square()).sqrt()


def _shares(grid: Grid) -> Tensor:
    """Weights that sum to one, (N,) or (count, N)."""
    if grid.counts is None:
        return (grid.weights / grid.weights.sum()).flatten()
    return (grid.weights / grid.weights.sum(-1, keepdim=True)).squeeze(1)
