"""Continuum attention (Section 2, Definitions 1-8) and its multi-head form (equation multihead1)."""

# DESIGN.md: Log-weights are a bias of the scores
# DESIGN.md: Half precision stays inside attention
# DESIGN.md: Scores are divided by the root of the head's size

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from operformer.checking import checked
from operformer.domain import Grid
from operformer.domain.grid import check_weights
from operformer.errors import UsageError
from operformer.operators.backends import ATTENTION, Call, compute
from operformer.operators.few_weights import NearlyEqual, is_faster, split_weights
from operformer.settings import converted, named


def attention(query: Tensor, key: Tensor, value: Tensor, weights: Tensor | None = None, scale: float = 1.0) -> Tensor:
    """Weighted softmax attention: a quadrature of E_{y ~ q(.; u, v, x)}[V v(y)] (Definitions 4 and 8).

        sum_j w_j exp(scale <q_i, k_j>) v_j / sum_j w_j exp(scale <q_i, k_j>)

    Adding log w to the scores turns the sums of the softmax into the quadrature rule w, so the result converges to an
    integral as the points get denser. Equal weights are Vaswani et al. (Definitions 2 and 6).

    Args:
        query: (..., n, d_k), one row per point where the result is wanted.
        key: (..., m, d_k), one row per point attended to.
        value: (..., m, d_v), one row per point attended to.
        weights: (m,) or (..., m), the quadrature weights of the points attended to, not negative; None is equal
            weights. A point of weight zero is absent. Good value: ``grid.weights.flatten()``.
        scale: factor of the scores. Good values: 1, the paper's, or d_k ** -0.5.

    Returns:
        (..., n, d_v). Half-precision inputs give float32: averages tolerate rounding, values kept per point do not.
        Memory grows linearly with n and m.

    Example:
        >>> grid = Grid.uniform(101)
        >>> q, k, v = torch.rand(3, 101, 8, dtype=torch.float64)
        >>> attention(q, k, v, grid.weights).shape
        torch.Size([101, 8])
    """
    if not torch.compiler.is_compiling():
        _check_tensors(query, key, value, weights, scale)
    _check_shapes(query, key, value, weights)
    if weights is None:
        return attend(query, key, value, Measure(), scale)
    if not torch.compiler.is_compiling():
        check_weights(weights)
    return attend(query, key, value, Measure(log_density(weights)), scale)


class Cells(Protocol):
    """Parts of D whose averages are attended to in place of points."""

    def average(self, v: Tensor) -> Tensor:
        """(batch, n, c) -> (batch, m, c)."""


@dataclass(frozen=True, eq=False)
class Measure:
    """What attention knows of the points it attends to.

    ``log_weights`` is log w, (m,) or (..., m), None where all weights are equal. ``nearly_equal`` says where few points
    weigh less than the others, if that is faster. ``cells`` takes averages that stand for all points (`TNO.sources`).
    """

    log_weights: Tensor | None = None
    nearly_equal: NearlyEqual | None = None
    cells: Cells | None = None


def log_density(weights: Tensor) -> Tensor:
    """log w, up to a constant that the softmax does not see: its largest value is 0, so equal weights are exact."""
    weights = weights.double()
    present = weights > 0
    logarithm = torch.where(present, torch.where(present, weights, 1.0).log(), -torch.inf)
    return logarithm - logarithm.amax(-1, keepdim=True)


def attend(query: Tensor, key: Tensor, value: Tensor, measure: Measure, scale: float, wide: bool = True) -> Tensor:
    """`attention` with a measure that was checked before, by the first backend that applies: no look at values.

    Half-precision inputs give float32 if ``wide``, else their own precision.
    """
    average = compute(ATTENTION, Call(query, key, value, measure.log_weights, measure.nearly_equal, scale, wide))
    return average if wide else average.to(query.dtype)


def measure_of(grid: Grid, head: int, like: Tensor, average_dtype: torch.dtype | None) -> Measure:
    """The measure of a grid for heads of ``head`` channels, on the device of ``like``."""
    if grid.counts is not None:
        return Measure(log_density(grid.weights.squeeze(1)).to(like.device))
    if grid.has_equal_weights:
        return Measure()
    log_weights = log_density(grid.weights.flatten()).to(like.device)
    if not is_faster(average_dtype or like.dtype, head, like.device):
        return Measure(log_weights)
    return Measure(log_weights, split_weights(grid, log_weights))


