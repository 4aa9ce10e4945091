"""The encoder of Cao's Galerkin transformer (2021) with attention of Fourier type, the baseline of Section 6.2."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.interpolation import interpolate
from operformer.operators.attention import check_heads
from operformer.operators.encoder import PointwiseHead, PointwiseLift, two_layers
from operformer.operators.operator import Operator


class GalerkinTransformer(Operator):
    """G = T_out o E_L o T_in, E_L layers v <- v + A(v), v <- v + W_3 f(W_4 v + b_1) + b_2, no softmax and no LayerNorm.

    Lift and head are linear, as in the TNO. The average over points has weights 1/n, as in that paper, whatever the
    grid: the midpoint rule on cells, first order on nodes, where both ends count in full. On other grids it converges
    to the integral against the density of the points, so it is another operator on each family of grids. Points may
    come in any order. Good values: 4 heads; 4 layers by the paper's text, 6 for the number of parameters in its table.
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        *,
        n_layers: int = 4,
        n_heads: int = 4,
    ) -> None:
        super().__init__(dim, in_channels, out_channels, hidden_channels, n_layers)
        check_heads(hidden_channels, n_heads)
        self.n_heads = n_heads
        self.lift = PointwiseLift(in_channels, dim, hidden_channels)
        self.layers = nn.ModuleList(GalerkinLayer(hidden_channels, n_heads, dim) for _ in range(n_layers))
        self.head = PointwiseHead(hidden_channels, out_channels)

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        x = self.position(grid)
        v = self.lift(u.flatten(2).transpose(1, 2), x)
        if query is None:
            for layer in self.layers:
                v = layer(v, x)
            return self.head(v, x).transpose(1, 2).unflatten(-1, grid.shape)
        y = self.position(query)
        there = self.lift(interpolate(u, grid, query).flatten(2).transpose(1, 2), y)
        for layer in self.layers:
            there, v = layer(there, y, (v, x)), layer(v, x)
        return self.head(there, y).transpose(1, 2).unflatten(-1, query.shape)


class GalerkinLayer(nn.Module):
    """v <- v + A(v);  v <- v + W_3 f(W_4 v + b_1) + b_2."""

    def __init__(self, channels: int, n_heads: int, dim: int) -> None:
        super().__init__()
        self.attention = FourierTypeAttention(channels, n_heads, dim)
        self.feed_forward = two_layers(channels, channels, channels)

    def forward(self, v: Tensor, x: Tensor, source: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """(batch, n, channels), (n, d) -> (batch, n, channels); ``source`` is what is attended to, v and x if None."""
        v = v + self.attention(v, x, source)
        return v + self.feed_forward(v)


class FourierTypeAttention(nn.Module):
    """A(v)(x_i) = W 1/n sum_j <[x_i, LN Q v_i], [x_j, LN K v_j]> [x_j, V v_j] + b, for each head, heads side by side.

    LayerNorm is each head's own, and the coordinates are d more channels of query, key and value. The sum over j is
    taken first, which costs n d_K^2 in place of n^2 d_K and gives the same numbers.
    """

    def __init__(self, channels: int, n_heads: int, dim: int) -> None:
        super().__init__()
        self.n_heads, size = n_heads, channels // n_heads
        self.query, self.key, self.value = (_near_zero(channels) for _ in range(3))
        self.norm_query = nn.ModuleList(nn.LayerNorm(size) for _ in range(n_heads))
        self.norm_key = nn.ModuleList(nn.LayerNorm(size) for _ in range(n_heads))
        self.merge = nn.Linear(channels + n_heads * dim, channels)

    def forward(self, v: Tensor, x: Tensor, source: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """(batch, n, channels), (n, d) -> (batch, n, channels); ``source`` is what is attended to, v and x if None."""
        w, y = (v, x) if source is None else source
        queries, keys, values = (f.chunk(self.n_heads, -1) for f in (self.query(v), self.key(w), self.value(w)))
        here, there = x.expand(len(v), *x.shape), y.expand(len(w), *y.shape)
        heads = []
        for query, key, value, norm_query, norm_key in zip(
            queries, keys, values, self.norm_query, self.norm_key, strict=True
        ):
            q, k = torch.cat([here, norm_query(query)], -1), torch.cat([there, norm_key(key)], -1)
            heads.append(q @ (k.transpose(1, 2) @ torch.cat([there, value], -1) / w.shape[1]))
        return self.merge(torch.cat(heads, -1))


def _near_zero(channels: int) -> nn.Linear:
    """A small multiple of the identity and of Glorot's law, from which that paper starts."""
    linear = nn.Linear(channels, channels)
    nn.init.xavier_uniform_(linear.weight, gain=1e-2)
    nn.init.zeros_(linear.bias)
    with torch.no_grad():
        linear.weight += 1e-2 * torch.eye(channels)
    return linear
