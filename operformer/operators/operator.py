"""What every operator has in common: `z = operator(u, grid)`, physical units in and out, safe files (Section 4.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import save
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.box import Bounds
from operformer.domain.samples import is_point
from operformer.errors import UsageError
from operformer.files import write_bytes, write_json

LARGEST_DEPTH = 256


class Operator(nn.Module, ABC):
    """A map between function spaces, u (batch, in_channels, *shape) on a grid to z (batch, out_channels, *shape).

    The input is normalised by buffers that travel with the weights, and the output is brought back to physical units;
    fresh from its constructor an operator has mean 0, scale 1 and the coordinates as they are. ``settings`` are the
    constructor's arguments, from which `operformer.load` builds it again.
    """

    is_pointwise: ClassVar[bool] = False  # between attentions: takes a query, and functions on points of their own
    adds_input: bool = False  # what is learned is z - u
    is_zero_at_boundary: bool = False  # what is learned, whatever the weights are; a mean added to it would not be

    input_mean: Tensor
    input_scale: Tensor
    output_mean: Tensor
    output_scale: Tensor
    domain_lower: Tensor
    domain_extent: Tensor

    def __init__(self, dim: int, in_channels: int, out_channels: int, settings: dict[str, Any]) -> None:
        super().__init__()
        if dim not in (1, 2, 3) or not isinstance(dim, int) or isinstance(dim, bool):
            raise UsageError(f"dim must be 1, 2 or 3: got {dim!r}")
        for name, value in settings.items():
            if name.endswith("channels") or name == "n_layers":
                _check_count(name, value, least=0 if name == "initial_channels" else 1)
        if settings.get("n_layers", 1) > LARGEST_DEPTH:
            raise UsageError(f"n_layers must be at most {LARGEST_DEPTH}: got {settings['n_layers']}")
        self.dim, self.in_channels, self.out_channels = dim, in_channels, out_channels
        self.settings = settings
        self.adds_input = settings.get("adds_input", False)
        if not isinstance(self.adds_input, bool):
            raise UsageError(f"adds_input must be true or false: got {self.adds_input!r}")
        if self.adds_input and in_channels != out_channels:
            raise UsageError(f"adds_input needs as many channels out as in: got {out_channels} and {in_channels}")
        self.is_zero_at_boundary = settings.get("smoothing") == "dirichlet"
        self.kind = type(self).__name__  # for files; sharding gives the object another class
        self.register_buffer("input_mean", torch.zeros(in_channels))
        self.register_buffer("input_scale", torch.ones(in_channels))
        self.register_buffer("output_mean", torch.zeros(out_channels))
        self.register_buffer("output_scale", torch.ones(out_channels))
        self.register_buffer("domain_lower", torch.zeros(dim))
        self.register_buffer("domain_extent", torch.ones(dim))

    @abstractmethod
    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units, channels first, on values and grids that were checked."""

    def forward(self, u: Tensor, grid: Grid | None = None, query: Grid | None = None) -> Tensor:
        """z on the points of ``grid``, or on those of ``query``.

        None is equispaced nodes of the domain that the operator was trained on, the unit cube if it was not.
        """
        grid = self._checked(u, grid)
        if query is not None and query.dim != self.dim:
            raise UsageError(f"the query grid must have dimension {self.dim}: got {query.dim}")
        if query is not None and self.adds_input:
            raise UsageError("adds_input adds u where it is given: leave query= out")
        given = (u - _channelwise(self.input_mean, grid.n_axes)) / _channelwise(self.input_scale, grid.n_axes)
        z = self.transform(given, grid, query)
        n_axes = z.ndim - 2
        z = z * _channelwise(self.output_scale, n_axes) + _channelwise(self.output_mean, n_axes)
        z = z + u if self.adds_input else z
        return z if grid.counts is None or query is not None else z.where(is_point(grid).to(z.device), 0.0)

    @property
    def bounds(self) -> Bounds:
        """The box that the operator was trained on, the unit cube if it was not."""
        lower, extent = self.domain_lower.tolist(), self.domain_extent.tolist()
        return tuple((a, a + length) for a, length in zip(lower, extent, strict=True))

    def position(self, grid: Grid) -> Tensor:
        """The coordinates of the points, the domain the operator was trained on mapped to [0, 1]^d.

        (N, d), or (batch, N, d) on a ragged grid.
        """
        x = grid.points if grid.counts is not None else grid.points.reshape(-1, self.dim)
        x = x.to(self.domain_lower.device)
        return ((x - self.domain_lower.double()) / self.domain_extent.double()).to(self.domain_lower.dtype)

    def save_pretrained(self, folder: str | Path, weights: Mapping[str, Tensor] | None = None) -> None:
        """Write ``model.safetensors`` and ``config.json``; nothing in them can run.

        ``weights`` take the place of its own, such as averaged ones or those that several processes share.
        """
        folder = Path(folder)
        given = self.state_dict() if weights is None else weights
        write_bytes(folder / "model.safetensors", save({k: t.detach().cpu().contiguous() for k, t in given.items()}))
        write_json(folder / "config.json", {"operator": self.kind, "settings": self.settings})

    def _checked(self, u: Tensor, grid: Grid | None) -> Grid:
        """The grid of u, after both were compared with what the operator takes."""
        if not isinstance(u, Tensor):
            kind = str(self.input_mean.dtype)
            raise UsageError(f"u must be a torch tensor: got {type(u).__name__}; try torch.as_tensor(u, dtype={kind})")
        if grid is not None and not isinstance(grid, Grid):
            kind = type(grid).__name__
            raise UsageError(f"grid must be a Grid: got {kind}; try Grid.scattered(points) or Grid.uniform(shape)")
        if grid is not None and grid.dim != self.dim:
            raise UsageError(f"the grid must have dimension {self.dim}, the operator's dim: got {grid}")
        if grid is not None and grid.counts is not None and not self.is_pointwise:
            remedy = "give each sample alone, on grid.of_sample(k), or use a TNO"
            raise UsageError(f"{self.kind} takes samples of one grid: got {grid}; {remedy}")
        n_axes = self.dim if grid is None else grid.n_axes
        if u.ndim != n_axes + 2 or u.shape[1] != self.in_channels:
            axes = ", ".join(["*"] * n_axes if grid is None else [str(n) for n in grid.shape])
            raise UsageError(f"u must be (batch, {self.in_channels}, {axes}), channels first: got {tuple(u.shape)}")
        if u.dtype != self.input_mean.dtype or u.device != self.input_mean.device:
            raise UsageError(
                f"u must be {_name(self.input_mean)} like the operator: got {_name(u)}; try "
                f'u.to("{self.input_mean.device}", {self.input_mean.dtype})'
            )
        if grid is None:
            return Grid.uniform(tuple(u.shape[2:]), self.bounds)
        if tuple(u.shape[2:]) != grid.shape:
            axes = ", ".join(str(n) for n in grid.shape)
            raise UsageError(f"u must be (batch, {self.in_channels}, {axes}) on this grid: got {tuple(u.shape)}")
        if grid.counts is not None and len(grid.counts) != len(u):
            raise UsageError(f"a ragged grid needs points for each of {len(u)} samples: got {len(grid.counts)} sets")
        return grid


def constructor_settings(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor, from its locals(), as plain values that JSON can hold."""
    given = {name: value for name, value in arguments.items() if name not in ("self", "__class__")}
    return {name: list(value) if isinstance(value, list | tuple) else value for name, value in given.items()}


def _channelwise(values: Tensor, n_axes: int) -> Tensor:
    return values.reshape(-1, *[1] * n_axes)


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}: got {value!r}")


def _name(t: Tensor) -> str:
    return f"{str(t.dtype).removeprefix('torch.')} on {t.device}"


def computes_in(operator: Any) -> Tensor:
    """A tensor with the precision and the device that an operator, or any callable, computes in."""
    tensors = [*operator.parameters(), *operator.buffers()] if isinstance(operator, nn.Module) else []
    real = [t for t in tensors if t.is_floating_point()]
    return real[0] if real else torch.zeros((), dtype=torch.float64)
