"""Last layers of the patched operators, as values: a Fourier integral operator on D, and smoothing (Section 6.2).

Patches meet at faces where the output may jump. A last layer acts on all of D at once and has no faces.
"""

# DESIGN.md: Dirichlet smoothing is normalised about zero

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.basis import Basis, Cosine, Fourier, Sine
from operformer.domain.patches import Patches, make_patches
from operformer.domain.reading import within
from operformer.domain.transform import Transform, make_synthesis, make_transform
from operformer.errors import UsageError
from operformer.operators.integral import FourierIntegralOperator, Spectrum
from operformer.operators.operator import PerGrid
from operformer.settings import check_count, check_fields, construct

Boundary = Literal["periodic", "dirichlet", "neumann"]
_BASES: dict[str, Basis] = {"periodic": Fourier(), "dirichlet": Sine(), "neumann": Cosine()}


@dataclass(frozen=True)
class SpectralResidual:
    """z + W z, W a Fourier integral operator on all of D: the last layer of the paper's experiments, with 64 modes.

    Args:
        n_modes: modes along each axis, |k_j| < n_modes. Good value: 64, the paper's.
    """

    n_modes: int

    def __post_init__(self) -> None:
        check_count("n_modes", self.n_modes)

    @property
    def most_modes(self) -> int:
        """Along an axis of D, whatever the grid."""
        return self.n_modes

    @property
    def plain(self) -> int:
        """The short form, as JSON holds it."""
        return self.n_modes

    def make(self, dim: int, channels: int) -> nn.Module:
        """The layer."""
        return SpectralResidualLayer(dim, channels, self.n_modes)


@dataclass(frozen=True)
class Smoothing:
    """(I - epsilon Laplace)^-alpha (Remark smoothing), with periodic, Dirichlet or Neumann conditions.

    Args:
        boundary: "periodic", "dirichlet" (the output is zero at the boundary) or "neumann".
        epsilon, alpha: how much is smoothed. Good values: 1e-3 and 1.001, the paper's for the Kolmogorov flow.
    """

    boundary: Boundary
    epsilon: float = 1e-3
    alpha: float = 1.001

    def __post_init__(self) -> None:
        check_fields(self, "Smoothing")
        if not self.epsilon > 0 or not self.alpha > 0:
            raise UsageError(f"epsilon and alpha must be positive: got {self.epsilon} and {self.alpha}")

    @property
    def most_modes(self) -> int:
        """None of its own: it keeps those of the grid."""
        return 0

    @property
    def plain(self) -> Any:
        """The short form, as JSON holds it; a table where numbers differ from the paper's."""
        return self.boundary if self == Smoothing(self.boundary) else asdict(self)

    def make(self, dim: int, channels: int) -> nn.Module:
        """The layer, which has no parameters."""
        return SmoothingLayer(self)


LastLayer = SpectralResidual | Smoothing
Last = LastLayer | int | str | Mapping[str, Any] | Sequence[LastLayer | int | str | Mapping[str, Any]] | None


def read_last(given: Last) -> tuple[LastLayer, ...]:
    """The last layers that a constructor was given, in their order.

    Each is a value, or short for one: 64 is SpectralResidual(64), "dirichlet" is Smoothing("dirichlet").
    """
    if given is None:
        return ()
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(_read_layer(one) for one in given)
    return (_read_layer(given),)


def _read_layer(given: Any) -> LastLayer:
    if isinstance(given, SpectralResidual | Smoothing):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return SpectralResidual(given)
    if isinstance(given, str) and given in _BASES:
        return Smoothing(given)  # type: ignore[arg-type]
    if isinstance(given, Mapping):
        return construct(Smoothing, given, "last")
    known = ", ".join(get_args(Boundary))
    raise UsageError(f"last must be a number of modes, such as 64, or one of {known}, or several: got {given!r}")


def make_last(layers: tuple[LastLayer, ...], dim: int, channels: int) -> nn.ModuleList:
    """Their modules."""
    return nn.ModuleList(layer.make(dim, channels) for layer in layers)


def _points(per_grid: PerGrid, grid: Grid, query: Grid) -> Patches:
    """The points of a query in D as one patch, made once."""
    make = lambda: make_patches(within(grid, query), (1,) * grid.dim)  # noqa: E731
    return per_grid.get(query, f"read in {grid.bounds}", make)


