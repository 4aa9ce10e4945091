"""Gaussian measures on functions (Section 6.2): the laws behind Darcy and Kolmogorov flow."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf, sqrt
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.domain.basis import Basis, Cosine, Fourier
from operformer.domain.box import Bounds, checked_bounds
from operformer.domain.transform import axis_points, expand
from operformer.errors import UsageError
from operformer.problems.problem import check_draws, stream
from operformer.settings import check_fields

_BASES: dict[str, Basis] = {"neumann": Cosine(), "periodic": Fourier()}


@dataclass(frozen=True)
class GaussianMeasure:
    """N(0, C), C = scale (-Laplace + tau^2)^-alpha on functions of mean zero over a box D.

    A draw is sum_k sqrt(lambda_k) xi_k phi_k, xi_k ~ N(0, 1). The phi_k are the eigenfunctions of the Laplacian,
    orthonormal in L2(D). A draw is stored as its coefficients, so it can be read at any point.

    Args:
        scale, tau, alpha: of C. Larger alpha is smoother; 1 / tau is the correlation length.
        n_modes: m; wave numbers with |k_j| < m are kept.
        boundary: "neumann" for products of cosines, "periodic" for cosines and sines.
        bounds: the box D.
    """

    scale: float
    tau: float
    alpha: float
    n_modes: int
    boundary: Literal["neumann", "periodic"] = "neumann"
    bounds: Bounds = ((0.0, 1.0), (0.0, 1.0))

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)
        for name in ("scale", "tau", "alpha"):
            if not 0 < getattr(self, name) < inf:
                raise UsageError(f"{name} must be positive and finite: got {getattr(self, name)}")
        if self.n_modes < 2:
            raise UsageError(f"n_modes must be at least 2, since the mean is zero: got {self.n_modes}")
        checked_bounds(self.bounds, max(1, len(self.bounds)))

    def draw(self, count: int, seed: int = 0, first: int = 0, device: torch.device | str = "cpu") -> Tensor:
        """The coefficients sqrt(lambda_k) xi_k of the draws first, ..., first + count - 1: (count, size, ..., size)."""
        check_draws(count, seed, first)
        return self.coefficients([stream(seed, index) for index in range(first, first + count)], device)

    def coefficients(self, draws: Sequence[np.random.Generator], device: torch.device | str = "cpu") -> Tensor:
        """The coefficients that streams of random numbers stand for, float64."""
        deviations = self.eigenvalues().sqrt()
        normals = np.empty((len(draws), *deviations.shape))
        with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:  # numpy draws without holding the lock
            list(pool.map(lambda draw, out: draw.standard_normal(out=out), draws, normals))
        return torch.from_numpy(normals).to(device) * deviations.to(device)

    def read(self, coefficients: Tensor, grid: Grid) -> Tensor:
        """The functions of the coefficients on a grid: (count, size, ..., size) -> (count, *shape)."""
        if grid.dim != len(self.bounds):
            raise UsageError(f"the measure lives on {len(self.bounds)} axes: got a grid of dimension {grid.dim}")
        factors = [
            self._basis.synthesis((x - lower) / (upper - lower), self.n_modes) / sqrt(upper - lower)
            for x, (lower, upper) in zip(axis_points(grid.to(coefficients.device)), self.bounds, strict=True)
        ]
        return expand(coefficients, factors, grid)

    def eigenvalues(self) -> Tensor:
        """lambda_k = scale (|k|^2 + tau^2)^-alpha, k in units of the box: (size, ..., size); zero for constants."""
        total = torch.zeros((), dtype=torch.float64)
        for lower, upper in self.bounds:
            total = total.unsqueeze(-1) + self._basis.eigenvalues(self.n_modes) / (upper - lower) ** 2
        values = self.scale * (total + self.tau**2) ** -self.alpha
        for k in range(len(self.bounds)):
            if self._basis.has_pairs:
                values.select(k, 1).zero_()  # the sine of wave number zero is no function
        values[(0,) * len(self.bounds)] = 0.0  # nor is a constant of mean zero
        return values

    @property
    def _basis(self) -> Basis:
        return _BASES[self.boundary]
