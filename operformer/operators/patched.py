"""What the patched operators share: the check of their patches, last layers, reading elsewhere (Section 4.3)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.blending import AnyCover, Overlap, ScatteredCover, make_cover, read_on
from operformer.domain.interpolation import interpolate
from operformer.domain.patches import ScatteredPatches
from operformer.domain.reading import within
from operformer.domain.resolution import condition_number, points_needed, quadrature_error
from operformer.errors import OperformerWarning, UsageError
from operformer.operators.composition import follow, read, summaries
from operformer.operators.encoder import EncoderLayer, PointwiseHead, PointwiseLift, attention_of
from operformer.operators.integral import AnyBasis, Spectrum, make_spectrum, read_basis
from operformer.operators.last import Last, LastLayer, Smoothing, make_last, read_last
from operformer.operators.operator import Operator
from operformer.operators.patched_attention import Coefficients
from operformer.settings import construct

Analysis = Literal["quadrature", "least-squares"]
MOST_QUADRATURE_ERROR = 0.05  # of scattered points, for random functions of an operator's modes
MOST_CONDITION = 100  # of least squares
NO_OVERLAP = Overlap(0.0)
GivenOverlap = float | Overlap | Mapping[str, Any]


class PatchedOperator(Operator):
    """An operator that ends with last layers on all of D, ``last_layers``."""

    spectrum: Spectrum
    last: tuple[LastLayer, ...]
    last_layers: nn.ModuleList
    overlap: Overlap = NO_OVERLAP

    @property
    def is_zero_at_boundary(self) -> bool:
        """Dirichlet smoothing is an expansion in sines."""
        return Smoothing("dirichlet") in self.last

    def least_sizes(self, least: int) -> tuple[int, ...]:
        """Two points for each mode of a patch, and of the last layers on all of D."""
        least = max([least, *(4 * layer.most_modes for layer in self.last)])
        pairs = zip(self.partition, self.spectrum.n_modes, strict=True)
        return tuple(2 * p * max(-(-least // (2 * p)), 2 * m) for p, m in pairs)

    def finish(self, z: Tensor, grid: Grid, query: Grid | None = None, there: Tensor | None = None) -> Tensor:
        """The last layers, then channels first: (batch, *shape, channels) -> (batch, channels, *shape).

        With a ``query`` they take integrals of z on the grid and act on ``there``, z at the points of the query.
        """
        for layer in self.last_layers:
            there = None if query is None else layer.elsewhere(z, grid, there, query)  # type: ignore[operator]
            z = layer(z, grid)
        return (z if there is None else there).movedim(-1, 1)


class ModalOperator(PatchedOperator):
    """Lift and head at each point, layers between the coefficients of patches: FANO and SpectralOperator.

    ``attention`` makes what a layer does between them.
    """

    _analysis: Analysis = "quadrature"
    _told_of: float = 0.0  # the largest quadrature error that was warned of

    def __init__(
        self,
        partition: tuple[int, ...],
        n_modes: int | Sequence[int],
        channels: tuple[int, int, int],  # in, out, hidden
        n_layers: int,
        basis: AnyBasis | str,
        last: Last,
        waves: int,
        attention: Callable[[Spectrum], nn.Module],
        overlap: Overlap = NO_OVERLAP,
    ) -> None:
        in_channels, out_channels, hidden_channels = channels
        super().__init__(len(partition), in_channels, out_channels, hidden_channels, n_layers)
        self.n_modes, self.waves, self.partition, self.overlap = n_modes, waves, partition, overlap
        self.basis, self.last = read_basis(basis), read_last(last)
        self.spectrum = make_spectrum(self.basis, n_modes, partition)
        self.lift = PointwiseLift(in_channels, self.dim, hidden_channels, waves)
        self.layers = nn.ModuleList(EncoderLayer(attention(self.spectrum), hidden_channels) for _ in range(n_layers))
        self.head = PointwiseHead(hidden_channels, out_channels)
        self.last_layers = make_last(self.last, self.dim, out_channels)

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        if grid.counts is not None and query is not None:
            alone = [(u[k : k + 1, :, :n], grid.of_sample(k)) for k, n in enumerate(grid.counts)]
            return torch.cat([self.transform(one, points, query) for one, points in alone])
        patches, coefficients = self.on(grid, lambda: self._on(grid), self.analysis)
        v = patches.split(lifted(self, self.lift, u, grid))
        if query is None:
            return self.finish(read(self.head, self.layers, v, coefficients, self.position(grid), patches.join), grid)
        there, reading = self.on(query, lambda: self._reading(within(grid, query)), f"read in {grid.bounds}")
        found, v = summaries(self.layers, v, coefficients)
        w = there.split(lifted(self, self.lift, interpolate(u, grid, query), query))
        z = there.join(self.head(follow(self.layers, found, w, reading), w))
        return self.finish(patches.join(self.head(v, v)), grid, query, z)

    @property
    def analysis(self) -> Analysis:
        """How coefficients are found at scattered points; elsewhere by quadrature. May be set on a trained operator.

        "quadrature" integrates by the weights of the points, which many points do well. "least-squares" fits the modes
        to the values, which is exact for functions of the modes and needs points that tell the modes apart.
        """
        return self._analysis

    @analysis.setter
    def analysis(self, name: Analysis) -> None:
        if name not in get_args(Analysis):
            raise UsageError(f"analysis must be one of {', '.join(get_args(Analysis))}: got {name!r}")
        self._analysis = name

    def _on(self, grid: Grid) -> tuple[AnyCover, Coefficients]:
        patches, attention = make_cover(grid, self.partition, self.overlap), attention_of(self.layers)
        points = patches.patches if isinstance(patches, ScatteredCover) else patches
        if not isinstance(points, ScatteredPatches):
            return patches, attention.on(patches, self.input_mean)
        # A mesh's domain is no box, so modes are not orthonormal on it. Samples on points of their own are another grid
        # at every step of a training.
        is_known = bool(grid.cells) and self.analysis == "quadrature"
        if not torch.compiler.is_compiling() and not is_known and not (grid.counts and self.training):
            look_at_points(self, grid, points)
        return patches, attention.on(patches, self.input_mean, self.analysis == "least-squares")

    def _reading(self, query: Grid) -> tuple[AnyCover, Coefficients]:
        """Where the points of a query lie in the patches, and synthesis there."""
        basis, n_modes = self.spectrum.basis, self.spectrum.n_modes
        cover, transform = read_on(query, self.partition, self.overlap, basis, n_modes, self.input_mean)
        return cover, Coefficients(transform, cover.volume, None)


def look_at_points(operator: ModalOperator, grid: Grid, points: ScatteredPatches) -> None:
    """Warn of scattered points that do not resolve the modes; refuse least squares that they do not settle.

    An operator warns again only where it is worse, or points of their own in each sample would warn with each.
    """
    basis, n_modes = operator.spectrum.basis, operator.spectrum.n_modes
    modes = " x ".join(map(str, n_modes))
    where = f"in each of {' x '.join(map(str, operator.partition))} patches"
    if operator.analysis == "least-squares":
        found = condition_number(points, basis, n_modes)
        if found > MOST_CONDITION:
            raise UsageError(
                f"least squares for {modes} modes {where} are not settled by {grid.shape[0]} points (condition number "
                f'{found:.2g}, at most {MOST_CONDITION}); use more points, or analysis = "quadrature"'
            )
        return
    error = quadrature_error(points, basis, n_modes)
    if error > max(MOST_QUADRATURE_ERROR, operator._told_of):
        operator._told_of = error
        remedy = f"use about {points_needed(grid, error, MOST_QUADRATURE_ERROR)} or fewer modes"
        if condition_number(points, basis, n_modes) <= MOST_CONDITION:
            remedy += ', set operator.analysis = "least-squares"'
        warnings.warn(
            f"{grid.shape[0]} scattered points do not resolve {modes} modes {where}: the integrals are off by "
            f"{error:.0%}; {remedy}, or interpolate u to a grid and read the "
            "output there: operator(interpolate(u, points, grid), grid, query=points)",
            OperformerWarning,
            stacklevel=2,
        )


def check_patches(n_patches: Sequence[int]) -> tuple[int, ...]:
    """One positive number of patches for each of one, two or three axes."""
    if not isinstance(n_patches, Sequence) or isinstance(n_patches, str) or not 1 <= len(n_patches) <= 3:
        raise UsageError(f"n_patches must be one number for each axis, such as (4, 4): got {n_patches!r}")
    if any(not isinstance(count, int) or isinstance(count, bool) or count < 1 for count in n_patches):
        raise UsageError(f"n_patches must be at least 1 along each axis: got {tuple(n_patches)}")
    return tuple(n_patches)


def read_overlap(given: GivenOverlap) -> Overlap:
    """The overlap that a constructor was given: the value, its margin, or a table of both."""
    if isinstance(given, Overlap):
        return given
    return construct(Overlap, given, "overlap") if isinstance(given, Mapping) else Overlap(given)


def lifted(operator: Operator, lift: nn.Module, u: Tensor, grid: Grid) -> Tensor:
    """T_in u at the points of a grid, channels last: (batch, c, *shape) -> (batch, *shape, hidden_channels)."""
    return lift(u.flatten(2).transpose(1, 2), operator.position(grid)).unflatten(1, grid.shape)