class SpectralResidualLayer(nn.Module):
    """z -> z + W z."""

    def __init__(self, dim: int, channels: int, n_modes: int) -> None:
        super().__init__()
        self.spectrum = Spectrum(Fourier(), (n_modes,) * dim)
        self.operator = FourierIntegralOperator(self.spectrum, channels, channels)
        # A residual map of few channels: with R(k) of variance 1/3 the output would start as z and noise half as large.
        nn.init.zeros_(self.operator.mixing.weight)
        self._per_grid = PerGrid()

    def forward(self, z: Tensor, grid: Grid) -> Tensor:
        """(batch, *shape, channels) -> the same."""
        patches, transform = self._per_grid.get(grid, (z.dtype, z.device), lambda: self._on(grid, z))
        return z + patches.join(self.operator(patches.split(z), transform))

    def elsewhere(self, z: Tensor, grid: Grid, there: Tensor, query: Grid) -> Tensor:
        """z + W z at the points of a query, from ``there``, z at them, and from z on the grid."""
        patches, transform = self._per_grid.get(grid, (z.dtype, z.device), lambda: self._on(grid, z))
        points = _points(self._per_grid, grid, query)
        reading = make_synthesis(points, self.spectrum.basis, self.spectrum.n_modes, z)
        return there + points.join(reading.synthesise(self.operator.image(patches.split(z), transform)))

    def _on(self, grid: Grid, z: Tensor) -> tuple[Patches, Transform]:
        patches = make_patches(grid, (1,) * grid.dim)
        return patches, make_transform(patches, self.spectrum.basis, self.spectrum.n_modes, z)


class SmoothingLayer(nn.Module):
    """z -> sum_k (1 + eps lambda_k)^-alpha <z, phi_k> phi_k, phi_k the Laplacian's eigenfunctions on D.

    Every mode that the grid resolves is kept. The Laplacian is that of D itself, not of a unit cube.
    """

    def __init__(self, value: Smoothing) -> None:
        super().__init__()
        self.value = value
        self._per_grid = PerGrid()

    def forward(self, z: Tensor, grid: Grid) -> Tensor:
        """(batch, *shape, channels) -> the same."""
        patches, transform, factors = self._per_grid.get(grid, (z.dtype, z.device), lambda: self._on(grid, z))
        return patches.join(transform.synthesise(transform.analyse(patches.split(z)) * factors))

    def elsewhere(self, z: Tensor, grid: Grid, there: Tensor, query: Grid) -> Tensor:
        """The same function at the points of a query, from z on the grid alone."""
        patches, transform, factors = self._per_grid.get(grid, (z.dtype, z.device), lambda: self._on(grid, z))
        basis, n_modes = _BASES[self.value.boundary], self._n_modes(grid)
        points = _points(self._per_grid, grid, query)
        reading = make_synthesis(points, basis, n_modes, z)
        return points.join(reading.synthesise(transform.analyse(patches.split(z)) * factors))

    def _on(self, grid: Grid, z: Tensor) -> tuple[Patches, Transform, Tensor]:
        basis, n_modes = _BASES[self.value.boundary], self._n_modes(grid)
        patches = make_patches(grid, (1,) * grid.dim)
        transform = make_transform(patches, basis, n_modes, z)
        return patches, transform, self._factors(basis, n_modes, grid, z.device).to(z.dtype).unsqueeze(-1)

    def _n_modes(self, grid: Grid) -> tuple[int, ...]:
        if grid.counts is not None:
            raise UsageError(f"smoothing keeps the modes of one grid: got {grid}; give each sample alone, or no last")
        if grid.axes is None:
            # Half as many as points along an axis: where points lie at random, more would be noise.
            per_axis = [max(2, round(grid.shape[0] ** (1 / grid.dim) / 2))] * grid.dim
        else:
            per_axis = list(grid.shape)
        return tuple(_BASES[self.value.boundary].n_resolved(n) for n in per_axis)

    def _factors(self, basis: Basis, n_modes: tuple[int, ...], grid: Grid, device: torch.device) -> Tensor:
        """(1 + eps lambda_k)^-alpha in the order of flat coefficients; made on the device, which waits for no copy."""
        total = torch.zeros(1, dtype=torch.float64, device=device)
        for m, (lower, upper) in zip(n_modes, grid.bounds, strict=True):
            total = (total.unsqueeze(-1) + basis.eigenvalues(m, device) / (upper - lower) ** 2).flatten()
        return (1 + self.value.epsilon * total) ** -self.value.alpha
