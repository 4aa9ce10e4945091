"""The adaptive Fourier neural operator of Guibas et al. (2022), the baseline of Section 6.2, without patches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import relu, softshrink

from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.operators.baselines.full_spectrum import half_fft, half_fft_back
from operformer.operators.baselines.uniform import UniformOperator, check_uniform, with_coordinates


class AFNO(UniformOperator):
    """z = W_out B_L ... B_1 (W_in (u, x) + e), e(x_i) a learnable vector for each of the points.

    Because of e it is bound to the ``shape`` it was made for; its thresholds and its FFT are of that resolution, too.
    Good values: the defaults, which are the paper's, and ``n_blocks`` that divides the width.
    """

    def __init__(
        self,
        shape: Sequence[int],
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        *,
        n_layers: int = 4,
        n_blocks: int = 8,
        threshold: float = 0.01,
    ) -> None:
        if isinstance(shape, int) or any(not isinstance(n, int) or n < 2 for n in shape):
            raise UsageError(f"shape must be the number of points along each axis, such as (64, 64): got {shape!r}")
        super().__init__(len(shape), in_channels, out_channels, hidden_channels, n_layers)
        if n_blocks < 1 or hidden_channels % n_blocks:
            raise UsageError(f"n_blocks must divide hidden_channels: got {n_blocks} and {hidden_channels}")
        if not threshold >= 0:
            raise UsageError(f"threshold must not be negative: got {threshold}")
        self.shape, self.n_blocks, self.threshold = tuple(shape), n_blocks, threshold
        self.lift = nn.Linear(in_channels + self.dim, hidden_channels)
        self.embedding = nn.Parameter(0.02 * torch.randn(*self.shape, hidden_channels))
        self.layers = nn.ModuleList(AFNOLayer(hidden_channels, n_blocks, threshold) for _ in range(n_layers))
        self.head = nn.Linear(hidden_channels, out_channels, bias=False)

    def takes(self, grid: Grid) -> bool:
        """Whether it is a uniform grid of the ``shape`` that the operator is bound to."""
        return super().takes(grid) and grid.shape == self.shape

    def least_sizes(self, least: int) -> tuple[int, ...]:
        """The ``shape`` it is bound to, if half of it is a number, too."""
        return self.shape if all(n % 2 == 0 for n in self.shape) else super().least_sizes(least)

    def nearest(self, grid: Grid) -> Grid:
        """Cells of that shape."""
        return Grid.uniform(self.shape, grid.bounds, kind="cells")

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        check_uniform("AFNO", grid, query)
        if grid.shape != self.shape:
            own = " x ".join(map(str, self.shape))
            raise UsageError(f"this AFNO is bound to {own} points by its positional embedding: got {grid}")
        v = self.lift(with_coordinates(self, u, grid).movedim(1, -1)) + self.embedding
        for layer in self.layers:
            v = layer(v)
        return self.head(v).movedim(-1, 1)


class AFNOLayer(nn.Module):
    """w = v + F(LayerNorm v);  v <- w + MLP(LayerNorm w), the MLP four times as wide inside."""

    def __init__(self, channels: int, n_blocks: int, threshold: float) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(channels)
        self.mixing = SpectralMLP(channels, n_blocks, threshold)
        self.norm_2 = nn.LayerNorm(channels)
        self.feed_forward = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )

    def forward(self, v: Tensor) -> Tensor:
        """(batch, *shape, channels) -> the same."""
        v = v + self.mixing(self.norm_1(v))
        return v + self.feed_forward(self.norm_2(v))


class SpectralMLP(nn.Module):
    """F(v) = v + Re sum_k c_k S(W_2 relu(W_1 v^_k + b_1) + b_2) e^{2 pi i k . x}, v^ the unitary DFT of v.

    k_d runs from 0 to n_d / 2, with c_k = 1 at both ends and 2 between, as the transform of a real function has it. W_1
    and W_2 are complex, the same for all k, and block-diagonal; relu and the soft threshold S act on real and imaginary
    parts. Weights are real pairs.
    """

    def __init__(self, channels: int, n_blocks: int, threshold: float) -> None:
        super().__init__()
        size = channels // n_blocks
        self.threshold = threshold
        self.weight_1 = nn.Parameter(0.02 * torch.randn(2, n_blocks, size, size))
        self.bias_1 = nn.Parameter(0.02 * torch.randn(2, n_blocks, size))
        self.weight_2 = nn.Parameter(0.02 * torch.randn(2, n_blocks, size, size))
        self.bias_2 = nn.Parameter(0.02 * torch.randn(2, n_blocks, size))

    def forward(self, v: Tensor) -> Tensor:
        """(batch, *shape, channels) -> the same."""
        shape = v.shape[1:-1]
        unitary = prod(shape) ** -0.5
        pairs = half_fft(v.movedim(-1, 1)).movedim(1, -2)  # (batch, *modes, channels, 2)
        w = pairs.flatten(-2).flatten(0, -2)
        w = relu(_complex_linear(w, unitary * self.weight_1, self.bias_1))
        w = unitary * softshrink(_complex_linear(w, self.weight_2, self.bias_2), self.threshold)
        back = half_fft_back(w.reshape(pairs.shape).movedim(-2, 1), shape[-1])
        return v + back.movedim(1, -1)


def _complex_linear(w: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(x + i y)(A + i B) + a + i b, block by block, as one real product: (rows, channels 2), pairs, -> the same."""
    real, imaginary = weight
    pairs = [torch.stack([real, imaginary], -1), torch.stack([-imaginary, real], -1)]
    matrices = torch.stack(pairs, 2).flatten(3).flatten(1, 2)  # (blocks, size 2, size 2)
    added = bias.permute(1, 2, 0).flatten()
    if takes_full_matrices(w):
        return torch.addmm(added, w, torch.block_diag(*matrices))
    return torch.einsum("rki,kio->rko", w.unflatten(-1, matrices.shape[:2]), matrices).flatten(1) + added


def takes_full_matrices(w: Tensor) -> bool:
    """On a GPU zeros cost little; gradients of blocks apart, small matrices that are sums over all rows, are slow."""
    return w.device.type == "cuda"
