"""The transformer neural operator, TNO (Section 4.2, Appendix B.1), and its universal variant (Section 5)."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.domain.interpolation import interpolate
from operformer.errors import UsageError
from operformer.operators.attention import MultiHeadAttention, SelfAttention, Sources, check_heads, log_density
from operformer.operators.composition import Composition
from operformer.operators.encoder import (
    EncoderLayer,
    InitialLift,
    NormPlace,
    PointwiseHead,
    PointwiseLift,
    TwoLayerMap,
    checked_norm,
    is_start,
)
from operformer.operators.few_weights import NearlyEqual, is_faster, split_weights
from operformer.operators.operator import Operator, constructor_settings
from operformer.operators.sources import check_sources, choose_sources


class TNO(Operator):
    """G = T_out o E_L o T_in with the continuum attention of Definition 4, weighted by the quadrature of the grid.

    Any grid in D will do, and any ``query`` points for the output. ``initial_channels`` of the input channels are an
    initial condition, lifted by a map of their own (Section 6.1). ``sources`` is how many points are attended to at
    most, for large grids: the integrals over D by a coarser rule, the output at all points. ``norm`` is where a layer
    normalises, ``waves`` how many waves along each axis the lift is told beside x. ``adds_input`` makes it u + G(u),
    for maps near the identity, such as a flow over a short time. Good values: the defaults, which are the paper's;
    ``waves=8`` for accuracy; ``sources=1024`` in two dimensions.
    """

    is_pointwise = True

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        n_layers: int = 6,
        n_heads: int = 8,
        initial_channels: int = 0,
        learnable_skips: bool = False,
        sources: int | None = None,
        norm: NormPlace = "after",
        waves: int = 0,
        adds_input: bool = False,
    ) -> None:
        settings = constructor_settings(locals())
        super().__init__(dim, in_channels, out_channels, settings)
        self.initial_channels = initial_channels
        self.sources = sources
        self.network = pointwise_network(
            dim,
            in_channels,
            out_channels,
            hidden_channels,
            n_layers,
            n_heads,
            initial_channels,
            learnable_skips,
            checked_norm(norm),
            waves,
        )

    @property
    def sources(self) -> int | None:
        """How many points are attended to at most; None is all of them. May be set on a trained operator."""
        return self.settings["sources"]

    @sources.setter
    def sources(self, most: int | None) -> None:
        check_sources(most, self.dim)
        if most is not None and self.initial_channels:
            raise UsageError("sources leaves points out, and initial_channels live at one of them: give either")
        self.settings["sources"] = most

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        looking = self.initial_channels > 0 and not torch.compiler.is_compiling() and not u.is_meta
        if looking and not bool(is_start(self.position(grid)).any(-1).all()):
            raise UsageError(f"the initial condition needs a point at the start of D, and {grid} has none; use nodes")
        return apply_pointwise(self.network, self, u, grid, query, self._measure(grid))

    def _measure(self, grid: Grid) -> Tensor | NearlyEqual | Sources | None:
        if self.sources is not None and self.sources < prod(grid.shape):
            return choose_sources(grid, self.sources)
        return measure_of(self.network, grid)


class UniversalTNO(Operator):
    """T_out o E o T_in of Section 5: two-layer T_in and T_out fed with x, learnable W_1 and W_2, no LayerNorm.

    This is the architecture of Theorems ua1 and ua2. With Q = K = 0 and V = I its attention is the mean over D.
    """

    is_pointwise = True

    def __init__(
        self, dim: int, in_channels: int, out_channels: int, hidden_channels: int = 128, n_layers: int = 1
    ) -> None:
        settings = constructor_settings(locals())
        super().__init__(dim, in_channels, out_channels, settings)
        layers = [
            EncoderLayer(SelfAttention(hidden_channels), hidden_channels, learnable_skips=True, norm=None)
            for _ in range(n_layers)
        ]
        self.network = Composition(
            TwoLayerMap(in_channels, dim, hidden_channels, hidden_channels),
            layers,
            TwoLayerMap(hidden_channels, dim, hidden_channels, out_channels),
        )

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        return apply_pointwise(self.network, self, u, grid, query, measure_of(self.network, grid))


def measure_of(network: Composition, grid: Grid) -> Tensor | NearlyEqual | None:
    """What a network's attention is told of the grid: log w, and which weights differ where that makes it faster."""
    log_weights, attention = log_weights_of(grid), network.layers[0].attention
    if log_weights is None or not isinstance(attention, MultiHeadAttention | SelfAttention):
        return log_weights
    weight = attention.query.weight
    head = weight.shape[0] // getattr(attention, "n_heads", 1)
    if not is_faster(attention.average_dtype or weight.dtype, head, weight.device):
        return log_weights
    return split_weights(grid, log_weights.to(weight.device)) or log_weights


def log_weights_of(grid: Grid) -> Tensor | None:
    """log w of the points (N,), or (batch, N) on a ragged grid; None where all weights are equal."""
    if grid.counts is not None:
        return log_density(grid.weights.squeeze(1))
    return None if grid.has_equal_weights else log_density(grid.weights.flatten())


def pointwise_network(
    dim: int,
    in_channels: int,
    out_channels: int,
    hidden_channels: int,
    n_layers: int,
    n_heads: int,
    initial_channels: int = 0,
    learnable_skips: bool = False,
    norm: NormPlace = "after",
    waves: int = 0,
) -> Composition:
    """Lift, encoder and head of the TNO."""
    check_heads(hidden_channels, n_heads)
    if initial_channels >= in_channels:
        raise UsageError(f"initial_channels must be fewer than in_channels: got {initial_channels} and {in_channels}")
    layers = [
        EncoderLayer(MultiHeadAttention(hidden_channels, n_heads), hidden_channels, learnable_skips, norm)
        for _ in range(n_layers)
    ]
    lift = (
        InitialLift(in_channels, dim, hidden_channels, initial_channels, waves)
        if initial_channels
        else PointwiseLift(in_channels, dim, hidden_channels, waves)
    )
    return Composition(lift, layers, PointwiseHead(hidden_channels, out_channels, norm))


def apply_pointwise(
    network: Composition,
    operator: Operator,
    u: Tensor,
    grid: Grid,
    query: Grid | None,
    log_weights: Tensor | NearlyEqual | Sources | None,
) -> Tensor:
    """A network of points and channels, applied to channels-first values on grids.

    Where the query has points that the grid has not, the input there is interpolated.
    """
    values, x = u.flatten(2).transpose(1, 2), operator.position(grid)
    if query is None:
        z, shape = network(values, x, log_weights), grid.shape
    else:
        there = interpolate(u, grid, query).flatten(2).transpose(1, 2)
        z, shape = network(values, x, log_weights, (there, operator.position(query))), query.shape
    return z.transpose(1, 2).unflatten(-1, shape)
