"""How far sources move an operator's output: attention to M averages in place of all points (`TNO.sources`)."""

# DESIGN.md: The error of sources is estimated twice

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from operformer.checking import checked
from operformer.domain import Grid, l2_norm
from operformer.errors import UsageError
from operformer.evaluation.loss import relative_l2
from operformer.operators import TNO, Operator
from operformer.operators.sources import per_axis
from operformer.operators.wrappers import Wrapper

QUERIES = 256  # points that attend to all others
MULTIPLE = 2.0  # times the sum of both differences, whose signs are not known


@checked
def source_error(operator: Operator, u: Tensor, grid: Grid | None = None) -> Tensor:
    """An estimated bound of how far the output with `TNO.sources` is from that with attention to all points.

    It is twice the sum of two differences of the output. Half as many cells along each axis show what depends on the
    size of the cells. Points drawn at random, which attend to all points in each layer, show what no cells of this size
    see. The cost is that of three predictions with sources, far below that of attention to all points.

    Args:
        operator: a TNO, or a wrapper around one.
        u: (batch, in_channels, *shape), as the operator takes it.
        grid: where u is known; as for the operator if not given.

    Returns:
        (batch,), relative L2 differences; 0 where there are no more points than sources, or no sources. In more than
        95 % of trials with random operators and functions the true difference was smaller; four times in the median.

    Example:
        >>> operator = TNO(dim=2, in_channels=1, out_channels=1, hidden_channels=16, n_layers=2, sources=64)
        >>> source_error(operator, torch.rand(3, 1, 48, 48)).shape
        torch.Size([3])
    """
    inner = operator
    while isinstance(inner, Wrapper):
        inner = inner.operator
    if not isinstance(inner, TNO):
        raise UsageError(f"source_error needs a TNO, which has sources: got {inner.kind}")
    where = Grid.uniform(tuple(u.shape[2:]), inner.bounds).to(u.device) if grid is None else grid
    if inner.sources is None or inner.sources >= prod(where.shape):
        return u.new_zeros(len(u))
    with torch.no_grad():
        z = operator(u, where)
        return MULTIPLE * (_with_fewer(inner, operator, u, z, where) + _at_points(inner, u, z, where))


def sentence(operator: Operator, errors: Tensor) -> str:
    """The largest estimate for a terminal."""
    most, functions = (
        getattr(operator, "sources", None),
        "1 function" if len(errors) == 1 else f"{len(errors)} functions",
    )
    largest = 100 * float(errors.max())
    if not largest:
        return f"sources: {most} are all points there; no error"
    return f"sources: {most} in place of all points change the output by at most about {largest:.2g} % ({functions})"


def _with_fewer(inner: TNO, operator: Operator, u: Tensor, z: Tensor, grid: Grid) -> Tensor:
    """How far the output moves with half as many cells along each axis."""
    most = inner.sources
    try:
        inner.sources = max(1, (per_axis(most or 1, inner.dim) // 2) ** inner.dim)
        return relative_l2(operator(u, grid), z, grid)
    finally:
        inner.sources = most


def _at_points(inner: TNO, u: Tensor, z: Tensor, grid: Grid) -> Tensor:
    """How far it moves at points drawn by their weight that attend to all points, which are as sources made them."""
    network, x = inner.network, inner.position(grid)
    few, full = inner.measure(grid, inner.sources), inner.measure(grid, None)
    weights = grid.weights.reshape(1 if grid.counts is None else len(u), -1)
    draw = torch.Generator(weights.device).manual_seed(0)
    index = torch.multinomial(weights, QUERIES, replacement=True, generator=draw).expand(len(u), -1).unsqueeze(-1)
    mean, scale = (t.reshape(-1, *[1] * grid.n_axes) for t in (inner.input_mean, inner.input_scale))
    v = network.lift(((u - mean) / scale).flatten(2).transpose(1, 2), x)
    exact = v.gather(1, index.expand(-1, -1, v.shape[-1]))
    for layer in network.layers:
        exact, v = layer(exact, full, v), layer(v, few)
    found = v.gather(1, index.expand(-1, -1, v.shape[-1]))
    difference = (network.head(found, x) - network.head(exact, x)) * inner.output_scale
    return difference.square().sum(-1).mean(-1).sqrt() * grid.volume**0.5 / l2_norm(z, grid)
