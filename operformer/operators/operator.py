"""What every operator has in common: `z = operator(u, grid)`, physical units in and out, safe files (Section 4.1)."""

# DESIGN.md: Units travel with the weights
# DESIGN.md: Tables are made once for an operator and a grid

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, wraps
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar
from weakref import WeakKeyDictionary

import torch
from safetensors.torch import save
from torch import Tensor, nn

from operformer.checking import checked
from operformer.domain import Grid
from operformer.domain.box import Bounds
from operformer.domain.samples import Samples, is_point
from operformer.errors import UsageError
from operformer.files import write_bytes, write_json
from operformer.memory import require_memory
from operformer.settings import check_count, named
from operformer.version import VERSION

T = TypeVar("T")

LARGEST_DEPTH = 256
LARGEST_WIDTH = 2**20  # channels


class Operator(nn.Module, ABC):
    """A map between function spaces, u (batch, in_channels, *shape) on a grid to z (batch, out_channels, *shape).

    The input is normalised by buffers that travel with the weights, and the output is brought back to physical units.
    Fresh from its constructor an operator has mean 0, scale 1 and the coordinates as they are.

    Args:
        dim: dimension d of the domain, 1, 2 or 3.
        in_channels: components of u.
        out_channels: components of z.
        hidden_channels: width of the latent functions.
        n_layers: layers.
    """

    is_pointwise: ClassVar[bool] = False  # between attentions: takes functions on points of their own
    takes_query: ClassVar[bool] = True  # its output is known at every point of D, not on the grid of u alone
    adds_input: ClassVar[bool] = False  # what is learned is z - u; see `Increment`
    usual_kind: ClassVar[Literal["nodes", "periodic"]] = (
        "nodes"  # of uniform grids: what suits it where nothing else is said
    )
    wrappers: ClassVar[tuple[str, ...]] = ()  # the names of the wrappers around it, the innermost first

    input_mean: Tensor
    input_scale: Tensor
    output_mean: Tensor
    output_scale: Tensor
    domain_lower: Tensor
    domain_extent: Tensor

    def __init__(self, dim: int, in_channels: int, out_channels: int, hidden_channels: int, n_layers: int) -> None:
        super().__init__()
        if dim not in (1, 2, 3):
            raise UsageError(f"dim must be 1, 2 or 3: got {dim!r}")
        check_count("in_channels", in_channels)
        check_count("out_channels", out_channels)
        check_count("hidden_channels", hidden_channels)
        check_count("n_layers", n_layers)
        if max(in_channels, out_channels, hidden_channels) > LARGEST_WIDTH:
            widths = f"{in_channels}, {out_channels} and {hidden_channels}"
            raise UsageError(f"in, out and hidden channels must be at most {LARGEST_WIDTH}: got {widths}")
        if n_layers > LARGEST_DEPTH:
            raise UsageError(f"n_layers must be at most {LARGEST_DEPTH}: got {n_layers}")
        self.dim, self.in_channels, self.out_channels = dim, in_channels, out_channels
        self.hidden_channels, self.n_layers = hidden_channels, n_layers
        self.partition = (1,) * dim  # patches along each axis of D; all of D is one
        # For files; sharding gives the object another class.
        self.kind, self._names = type(self).__name__, tuple(signature(type(self)).parameters)
        self._per_grid = PerGrid()
        self.register_buffer("input_mean", torch.zeros(in_channels))
        self.register_buffer("input_scale", torch.ones(in_channels))
        self.register_buffer("output_mean", torch.zeros(out_channels))
        self.register_buffer("output_scale", torch.ones(out_channels))
        self.register_buffer("domain_lower", torch.zeros(dim))
        self.register_buffer("domain_extent", torch.ones(dim))

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            is_ours = cls.__module__.startswith("operformer.")
            cls.__init__ = _measured(checked(cls.__init__) if is_ours else cls.__init__)  # type: ignore[method-assign]

    @abstractmethod
    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units, channels first, on values and grids that were checked."""

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, kept under their names, as plain values for JSON."""
        return {name: _plain(getattr(self, name)) for name in self._names}

    def extra_repr(self) -> str:
        """The settings, for the first line of what torch prints of a module."""
        told = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{told}; {self.n_parameters:,} parameters"

    @property
    def n_parameters(self) -> int:
        """The numbers that are learned."""
        return sum(p.numel() for p in self.parameters())

    @property
    def is_zero_at_boundary(self) -> bool:
        """Whether the learned output is zero at the boundary, whatever the weights; it then has no mean to be added."""
        return False

    def takes(self, grid: Grid) -> bool:
        """Whether the operator can be applied on this grid."""
        return True

    def nearest(self, grid: Grid) -> Grid:
        """The nearest grid that the operator takes; see `Resampled`."""
        return grid

    def least_sizes(self, least: int) -> tuple[int, ...]:
        """Even sizes of a uniform grid, at least ``least``, whose half resolves every mode of the operator."""
        return (2 * -(-least // 2),) * self.dim

    def forward(self, u: Tensor, grid: Grid | None = None, query: Grid | None = None) -> Tensor:
        """z on the points of ``grid``, or on those of ``query``.

        Args:
            u: (batch, in_channels, *grid.shape), in the operator's dtype and on its device. An empty batch gives an
                empty one. Values are not looked at: NaN or infinity gives NaN. `operformer.predict` refuses them.
            grid: where u is known; None is equispaced nodes of the domain the operator was trained on, the unit cube
                if it was not trained. Keep the object: partitions and tables are made once per grid.
            query: where z is wanted, points inside the box of ``grid``; None is the points of ``grid``. Integrals are
                taken on ``grid``; where a layer needs u itself, u is interpolated. The patches stay those of ``grid``.

        Returns:
            z (batch, out_channels, *shape), in physical units.
        """
        grid = self._checked(u, grid)
        if query is not None and (not isinstance(query, Grid) or query.dim != self.dim):
            raise UsageError(f"query must be a Grid of dimension {self.dim}: got {named(query)}")
        if not torch.compiler.is_compiling() and not len(u):
            return u.new_zeros(0, self.out_channels, *(query or grid).shape)
        given = (u - _channelwise(self.input_mean, grid.n_axes)) / _channelwise(self.input_scale, grid.n_axes)
        z = self.transform(given, grid, query)
        n_axes = z.ndim - 2
        z = z * _channelwise(self.output_scale, n_axes) + _channelwise(self.output_mean, n_axes)
        return z if grid.counts is None or query is not None else z.where(is_point(grid).to(z.device), 0.0)

    def on(self, grid: Grid, make: Callable[[], T], name: str = "") -> T:
        """What ``make`` makes of the grid for the operator's precision and device, once per grid."""
        return self._per_grid.get(grid, (name, self.input_mean.dtype, self.input_mean.device), make)

    @property
    def bounds(self) -> Bounds:
        """The box that the operator was trained on, the unit cube if it was not."""
        lower, extent = self.domain_lower.tolist(), self.domain_extent.tolist()
        return tuple((a, a + length) for a, length in zip(lower, extent, strict=True))

    def position(self, grid: Grid) -> Tensor:
        """The coordinates of the points, the domain the operator was trained on mapped to [0, 1]^d.

        (N, d), or (batch, N, d) on a ragged grid.
        """
        x = self.on(grid, lambda: grid.points.to(self.domain_lower.device), "points")
        x = x if grid.counts is not None else x.reshape(-1, self.dim)
        return self.placed(x)

    def placed(self, points: Tensor) -> Tensor:
        """Coordinates (..., d), the domain the operator was trained on mapped to [0, 1]^d, in its precision."""
        units = (points - self.domain_lower.double()) / self.domain_extent.double()
        return units.to(self.domain_lower.dtype)

    @property
    def description(self) -> dict[str, Any]:
        """What config.json holds: the class, the wrappers around it and the settings."""
        return {"operator": self.kind, "wrappers": list(self.wrappers), "settings": self.settings}

    @checked
    def save_pretrained(self, folder: str | Path, weights: Mapping[str, Tensor] | None = None) -> None:
        """Write ``model.safetensors`` and ``config.json``, which says which version wrote it; nothing in them can run.

        ``weights`` take the place of its own, such as averaged ones or those that several processes share.
        """
        folder = Path(folder)
        given = self.state_dict() if weights is None else weights
        write_bytes(folder / "model.safetensors", save({k: t.detach().cpu().contiguous() for k, t in given.items()}))
        write_json(folder / "config.json", {**self.description, "version": VERSION})

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
            remedy = "give each sample alone, on grid.of_sample(k), or use a TNO or a SpectralOperator"
            raise UsageError(f"{self.kind} takes samples of one grid: got {grid}; {remedy}")
        if u.layout != torch.strided:
            raise UsageError(f"u must be a dense tensor: got {u.layout}; try u.to_dense()")
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
            make = Grid.uniform if torch.compiler.is_compiling() else _uniform_grid
            return make(tuple(u.shape[2:]), self.bounds)
        if tuple(u.shape[2:]) != grid.shape:
            axes = ", ".join(str(n) for n in grid.shape)
            raise UsageError(f"u must be (batch, {self.in_channels}, {axes}) on this grid: got {tuple(u.shape)}")
        if grid.counts is not None and len(grid.counts) != len(u):
            raise UsageError(f"a ragged grid needs points for each of {len(u)} samples: got {len(grid.counts)} sets")
        return grid


@lru_cache(maxsize=4)
def _uniform_grid(shape: tuple[int, ...], bounds: Bounds) -> Grid:
    """The grid of a call without one, the same object at each call, so that tables made for it serve again."""
    return Grid.uniform(shape, bounds)


def _measured(make: Callable[..., None]) -> Callable[..., None]:
    """A constructor that refuses an operator too large for the memory before its weights are made."""

    @wraps(make)
    def init(self: Operator, *arguments: Any, **options: Any) -> None:
        is_whole = type(self).__init__ is init and not any(isinstance(each, Operator) for each in arguments)
        if is_whole and torch.get_default_device().type == "cpu":
            require_memory(_described_size(type(self), arguments, options), type(self).__name__, "lower its settings")
        make(self, *arguments, **options)

    return init


def _described_size(kind: type[Operator], arguments: Sequence[Any], options: Mapping[str, Any]) -> int:
    """The bytes of an operator's weights, from its description on a device without memory; 0 where it has none."""
    try:
        with torch.device("meta"):
            described = kind(*arguments, **options)
    except (RuntimeError, NotImplementedError):  # a constructor that computes with values; it will say itself
        return 0
    return sum(tensor.numel() * tensor.element_size() for tensor in described.state_dict().values())


def _plain(value: Any) -> Any:
    """A constructor's argument as JSON holds it."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.plain if hasattr(value, "plain") else value


def _channelwise(values: Tensor, n_axes: int) -> Tensor:
    return values.reshape(-1, *[1] * n_axes)


def _name(t: Tensor) -> str:
    return f"{str(t.dtype).removeprefix('torch.')} on {t.device}"


def applied(operator: Callable[..., Tensor], u: Tensor, samples: Samples) -> Tensor:
    """G(u) where the outputs of the samples are known. Only a query makes it a third argument."""
    query = samples.query
    return operator(u, samples.grid) if query is None else operator(u, samples.grid, query)


def check_takes_functions(operator: Any, query: Grid | None = None) -> None:
    """Refuse a module or function that cannot be called with (u, grid), or with a query where there is one."""
    if query is not None and isinstance(operator, Operator) and not operator.takes_query:
        raise UsageError(
            f"{operator.kind} gives z on the grid of u, and the samples know z on {query}; use Resampled(operator)"
        )
    try:
        form = signature(operator.forward if isinstance(operator, nn.Module) else operator)
    except (TypeError, ValueError):  # some of C's say nothing of their arguments
        return
    try:
        form.bind(None, None, *[None] * (query is not None))
    except TypeError:
        if query is not None:
            raise UsageError(
                f"z is known on {query}, so an operator is called with (u, grid, query): got {named(operator)}"
            ) from None
        raise UsageError(
            f"an operator is called with (u, grid): got {named(operator)}; another library's module needs "
            "operformer.sharing.neuralop.UniformOnly around it"
        ) from None


def computes_in(operator: Any) -> Tensor:
    """A tensor with the precision and the device that an operator, or any callable, computes in."""
    tensors = [*operator.parameters(), *operator.buffers()] if isinstance(operator, nn.Module) else []
    real = [t for t in tensors if t.is_floating_point()]
    return real[0] if real else torch.zeros((), dtype=torch.float64)


class PerGrid:
    """What is made of a grid (partition, basis values, weights), once for as long as the grid lives.

    A cache whose keys are grids, known by the object and held weakly. Copies and pickles of it start empty.
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Grid, dict[Hashable, Any]] = WeakKeyDictionary()

    def get(self, grid: Grid, key: Hashable, make: Callable[[], T]) -> T:
        """``make()`` at the first call for this grid and key, the same object at all others."""
        if torch.compiler.is_exporting() and key in self._made.get(grid, {}):
            return self._made[grid][key]  # made before, so a constant of the graph
        # A compiler or an exporter traces what is made: nothing of that may outlive the trace.
        if torch.compiler.is_compiling() or grid.points.requires_grad:
            return make()
        made = self._made.setdefault(grid, {})
        if key not in made:
            # A tensor of inference mode could not be used in a later training.
            with torch.inference_mode(False), torch.no_grad():
                made[key] = make()
        return made[key]

    def __deepcopy__(self, memo: dict[int, Any]) -> PerGrid:
        return PerGrid()

    def __reduce__(self) -> tuple[type[PerGrid], tuple[()]]:
        return PerGrid, ()
