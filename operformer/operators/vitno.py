"""The vision transformer neural operator, ViTNO (Section 4.3, Appendix B.2)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.interpolation import interpolate
from operformer.domain.patches import TensorPatches, make_patches
from operformer.domain.transform import Transform, make_transform
from operformer.errors import UsageError
from operformer.operators.attention import check_heads
from operformer.operators.composition import can_fuse, read
from operformer.operators.encoder import EncoderLayer, NormPlace, PointwiseHead, checked_norm, make_waves
from operformer.operators.fused_modes import has_tables, lifted
from operformer.operators.integral import BasisName, FourierIntegralOperator, make_spectrum
from operformer.operators.operator import Operator, constructor_settings
from operformer.operators.patched import LastLayers, SmoothingName, check_patches, refuse_query
from operformer.operators.patched_attention import CommonPoints, PatchedAttention


class ViTNO(Operator):
    """G = T_out o E_L o T_in: the lift is a Fourier integral operator on patches, Q, K, V are pointwise.

    Patches are compared point by point, so every patch needs the same points: cells and periodic grids whose size the
    number of patches divides, and nodes where it divides the number of intervals. With ``resample`` other grids are
    interpolated to cells of the nearest such size, and the output back. Good values: patches of about 32 points along
    each axis, 12 modes, ``final_modes=64``, as in the paper. ``norm``, ``waves`` and ``adds_input`` are as in the TNO.
    """

    def __init__(
        self,
        n_patches: Sequence[int],
        n_modes: int | Sequence[int],
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        n_layers: int = 6,
        n_heads: int = 8,
        basis: BasisName = "fourier",
        periodic_extension: bool = False,
        final_modes: int = 0,
        smoothing: SmoothingName = "none",
        learnable_skips: bool = False,
        resample: bool = False,
        norm: NormPlace = "after",
        waves: int = 0,
        adds_input: bool = False,
    ) -> None:
        settings = constructor_settings(locals())
        dim = len(check_patches(n_patches))
        super().__init__(dim, in_channels, out_channels, settings)
        check_heads(hidden_channels, n_heads)
        self.n_patches, self.resample = tuple(n_patches), resample
        self.spectrum = make_spectrum(basis, periodic_extension, n_modes, n_patches)
        self.lift = FourierIntegralOperator(self.spectrum, in_channels + dim, hidden_channels)
        self.waves = make_waves(dim, hidden_channels, waves)
        self.layers = nn.ModuleList(
            EncoderLayer(
                PatchedAttention(hidden_channels, n_heads), hidden_channels, learnable_skips, checked_norm(norm)
            )
            for _ in range(n_layers)
        )
        self.head = PointwiseHead(hidden_channels, out_channels, norm)
        self.last = LastLayers(dim, out_channels, final_modes, smoothing)

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        refuse_query(query, "ViTNO")
        if self._takes(grid):
            return self.last(self._on_patches(u, grid), grid).movedim(-1, 1)
        if not self.resample:
            raise UsageError(self._refusal(grid))
        cells = Grid.uniform(self._nearest(self._sizes(grid)), grid.bounds, kind="cells").to(grid.points.device)
        z = self._on_patches(interpolate(u, grid, cells), cells)
        return self.last(interpolate(z.movedim(-1, 1), cells, grid).movedim(1, -1), grid).movedim(-1, 1)

    def _on_patches(self, u: Tensor, grid: Grid) -> Tensor:
        """Lift, encoder and head, to (batch, *shape, out_channels)."""
        patches = make_patches(grid, self.n_patches)
        transform = make_transform(patches, self.spectrum.basis, self.spectrum.n_modes, u)
        x = self.position(grid).unflatten(0, grid.shape)
        u_in = torch.cat([u.movedim(1, -1), x.expand(u.shape[0], *x.shape)], -1)
        v = self._lifted(patches.split(u_in), transform)
        if self.waves is not None:
            v = v + patches.split(self.waves(x).unsqueeze(0))
        volume = 1 / prod(self.n_patches)
        has_equal_weights = isinstance(patches, TensorPatches) and patches.is_even
        measure = CommonPoints(volume * _common_weights(patches).to(u), volume, has_equal_weights)
        return read(self.head, self.layers, v, measure, x, patches.join)

    def _lifted(self, u: Tensor, transform: Transform) -> Tensor:
        """T_in on patches, by a half-precision kernel where the layers have one, too."""
        if not isinstance(self.lift, FourierIntegralOperator):
            return self.lift(u, transform)  # the literal form's
        mixing = self.lift.mixing
        if can_fuse(self.layers, mixing.weight) and has_tables(transform):
            return lifted(self.lift.coefficients(u, transform), mixing, self.lift.modes, transform, u.shape[1])
        return self.lift(u, transform)

    def _takes(self, grid: Grid) -> bool:
        if grid.kind in ("cells", "periodic"):
            return all(n % count == 0 for n, count in zip(grid.shape, self.n_patches, strict=True))
        return grid.kind == "nodes" and all((n - 1) % p == 0 for n, p in zip(grid.shape, self.n_patches, strict=True))

    def _sizes(self, grid: Grid) -> tuple[int, ...]:
        """The points along each axis, as many as the root of their number where they are scattered."""
        return grid.shape if grid.axes is not None else (round(grid.shape[0] ** (1 / self.dim)),) * self.dim

    def _nearest(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The nearest sizes that the patches divide, two intervals or more in each."""
        return tuple(max(2, round(n / count)) * count for n, count in zip(sizes, self.n_patches, strict=True))

    def _refusal(self, grid: Grid) -> str:
        asked = f"ViTNO compares patches point by point and cannot split {grid} into {self.n_patches} patches"
        cells = " x ".join(map(str, self._nearest(self._sizes(grid))))
        nodes = " x ".join(str(n + 1) for n in self._nearest(tuple(n - 1 for n in self._sizes(grid))))
        return f"{asked}; use {cells} cells, {nodes} nodes, resample=True, or a FANO, which takes any grid"


def _common_weights(patches: object) -> Tensor:
    """The weights of the points that every patch has (M,); they sum to 1."""
    if not isinstance(patches, TensorPatches):
        raise TypeError("scattered points have no common weights")
    weights = patches.axes[0].weights[0]
    for axis in patches.axes[1:]:
        weights = (weights.unsqueeze(-1) * axis.weights[0]).flatten()
    return weights
