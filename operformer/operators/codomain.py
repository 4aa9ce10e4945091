"""Codomain attention: patched attention with channels in place of patches (Remark codomain_attention)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.interpolation import interpolate
from operformer.domain.patches import Patches, make_patches
from operformer.domain.reading import within
from operformer.domain.transform import Transform, make_transform
from operformer.errors import UsageError
from operformer.operators.attention import check_heads
from operformer.operators.composition import follow, summaries
from operformer.operators.encoder import EncoderLayer, PointwiseHead, PointwiseLift, attention_of
from operformer.operators.integral import (
    AnyBasis,
    Isotropic,
    ModeTables,
    SpectralMixing,
    Spectrum,
    make_spectrum,
    read_basis,
)
from operformer.operators.operator import Operator
from operformer.operators.patched import lifted
from operformer.operators.patched_attention import average_patches, rounded


class CodomainNO(Operator):
    """G = T_out o E_L o T_in with attention between groups of channels, each a function on all of D.

    Takes any grid: D is one patch, and a token is its coefficients.

    Args:
        dim: dimension of the domain, 1, 2 or 3.
        n_modes: modes along each axis, |k_j| < n_modes. Good value: 12.
        in_channels: components of the input function u.
        out_channels: components of the output function z.
        hidden_channels: width of the latent functions. Good value: 128.
        n_layers: encoder layers. Good value: 4.
        n_heads: attention heads; divides token_channels.
        token_channels: channels of a token; divides hidden_channels. Good value: an eighth of hidden_channels.
        basis: as in `FANO`, not isotropic. "cosine" where D is not periodic.
    """

    def __init__(
        self,
        dim: int,
        n_modes: int | Sequence[int],
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 128,
        n_layers: int = 4,
        n_heads: int = 1,
        token_channels: int = 16,
        basis: AnyBasis | str = "fourier",
    ) -> None:
        super().__init__(dim, in_channels, out_channels, hidden_channels, n_layers)
        self.n_modes, self.n_heads, self.token_channels = n_modes, n_heads, token_channels
        self.basis = read_basis(basis)
        if isinstance(self.basis, Isotropic):
            raise UsageError(f"codomain attention has no isotropic form: got {self.basis.plain}")
        self.spectrum = make_spectrum(self.basis, n_modes, (1,) * dim)
        self.lift = PointwiseLift(in_channels, dim, hidden_channels)
        self.layers = nn.ModuleList(
            EncoderLayer(CodomainAttention(hidden_channels, token_channels, n_heads, self.spectrum), hidden_channels)
            for _ in range(n_layers)
        )
        self.head = PointwiseHead(hidden_channels, out_channels)

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        patches, transform = self.on(grid, lambda: self._on(grid))
        v = patches.split(lifted(self, self.lift, u, grid))
        if query is not None:
            there, reading = self._on(within(grid, query))
            w = there.split(lifted(self, self.lift, interpolate(u, grid, query), query))
            found, _ = summaries(self.layers, v, transform)
            w = follow(self.layers, found, w, reading)
            return self.head(there.join(w), self.position(query)).movedim(-1, 1)
        for layer in self.layers:
            v = layer(v, transform)
        return self.head(patches.join(v), self.position(grid)).movedim(-1, 1)

    def least_sizes(self, least: int) -> tuple[int, ...]:
        """Two points for each mode."""
        return tuple(max(2 * -(-least // 2), 4 * m) for m in self.spectrum.n_modes)

    def _on(self, grid: Grid) -> tuple[Patches, Transform]:
        patches = make_patches(grid, (1,) * self.dim)
        return patches, attention_of(self.layers).on(patches, self.input_mean)


class CodomainAttention(nn.Module):
    """A(v)(j) = E_{k ~ p(k; v, j)}[V v_k], p(k; v, j) ~ exp <Q v_j, K v_k>_{L2(D)}, j and k groups of channels.

    D' is D itself, and Q, K, V are Fourier integral operators shared by all groups: a token is a function on D with
    ``token_channels`` components. Heads split the components of Q, K and V. As in `FourierAttention` everything happens
    between one analysis and one synthesis; the inner product has no resolution.
    """

    def __init__(self, channels: int, token_channels: int, n_heads: int, spectrum: Spectrum) -> None:
        super().__init__()
        if token_channels < 1 or channels % token_channels:
            raise UsageError(f"token_channels must divide channels: got {token_channels} and {channels}")
        check_heads(token_channels, n_heads)
        self.average_dtype: torch.dtype | None = None
        self.n_heads, self.token_channels, self.spectrum = n_heads, token_channels, spectrum
        self.modes = ModeTables(spectrum)
        self.mixing = SpectralMixing(spectrum, token_channels, 3 * token_channels)
        self.merge = nn.Linear(token_channels, token_channels)

    def on(self, patches: Patches, like: Tensor) -> Transform:
        """What it needs of D as one patch, in the dtype and on the device of ``like``."""
        return make_transform(patches, self.spectrum.basis, self.spectrum.n_modes, like)

    def forward(self, v: Tensor, transform: Transform, source: Tensor | None = None) -> Tensor:
        """(batch, 1, *points, channels) on one patch, which is D, -> the same; there is nothing else to attend to."""
        if source is not None:
            raise UsageError("codomain attention is between the channels of one function: leave source out")
        return self.read(self.summary(v, transform), v, transform)

    def read(self, coefficients: Tensor, v: Tensor, transform: Transform) -> Tensor:
        """The function with these coefficients, at the points of ``transform``."""
        return transform.synthesise(coefficients)

    def summary(self, v: Tensor, transform: Transform) -> Tensor:
        """The coefficients of all groups of channels: (batch, 1, sizes, channels)."""
        modes, batch = self.modes, len(v)
        coefficients = transform.analyse(v)[:, 0].unflatten(-1, (-1, self.token_channels))
        tokens = coefficients.transpose(1, 2).flatten(0, 1)
        query, key, value = self.mixing(modes.gather(tokens)).chunk(3, -1)
        if not self.spectrum.basis.is_orthonormal:
            weighed = transform.weigh(modes.scatter(key).unsqueeze(1))[:, 0]
            key = modes.gather(weighed)
        query, key, value = (self._split(t, batch) for t in (query, key, value))
        average = average_patches(query @ key.transpose(-1, -2), value, None)
        entries = average.unflatten(-1, (modes.count, -1)).permute(3, 0, 2, 1, 4).flatten(1, 2).flatten(-2)
        merged = entries @ self.merge.weight.T
        merged[0] += self.merge.bias * self.spectrum.basis.one ** len(self.spectrum.n_modes)
        tokens = modes.scatter(merged).unflatten(0, (batch, -1))
        return tokens.transpose(1, 2).flatten(-2).unsqueeze(1)

    def _split(self, entries: Tensor, batch: int) -> Tensor:
        """(E, batch tokens, c) -> (batch, heads, tokens, E d_k)."""
        entries = rounded(entries, self.average_dtype)
        split = entries.unflatten(1, (batch, -1)).unflatten(-1, (self.n_heads, -1))
        return split.permute(1, 3, 2, 0, 4).flatten(3)
