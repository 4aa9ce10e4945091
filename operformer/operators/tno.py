"""The transformer neural operator, TNO (Section 4.2, Appendix B.1), its universal and its plain variant."""

# DESIGN.md: Output at other points
# DESIGN.md: Initial values are constant channels

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.domain.interpolation import interpolate
from operformer.domain.samples import is_point
from operformer.errors import UsageError
from operformer.operators.attention import Measure, MultiHeadAttention, SelfAttention, check_heads, log_density
from operformer.operators.composition import Composition
from operformer.operators.encoder import (
    EncoderLayer,
    InitialLift,
    PointwiseHead,
    PointwiseLift,
    TwoLayerMap,
    UniversalLayer,
    attention_of,
    is_start,
)
from operformer.operators.operator import Operator
from operformer.operators.sources import average_over_cells, check_sources
from operformer.settings import check_count


class TNO(Operator):
    """G = T_out o E_L o T_in with the continuum attention of Definition 4, weighted by the quadrature of the grid.

    Takes any grid in D, and any ``query`` points for the output.

    Args:
        dim: dimension of the domain, 1, 2 or 3.
        in_channels: components of the input function u.
        out_channels: components of the output function z.
        hidden_channels: width of the latent functions. Good values: 32 on a CPU, 128 in the paper.
        n_layers: encoder layers. Good values: 2 to 6.
        n_heads: attention heads; divides hidden_channels. Good values: 4 to 8.
        initial_channels: how many of the input channels, the last ones, are an initial condition, lifted by a map of
            their own at the start of D (Section 6.1). Good value: 0.
        sources: averages over at most so many equal cells of D are attended to, in place of points, for large grids;
            None is all points. Good values in two dimensions: 256, 1024 for more accuracy.
        waves: sines and cosines of the position along each axis that the lift sees. Good values: 0 (the paper), 8.

    Example:
        >>> operator = TNO(dim=1, in_channels=1, out_channels=1, hidden_channels=16, n_layers=2, n_heads=4)
        >>> z = operator(torch.rand(3, 1, 50), Grid.uniform(50), query=Grid.uniform(200))
        >>> z.shape
        torch.Size([3, 1, 200])
    """

    is_pointwise = True

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        *,
        n_layers: int = 6,
        n_heads: int = 8,
        initial_channels: int = 0,
        sources: int | None = None,
        waves: int = 0,
    ) -> None:
        super().__init__(dim, in_channels, out_channels, hidden_channels, n_layers)
        check_count("initial_channels", initial_channels, least=0)
        self.n_heads, self.initial_channels, self.waves = n_heads, initial_channels, waves
        self.sources = sources
        self.network = pointwise_network(self, n_heads, initial_channels, waves)

    @property
    def sources(self) -> int | None:
        """How many averages are attended to at most; None is all points. May be set on a trained operator."""
        return self._sources

    @sources.setter
    def sources(self, most: int | None) -> None:
        check_sources(most)
        if most is not None and self.initial_channels:
            raise UsageError("sources are averages over cells, and initial_channels live at one point: give either")
        self._sources = most

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        looking = self.initial_channels > 0 and not torch.compiler.is_compiling() and not u.is_meta
        if looking and not bool(is_start(self.position(grid)).any(-1).all()):
            raise UsageError(f"the initial condition needs a point at the start of D, and {grid} has none; use nodes")
        return apply_pointwise(self.network, self, u, grid, query, self.measure(grid, self.sources))

    def measure(self, grid: Grid, most: int | None) -> Measure:
        """What is attended to: all points, or at most so many averages."""
        attention = attention_of(self.network.layers)
        if most is not None and most < prod(grid.shape):
            return self.on(grid, lambda: average_over_cells(grid, most), f"{most} sources")
        # Whether weights are split depends on the precision of the moment.
        return self.on(grid, lambda: attention.on(grid), f"attention in {attention.average_dtype}")


class UniversalTNO(Operator):
    """T_out o E o T_in of Section 5: two-layer T_in and T_out fed with x, learnable W_1 and W_2, no LayerNorm.

    This is the architecture of Theorems ua1 and ua2. With Q = K = 0 and V = I its attention is the mean over D.
    """

    is_pointwise = True

    def __init__(
        self, dim: int, in_channels: int, out_channels: int, hidden_channels: int = 128, *, n_layers: int = 1
    ) -> None:
        super().__init__(dim, in_channels, out_channels, hidden_channels, n_layers)
        layers = [UniversalLayer(SelfAttention(hidden_channels), hidden_channels) for _ in range(n_layers)]
        self.network = Composition(
            TwoLayerMap(in_channels, dim, hidden_channels, hidden_channels),
            layers,
            TwoLayerMap(hidden_channels, dim, hidden_channels, out_channels),
        )

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        attention = attention_of(self.network.layers)
        measure = self.on(grid, lambda: attention.on(grid), f"attention in {attention.average_dtype}")
        return apply_pointwise(self.network, self, u, grid, query, measure)


def pointwise_network(operator: Operator, n_heads: int, initial_channels: int = 0, waves: int = 0) -> Composition:
    """Lift, encoder and head of the TNO."""
    dim, in_channels, width = operator.dim, operator.in_channels, operator.hidden_channels
    check_heads(width, n_heads)
    if initial_channels >= in_channels:
        raise UsageError(f"initial_channels must be fewer than in_channels: got {initial_channels} and {in_channels}")
    layers = [EncoderLayer(MultiHeadAttention(width, n_heads), width) for _ in range(operator.n_layers)]
    lift = (
        InitialLift(in_channels, dim, width, initial_channels, waves)
        if initial_channels
        else PointwiseLift(in_channels, dim, width, waves)
    )
    return Composition(lift, layers, PointwiseHead(width, operator.out_channels))


def apply_pointwise(
    network: Composition,
    operator: Operator,
    u: Tensor,
    grid: Grid,
    query: Grid | None,
    measure: Measure,
) -> Tensor:
    """A network of points and channels, applied to channels-first values on grids.

    Where the query has points that the grid has not, the input there is interpolated.
    """
    values, x = u.flatten(2).transpose(1, 2), operator.position(grid)
    if query is None:
        z, shape = network(values, x, measure), grid.shape
    else:
        there = interpolate(u, grid, query).flatten(2).transpose(1, 2)
        z, shape = network(values, x, measure, (there, operator.position(query))), query.shape
    return z.transpose(1, 2).unflatten(-1, shape)


class Transformer(Operator):
    """The network of the TNO with the attention of Definition 2: every point counts the same, wherever the points lie.

    It sees the same values and coordinates and has the same parameters as the TNO; only the weights of the grid are
    left out. Where points crowd, it attends more.
    """

    is_pointwise = True

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        *,
        n_layers: int = 6,
        n_heads: int = 8,
    ) -> None:
        super().__init__(dim, in_channels, out_channels, hidden_channels, n_layers)
        self.n_heads = n_heads
        self.network = pointwise_network(self, n_heads)

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        # On a ragged grid every point counts the same, and what was added does not.
        measure = Measure(None if grid.counts is None else log_density(is_point(grid).squeeze(1)))
        return apply_pointwise(self.network, self, u, grid, query, measure)
