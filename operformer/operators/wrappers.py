"""Operators around operators: `Increment` for maps near the identity, `Resampled` for grids an operator cannot take."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.interpolation import interpolate
from operformer.domain.samples import is_point
from operformer.errors import UsageError
from operformer.operators.operator import Operator, PerGrid


class Wrapper(Operator):
    """An operator whose parameters, normalisation and settings are those of the operator inside."""

    operator: Operator

    def __init__(self, operator: Operator) -> None:
        nn.Module.__init__(self)
        if not isinstance(operator, Operator):
            raise UsageError(f"{type(self).__name__} needs an operator: got {type(operator).__name__}")
        self.operator = operator
        self._name = type(self).__name__  # sharding gives the object another class

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("operator"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("analysis", "sources"):  # settings of the operator inside that may change
            setattr(self.operator, name, value)
        else:
            super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """Nothing: the operator inside says it."""
        return ""

    @property
    def wrappers(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the wrappers, the innermost first."""
        return (*self.operator.wrappers, self._name)

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the operator inside."""
        return self.operator.settings

    @property
    def is_pointwise(self) -> bool:  # type: ignore[override]
        """As the operator inside."""
        return self.operator.is_pointwise

    @property
    def takes_query(self) -> bool:  # type: ignore[override]
        """As the operator inside."""
        return self.operator.takes_query

    @property
    def n_parameters(self) -> int:
        """As the operator inside."""
        return self.operator.n_parameters

    @property
    def usual_kind(self) -> Literal["nodes", "periodic"]:  # type: ignore[override]
        """As the operator inside."""
        return self.operator.usual_kind

    def least_sizes(self, least: int) -> tuple[int, ...]:
        """As the operator inside."""
        return self.operator.least_sizes(least)

    @property
    def is_zero_at_boundary(self) -> bool:
        """As the operator inside."""
        return self.operator.is_zero_at_boundary

    def takes(self, grid: Grid) -> bool:
        """As the operator inside."""
        return self.operator.takes(grid)

    def nearest(self, grid: Grid) -> Grid:
        """As the operator inside."""
        return self.operator.nearest(grid)

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator inside, in normalised units."""
        return self.operator.transform(u, grid, query)


class Increment(Wrapper):
    """z = u + G(u), for maps near the identity, such as a flow over a short time.

    G learns the change alone. Input and output have the same channels.

    Args:
        operator: G.
    """

    adds_input = True

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        if operator.in_channels != operator.out_channels:
            counts = f"{operator.in_channels} in and {operator.out_channels} out"
            raise UsageError(f"Increment needs the same number of channels in and out: got {counts}")

    def forward(self, u: Tensor, grid: Grid | None = None, query: Grid | None = None) -> Tensor:
        """u + G(u) on the points of the grid, or on those of the query, u interpolated to them."""
        change = self.operator(u, grid, query)
        if query is not None:
            return interpolate(u, self._checked(u, grid), query) + change
        if grid is None or grid.counts is None:
            return u + change
        return (u + change).where(is_point(grid).to(u.device), 0.0)


class Resampled(Wrapper):
    """G on any grid: where G does not take the grid, u is interpolated to the nearest one it takes, and z back.

    The same makes an operator read at any query that gives z on the grid of u alone, such as an FNO.

    Args:
        operator: G, such as a ViTNO, whose patches need the same points, or an FNO, which needs a uniform grid.
    """

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._per_grid = PerGrid()

    def forward(self, u: Tensor, grid: Grid | None = None, query: Grid | None = None) -> Tensor:
        """z on the points of the grid, or on those of the query."""
        grid = self._checked(u, grid)
        if query is not None and not self.operator.takes_query:
            if self.operator.takes(query):
                return self.operator(interpolate(u, grid, query), query)
            if self.operator.takes(grid):
                return interpolate(self.operator(u, grid), grid, query)
        elif self.operator.takes(grid):
            return self.operator(u, grid, query)
        there = self._per_grid.get(grid, u.device, lambda: self.operator.nearest(grid).to(u.device))
        moved = interpolate(u, grid, there)
        if query is not None and self.operator.takes_query:
            return self.operator(moved, there, query)
        return interpolate(self.operator(moved, there), there, query or grid)

    @property
    def takes_query(self) -> bool:  # type: ignore[override]
        """Every query."""
        return True

    def takes(self, grid: Grid) -> bool:
        """Every grid."""
        return True


class Functional(Wrapper):
    """z = |D|^-1 int_D G(u) dx: numbers, such as a drag or an energy, as functions that are constant in space.

    The integral is taken by the weights of the grid of u, so the numbers do not depend on its resolution.

    Args:
        operator: G, whose output is the density of the numbers.

    Example:
        >>> u = torch.rand(3, 1, 16)
        >>> operator = Functional(TNO(dim=1, in_channels=1, out_channels=2, hidden_channels=8, n_layers=1, n_heads=2))
        >>> operator(u)[:, :, 0].shape
        torch.Size([3, 2])
    """

    def forward(self, u: Tensor, grid: Grid | None = None, query: Grid | None = None) -> Tensor:
        """The mean of G(u) over D, on the points of the grid, or on those of the query."""
        grid = self._checked(u, grid)
        density = self.operator(u, grid)
        weights = grid.weights.to(density)
        axes = tuple(range(-grid.n_axes, 0))
        total = weights.sum() if grid.counts is None else weights.sum(axes, keepdim=True)
        mean = (density * (weights / total)).sum(axes)
        shape = (grid if query is None else query).shape
        return mean.reshape(*mean.shape, *[1] * len(shape)).expand(*mean.shape, *shape)

    @property
    def takes_query(self) -> bool:  # type: ignore[override]
        """Every query: the numbers are the same everywhere."""
        return True

    @property
    def is_zero_at_boundary(self) -> bool:
        """Its output is not, whatever that of G is."""
        return False


WRAPPERS: dict[str, type[Wrapper]] = {"Increment": Increment, "Resampled": Resampled, "Functional": Functional}
