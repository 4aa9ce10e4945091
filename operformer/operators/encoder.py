"""The layers of the encoder E_L, T_in and T_out (Section 4.1, equations recurrence_enc_def to NN).

Inside an operator the channels come last: a latent function v is (batch, points, channels).
"""

from __future__ import annotations

from math import pi
from typing import Any

import torch
from torch import Tensor, nn

from operformer.domain.products import are_rounded, exact_matmul
from operformer.errors import UsageError

FEW = 8  # channels


class EncoderLayer(nn.Module):
    """v <- LayerNorm(W_1 v + A(v));  v <- LayerNorm(W_2 v + W_3 f(W_4 v + b_1) + b_2) (equation recurrence_enc_def).

    The attention A is passed in: a module with ``on(grid)`` that maps (v, what it made of the grid, source) to a
    function on the points of v. W_1 and W_2 are the identity, as in the paper's experiments, unless
    ``learnable_skips``.
    """

    def __init__(self, attention: nn.Module, channels: int, learnable_skips: bool = False) -> None:
        super().__init__()
        self.attention = attention
        self.skip_1 = nn.Linear(channels, channels, bias=False) if learnable_skips else nn.Identity()
        self.norm_1 = nn.LayerNorm(channels)
        self.skip_2 = nn.Linear(channels, channels, bias=False) if learnable_skips else nn.Identity()
        self.norm_2 = nn.LayerNorm(channels)
        self.feed_forward = two_layers(channels, channels, channels)

    def forward(self, v: Tensor, measure: Any, source: Tensor | None = None) -> Tensor:
        """The next v. ``measure`` is what the attention made of the grid, ``source`` what it attends to (None: v)."""
        return self.updated(v, self.attention(v, measure, source))

    def updated(self, v: Tensor, attended: Tensor) -> Tensor:
        """The next v at each point, from what its attention is there."""
        v = self.norm_1(self.skip_1(v) + attended)
        return self.norm_2(self.skip_2(v) + self.feed_forward(v))


def attention_of(layers: nn.ModuleList) -> Any:
    """The attention of the layers, which all have the same settings."""
    return layers[0].attention


class UniversalLayer(EncoderLayer):
    """v <- W_1 v + A(v);  v <- W_2 v + W_3 f(W_4 v + b_1) + b_2, the layer of Section 5: no LayerNorm."""

    def __init__(self, attention: nn.Module, channels: int) -> None:
        super().__init__(attention, channels, learnable_skips=True)
        self.norm_1, self.norm_2 = nn.Identity(), nn.Identity()  # type: ignore[assignment]


class PointwiseLift(nn.Module):
    """T_in(u)(x) = W_in (u(x), x) (equation concat), plus `Waves` where there are any."""

    def __init__(self, in_channels: int, dim: int, hidden_channels: int, waves: int = 0) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels + dim, hidden_channels)
        self.waves = make_waves(dim, hidden_channels, waves)

    def forward(self, u: Tensor, x: Tensor) -> Tensor:
        """(batch, n, in_channels), (n, d) -> (batch, n, hidden_channels)."""
        v = exact_linear(self.linear, _with_points(u, x))
        return v if self.waves is None else v + self.waves(x)


class Waves(nn.Module):
    """W (sin k pi x_j, cos k pi x_j), k = 1, ..., count: positions that a linear map of x can hardly tell apart."""

    def __init__(self, dim: int, hidden_channels: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.linear = nn.Linear(2 * count * dim, hidden_channels, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., n, d) -> (..., n, hidden_channels)."""
        phases = pi * x.unsqueeze(-1) * torch.arange(1, self.count + 1, dtype=x.dtype, device=x.device)
        waves = torch.cat([phases.sin(), phases.cos()], -1).flatten(-2)
        return exact_matmul(waves, self.linear.weight.T)


def make_waves(dim: int, hidden_channels: int, count: int) -> Waves | None:
    """``count`` waves along each axis; none if 0."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise UsageError(f"waves must be a whole number of at least 0: got {count!r}; try 8")
    return Waves(dim, hidden_channels, count) if count else None


class InitialLift(nn.Module):
    """W_in (u(t), t) for t > 0 and W_in0 (u(0), u_0, 0) at t = 0 (Section 6.1, Lorenz 63 with y(0) and z(0)).

    The last ``initial_channels`` channels of the input hold u_0, the same at every t; they are read at the point t = 0.
    """

    def __init__(self, in_channels: int, dim: int, hidden_channels: int, initial_channels: int, waves: int = 0) -> None:
        super().__init__()
        self.initial_channels = initial_channels
        self.linear = nn.Linear(in_channels - initial_channels + dim, hidden_channels)
        self.initial = nn.Linear(in_channels + dim, hidden_channels)
        self.waves = make_waves(dim, hidden_channels, waves)

    def forward(self, u: Tensor, x: Tensor) -> Tensor:
        """(batch, n, in_channels), (n, d) -> (batch, n, hidden_channels)."""
        later = exact_linear(self.linear, _with_points(u[..., : -self.initial_channels], x))
        at_start = exact_linear(self.initial, _with_points(u, x))
        v = torch.where(is_start(x).unsqueeze(-1), at_start, later)
        return v if self.waves is None else v + self.waves(x)


def is_start(x: Tensor) -> Tensor:
    """Which of the points (n, d), in units of the domain, are its lower corner, up to the rounding of float32."""
    return (x.abs() < 1e-6).all(-1)


class PointwiseHead(nn.Module):
    """T_out(v)(x) = W_out v(x)."""

    def __init__(self, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_channels, out_channels)

    def forward(self, v: Tensor, x: Tensor) -> Tensor:
        """(..., hidden_channels) -> (..., out_channels); x is not looked at."""
        return exact_linear(self.linear, v)


class TwoLayerMap(nn.Module):
    """R_2 f(R_1 (u(x), x) + b) + b', the T_in and T_out of Section 5."""

    def __init__(self, in_channels: int, dim: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.network = two_layers(in_channels + dim, hidden_channels, out_channels)

    def forward(self, u: Tensor, x: Tensor) -> Tensor:
        """(batch, n, in_channels), (n, d) -> (batch, n, out_channels)."""
        return self.network(_with_points(u, x))


def two_layers(in_channels: int, hidden_channels: int, out_channels: int) -> nn.Sequential:
    """W_3 f(W_4 v + b_1) + b_2 with f = GELU, smooth and not a polynomial (equation NN)."""
    return nn.Sequential(nn.Linear(in_channels, hidden_channels), nn.GELU(), nn.Linear(hidden_channels, out_channels))


def exact_linear(linear: nn.Linear, x: Tensor) -> Tensor:
    """The linear map of a function with few channels, or to few: by sums where TF32 would round it at each point."""
    if not are_rounded(x) or min(linear.in_features, linear.out_features) > FEW:
        return linear(x)
    if linear.in_features <= FEW:
        y: Tensor = linear.bias
        for k in range(linear.in_features):
            y = y + x[..., k : k + 1] * linear.weight[:, k]
        return y
    return torch.stack([(x * row).sum(-1) for row in linear.weight], -1) + linear.bias


def _with_points(u: Tensor, x: Tensor) -> Tensor:
    return torch.cat([u, x.expand(*u.shape[:-1], -1)], -1)
