"""The smoothing operator (I - eps Laplace)^-alpha as a last layer (Remark smoothing)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.basis import Basis, Cosine, Fourier, Sine
from operformer.domain.patches import make_patches
from operformer.domain.transform import make_transform
from operformer.errors import UsageError

Boundary = Literal["periodic", "dirichlet", "neumann"]
_BASES: dict[str, Basis] = {"periodic": Fourier(), "dirichlet": Sine(), "neumann": Cosine()}


class Smoothing(nn.Module):
    """z -> sum_k (1 + eps lambda_k)^-alpha <z, phi_k> phi_k, phi_k the Laplacian's eigenfunctions on D.

    Every mode that the grid resolves is kept. The Laplacian is that of D itself, not of a unit cube. Good values: eps =
    1e-3, alpha = 1.001, the paper's for the Kolmogorov flow on a torus of length 2 pi.
    """

    def __init__(self, boundary: Boundary, epsilon: float = 1e-3, alpha: float = 1.001) -> None:
        super().__init__()
        if boundary not in _BASES:
            raise UsageError(f"boundary must be one of {', '.join(_BASES)}: got {boundary!r}")
        if not epsilon > 0 or not alpha > 0:
            raise UsageError(f"epsilon and alpha must be positive: got {epsilon} and {alpha}")
        self.boundary, self.epsilon, self.alpha = boundary, epsilon, alpha

    def forward(self, z: Tensor, grid: Grid) -> Tensor:
        """(batch, *shape, channels) -> the same."""
        basis = _BASES[self.boundary]
        if grid.axes is None:
            # Half as many as points along an axis: where points lie at random, more would be noise.
            per_axis = [max(2, round(grid.shape[0] ** (1 / grid.dim) / 2))] * grid.dim
        else:
            per_axis = list(grid.shape)
        n_modes = tuple(basis.n_resolved(n) for n in per_axis)
        patches = make_patches(grid, (1,) * grid.dim)
        transform = make_transform(patches, basis, n_modes, z)
        factors = self._factors(basis, n_modes, grid, z.device).to(z.dtype)
        return patches.join(transform.synthesise(transform.analyse(patches.split(z)) * factors.unsqueeze(-1)))

    def _factors(self, basis: Basis, n_modes: tuple[int, ...], grid: Grid, device: torch.device) -> Tensor:
        """(1 + eps lambda_k)^-alpha in the order of flat coefficients; made on the device, which waits for no copy."""
        total = torch.zeros(1, dtype=torch.float64, device=device)
        for m, (lower, upper) in zip(n_modes, grid.bounds, strict=True):
            total = (total.unsqueeze(-1) + basis.eigenvalues(m, device) / (upper - lower) ** 2).flatten()
        return (1 + self.epsilon * total) ** -self.alpha
