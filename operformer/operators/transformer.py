"""The plain transformer of Vaswani et al., the baseline of Section 6.1: the TNO without quadrature."""

from __future__ import annotations

from torch import Tensor

from operformer.domain import Grid
from operformer.domain.ragged import is_point
from operformer.operators.attention import Measure, log_density
from operformer.operators.operator import Operator
from operformer.operators.tno import apply_pointwise, pointwise_network


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