class MultiHeadAttention(nn.Module):
    """W_MultiHead (A(v; Q_1, K_1, V_1), ..., A(v; Q_H, K_H, V_H)) with d_K = d_model / H (equation multihead1).

    ``average_dtype`` is the precision of query, key and value inside the average (see `set_precision`).
    """

    def __init__(self, channels: int, n_heads: int) -> None:
        super().__init__()
        check_heads(channels, n_heads)
        self.n_heads = n_heads
        # Paper: <Qu, Kv>. Divided by sqrt(d_K), as in the authors' code: the same functions, from a better start.
        self.scale = (channels // n_heads) ** -0.5
        self.average_dtype: torch.dtype | None = None
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.merge = nn.Linear(channels, channels)

    def on(self, grid: Grid) -> Measure:
        """What it needs of the grid."""
        weight = self.query.weight
        return measure_of(grid, weight.shape[0] // self.n_heads, weight, self.average_dtype)

    def forward(self, v: Tensor, measure: Measure, source: Tensor | None = None) -> Tensor:
        """Self-attention of v (batch, n, c), or its cross-attention to ``source`` (batch, m, c), weighted by it."""
        source = v if source is None else source
        if measure.cells is not None:
            source = measure.cells.average(source)
        query, key, value = (self._split(t) for t in (self.query(v), self.key(source), self.value(source)))
        average = attend(query, key, value, for_heads(measure), self.scale)
        return self.merge(average.to(v.dtype).transpose(-3, -2).flatten(-2))

    def _split(self, t: Tensor) -> Tensor:
        return t.to(self.average_dtype or t.dtype).unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)


def for_heads(measure: Measure) -> Measure:
    """The measure with an axis for the heads where each sample has its own weights."""
    if measure.log_weights is None or measure.log_weights.ndim == 1:
        return measure
    return Measure(measure.log_weights.unsqueeze(1))


class SelfAttention(nn.Module):
    """A(v; Q, K, V)(x) = E_{y ~ p(y; v, x)}[V v(y)] (Definition 4): one head, no merge, no bias, as in Section 5."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.average_dtype: torch.dtype | None = None
        self.query = nn.Linear(channels, channels, bias=False)
        self.key = nn.Linear(channels, channels, bias=False)
        self.value = nn.Linear(channels, channels, bias=False)

    def on(self, grid: Grid) -> Measure:
        """What it needs of the grid."""
        return measure_of(grid, self.query.weight.shape[0], self.query.weight, self.average_dtype)

    def forward(self, v: Tensor, measure: Measure, source: Tensor | None = None) -> Tensor:
        """Self-attention of v (batch, n, c), or its cross-attention to ``source`` (batch, m, c), weighted by it."""
        source = v if source is None else source
        projected = (self.query(v), self.key(source), self.value(source))
        query, key, value = (t.to(self.average_dtype or t.dtype) for t in projected)
        return attend(query, key, value, measure, 1.0).to(v.dtype)


def check_heads(channels: int, n_heads: int) -> None:
    """Refuse a number of heads that does not divide the channels, and name those that do."""
    if not isinstance(n_heads, int):
        raise UsageError(f"n_heads must be a whole number: got {n_heads!r}")
    if n_heads >= 1 and channels >= 1 and channels % n_heads == 0:
        return
    divisors = [h for h in range(1, max(channels, 1) + 1) if channels % h == 0]
    near = sorted(sorted(divisors, key=lambda h: abs(h - n_heads))[:2])
    remedy = f"try {' or '.join(map(str, near))}" if near else "give more channels"
    raise UsageError(f"n_heads must divide hidden_channels: got {n_heads} and {channels}; {remedy}")


def _check_tensors(query: Tensor, key: Tensor, value: Tensor, weights: Tensor | None, scale: float) -> None:
    for name, one in (("query", query), ("key", key), ("value", value), ("weights", weights)):
        if one is None and name == "weights":
            continue
        if not isinstance(one, Tensor) or one.layout != torch.strided:
            raise UsageError(f"{name} must be a dense tensor: got {named(one)}")
        if one.is_complex() or (name != "weights" and not one.is_floating_point()):
            raise UsageError(f"{name} must hold real numbers: got {one.dtype}")
        if one.device != query.device:
            raise UsageError(f"{name} must be on {query.device} like query: got {one.device}")
    converted(scale, float, "scale")


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, weights: Tensor | None) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise UsageError(f"attention needs (..., points, channels): got {shapes}")
    if query.shape[-1] != key.shape[-1]:
        raise UsageError(f"query and key must have as many channels as each other: got {shapes}")
    if key.shape[-2] != value.shape[-2]:
        raise UsageError(f"key and value must live on the same points: got {shapes}")
    if not query.dtype == key.dtype == value.dtype:
        raise UsageError(
            f"query, key and value must share a dtype: got {query.dtype}, {key.dtype}, {value.dtype}; cast them"
        )
    if key.shape[-2] == 0:
        raise UsageError(f"attention needs at least one key to attend to: got {shapes}")
    if weights is not None and (weights.ndim < 1 or weights.shape[-1] != key.shape[-2]):
        raise UsageError(f"weights must be (..., {key.shape[-2]}), one for each key: got {tuple(weights.shape)}")
    try:
        batches = [t.shape[:-2] for t in (query, key, value)]
        torch.broadcast_shapes(*batches, () if weights is None else weights.shape[:-1])
    except RuntimeError:
        given = "" if weights is None else f", weights {tuple(weights.shape)}"
        raise UsageError(f"what stands before the points must broadcast: got {shapes}{given}") from None


Module = TypeVar("Module", bound=nn.Module)


@checked
def set_precision(operator: Module, averages: torch.dtype | None) -> Module:
    """Round query, key and value to ``averages`` inside every attention of the operator; None undoes it.

    Every module with an ``average_dtype`` is meant. On a GPU float16, with products in TF32 allowed, also chooses fused
    layers (`composition.can_fuse`); elsewhere values are rounded and averaged in float32.
    """
    if averages not in (None, torch.float16, torch.bfloat16):
        raise UsageError(f"averages must be None, torch.float16 or torch.bfloat16: got {averages}")
    for module in operator.modules():
        if hasattr(module, "average_dtype"):
            module.average_dtype = averages  # type: ignore[assignment]  # a plain attribute, which nn.Module hides
    return operator
