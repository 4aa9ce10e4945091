"""The vision transformer neural operator, ViTNO (Section 4.3, Appendix B.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.blended_reading import blended_translates
from operformer.domain.blending import AnyTransform, Cover, make_cover, transform_on
from operformer.domain.patches import TensorPatches
from operformer.domain.reading import Translates, translates, within
from operformer.errors import UsageError
from operformer.operators.composition import can_fuse, follow, read, summaries
from operformer.operators.encoder import EncoderLayer, PointwiseHead, attention_of, make_waves
from operformer.operators.fused_modes import has_tables, lifted
from operformer.operators.integral import AnyBasis, FourierIntegralOperator, Isotropic, make_spectrum, read_basis
from operformer.operators.last import Last, make_last, read_last
from operformer.operators.patched import GivenOverlap, PatchedOperator, check_patches, read_overlap
from operformer.operators.patched_attention import CommonPoints, PatchedAttention

MOST_TRANSLATES = 2**16  # latent points of a query that are held at once, all patches counted


class ViTNO(PatchedOperator):
    """G = T_out o E_L o T_in with attention between patches of D, lifted by a Fourier integral operator on each.

    Q, K, V are pointwise and patches are compared point by point, so every patch needs the same points: cells and
    periodic grids whose size the number of patches divides, and nodes where it divides the number of intervals.
    `Resampled(operator)` takes other grids, too.

    Args:
        n_patches: patches along each axis of D. Good value: patches of about 32 points along each axis.
        n_modes: modes of the lift along each axis of a patch, |k_j| < n_modes. Good values: 8 to 12.
        in_channels: components of the input function u.
        out_channels: components of the output function z.
        hidden_channels: width of the latent functions. Good value: 128.
        n_layers: encoder layers. Good value: 6.
        n_heads: attention heads; divides hidden_channels. Good value: 8.
        basis: of the lift, as in `FANO`; not isotropic.
        last: last layers on all of D, as in `FANO`. 64 is the paper's.
        waves: sines and cosines of the position along each axis that the lift sees. Good values: 0 (the paper), 8.
        overlap: how far patches reach into their neighbours, as in `FANO`. 0 is the paper's.

    Example:
        >>> operator = ViTNO(n_patches=(2, 2), n_modes=4, in_channels=1, out_channels=1, hidden_channels=16)
        >>> z = operator(torch.rand(3, 1, 32, 32), Grid.uniform((32, 32), kind="cells"))
        >>> z.shape
        torch.Size([3, 1, 32, 32])
    """

    def __init__(
        self,
        n_patches: Sequence[int],
        n_modes: int | Sequence[int],
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 128,
        n_layers: int = 6,
        n_heads: int = 8,
        basis: AnyBasis | str = "fourier",
        last: Last = None,
        waves: int = 0,
        overlap: GivenOverlap = 0.25,
    ) -> None:
        patches = check_patches(n_patches)
        super().__init__(len(patches), in_channels, out_channels, hidden_channels, n_layers)
        self.n_patches = self.partition = patches
        self.n_modes, self.n_heads, self.waves = n_modes, n_heads, waves
        self.basis, self.last, self.overlap = read_basis(basis), read_last(last), read_overlap(overlap)
        if isinstance(self.basis, Isotropic):
            raise UsageError(f"the lift of a ViTNO has no isotropic form: got {self.basis.plain}; use a FANO")
        self.spectrum = make_spectrum(self.basis, n_modes, patches)
        self.lift = FourierIntegralOperator(self.spectrum, in_channels + self.dim, hidden_channels)
        # Optimizers move every matrix by about the same step, so the lift's few columns are as small as the layers'.
        self.lift.mixing.start_pointwise(hidden_channels)
        self.positions = make_waves(self.dim, hidden_channels, waves)
        self.layers = nn.ModuleList(
            EncoderLayer(PatchedAttention(hidden_channels, n_heads), hidden_channels) for _ in range(n_layers)
        )
        self.head = PointwiseHead(hidden_channels, out_channels)
        self.last_layers = make_last(self.last, self.dim, out_channels)

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        patches, transform, points = self.on(grid, lambda: self._on(grid))
        x = self.position(grid).unflatten(0, grid.shape)
        u_in = torch.cat([u.movedim(1, -1), x.expand(u.shape[0], *x.shape)], -1)
        u_in = patches.split(u_in)
        v = self._lifted(u_in, transform)
        if self.positions is not None:
            v = v + patches.split(self.positions(x).unsqueeze(0))
        if query is None:
            return self.finish(read(self.head, self.layers, v, points, x, patches.join), grid)
        found, v = summaries(self.layers, v, points)
        there = self._read(self.lift.image(u_in, transform), found, grid, query)
        return self.finish(patches.join(self.head(v, x)), grid, query, there)

    def _read(self, image: Tensor, found: list[Tensor], grid: Grid, query: Grid) -> Tensor:
        """z at other points, from the coefficients of the lift and the scores of each layer: (batch, *shape, c).

        A patch is a sum of all patches at the same local coordinates, so v goes through the layers at the points and at
        their translates.
        """
        points, pieces, order = self.on(query, lambda: self._pieces(within(grid, query)), f"read in {grid.bounds}")
        parts = []
        for some in pieces:
            v = some.synthesise(image, self.spectrum.basis, self.spectrum.n_modes)
            if self.positions is not None:
                v = v + self.positions(self.placed(some.points))
            parts.append(self.head(follow(self.layers, found, v, some), v))
        return points.join(torch.cat(parts, 2).index_select(2, order.to(image.device)))

    def _pieces(self, query: Grid) -> tuple[Translates, list[Translates], Tensor]:
        """The points of a query and their translates, in pieces that are small enough, and the order of the whole."""
        if self.overlap.margin == 0:
            points: Translates = translates(query, self.n_patches)
        else:
            points = blended_translates(query, self.n_patches, self.overlap)
        chunks = points.chunks(MOST_TRANSLATES)
        return points, [points.part(chosen) for chosen in chunks], torch.argsort(torch.cat(chunks))

    def _on(self, grid: Grid) -> tuple[TensorPatches | Cover, AnyTransform, CommonPoints]:
        patches = make_cover(grid, self.n_patches, self.overlap) if self.takes(grid) else None
        if not isinstance(patches, TensorPatches | Cover):
            raise UsageError(self._refusal(grid))
        transform = transform_on(patches, self.spectrum.basis, self.spectrum.n_modes, self.input_mean)
        return patches, transform, attention_of(self.layers).on(patches, self.input_mean)

    def takes(self, grid: Grid) -> bool:
        """Whether all patches have the same points on this grid."""
        if grid.kind in ("cells", "periodic"):
            return all(n % count == 0 for n, count in zip(grid.shape, self.n_patches, strict=True))
        return grid.kind == "nodes" and all((n - 1) % p == 0 for n, p in zip(grid.shape, self.n_patches, strict=True))

    def nearest(self, grid: Grid) -> Grid:
        """Cells of the nearest sizes that the patches divide."""
        return Grid.uniform(self._nearest(grid.sizes), grid.bounds, kind="cells")

    def _lifted(self, u: Tensor, transform: AnyTransform) -> Tensor:
        """T_in on patches, or on D where they overlap, by a half-precision kernel where the layers have one, too."""
        if not isinstance(self.lift, FourierIntegralOperator):
            return self.lift(u, transform)  # the literal form's
        mixing = self.lift.mixing
        if can_fuse(self.layers, mixing.weight) and has_tables(transform):
            return lifted(self.lift.coefficients(u, transform), mixing, self.lift.modes, transform, u.shape[1])
        return self.lift(u, transform)

    def _nearest(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The nearest sizes that the patches divide, two intervals or more in each."""
        return tuple(max(2, round(n / count)) * count for n, count in zip(sizes, self.n_patches, strict=True))

    def _refusal(self, grid: Grid) -> str:
        asked = f"ViTNO compares patches point by point and cannot split {grid} into {self.n_patches} patches"
        cells = " x ".join(map(str, self._nearest(grid.sizes)))
        nodes = " x ".join(str(n + 1) for n in self._nearest(tuple(n - 1 for n in grid.sizes)))
        return f"{asked}; use {cells} cells, {nodes} nodes, Resampled(operator), or a FANO, which takes any grid"
