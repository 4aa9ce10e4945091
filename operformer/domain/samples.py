"""Samples: pairs of functions (u, z) on one grid or on two, ragged values, and moments over samples."""

# DESIGN.md: Outputs may have points of their own

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol, overload, runtime_checkable

import torch
from torch import Tensor
from torch.nn.functional import pad as pad_zeros

from operformer.checking import as_device, checked
from operformer.domain.box import as_numbers
from operformer.domain.dataset import BLOCK, Dataset, as_row, is_number
from operformer.domain.grid import Grid, refused_index
from operformer.errors import DataError, UsageError
from operformer.settings import check_count, converted, named


@runtime_checkable
class Pairs(Protocol):
    """Samples in memory (`Samples`) or on disk. A slice stays there; chosen samples are read to memory."""

    @property
    def grid(self) -> Grid:
        """The grid that all inputs u are known on."""

    @property
    def query(self) -> Grid | None:
        """The grid that all outputs z are known on, if it is not that of u."""

    @property
    def channels(self) -> tuple[int, int]:
        """How many components u and z have."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Pairs: ...

    @overload
    def __getitem__(self, index: Tensor | list[int]) -> Samples: ...

    @overload
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]: ...

    def blocks(self, count: int) -> Iterator[Samples]:
        """All samples in their order, ``count`` at a time in memory."""


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Dataset):
    """Pairs of functions (u, z) in memory, u on a grid and z on the same grid or on a query of its own.

    Args:
        u: inputs, (count, in_channels, *grid.shape).
        z: outputs, (count, out_channels, *grid.shape), or (count, out_channels, *query.shape).
        grid: where all u are known; on a ragged grid each sample has points of its own.
        query: where all z are known, points in the box of ``grid``; None is ``grid``. Operators are then called as
            ``operator(u, grid, query=query)``.
        checks: what a solver reports of each sample, such as its residual: (count,) each.

    Example:
        >>> u = torch.rand(5, 1, 32)
        >>> samples = Samples(u, u.cumsum(-1) / 32, Grid.uniform(32, kind="cells"))
        >>> few = samples[:3]  # Samples; samples[3] is one (u, z), as PyTorch's DataLoader asks
    """

    u: Tensor
    z: Tensor
    grid: Grid
    query: Grid | None = None
    checks: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        converted(self.grid, Grid, "grid")
        if self.query is not None:
            _check_query(self.grid, converted(self.query, Grid, "query"))
        for name, values, grid in (("u", self.u, self.grid), ("z", self.z, z_grid(self))):
            if not isinstance(values, Tensor):
                raise UsageError(f"{name} must be a torch tensor: got {type(values).__name__}; try torch.as_tensor")
            if not values.is_floating_point() or values.layout != torch.strided:
                raise UsageError(f"{name} must hold real numbers: got {values.dtype}; try {name}.float()")
            if tuple(values.shape[2:]) != grid.shape:
                expected = ", ".join(map(str, grid.shape))
                remedy = _remedy(self) if name == "z" else ""
                raise UsageError(f"{name} must be (count, channels, {expected}): got {tuple(values.shape)}{remedy}")
        sets = len(self.u) if self.grid.counts is None else len(self.grid.counts)
        if sets != len(self.u):
            raise UsageError(f"a ragged grid needs points for each of {len(self.u)} samples: got {sets} sets of them")
        if len(self.u) != len(self.z):
            raise UsageError(f"u and z must hold as many samples as each other: got {len(self.u)} and {len(self.z)}")
        for name, values in converted(self.checks, Mapping[str, Tensor], "checks").items():
            if values.shape[:1] != (len(self.u),):
                raise UsageError(f"checks[{name!r}] must be one number for each sample: got {named(values)}")

    @property
    def channels(self) -> tuple[int, int]:
        """How many components u and z have."""
        return self.u.shape[1], self.z.shape[1]

    def __len__(self) -> int:
        return len(self.u)

    @overload
    def __getitem__(self, index: slice | Tensor | list[int]) -> Samples: ...

    @overload
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]: ...

    def __getitem__(self, index: slice | Tensor | list[int] | int) -> Samples | tuple[Tensor, Tensor]:
        if is_number(index):
            return self.__getitems__([index])[0]  # type: ignore[list-item]
        chosen: slice | Tensor = as_row(index)
        if not isinstance(chosen, slice):
            is_row = isinstance(chosen, Tensor) and chosen.ndim == 1 and chosen.layout == torch.strided
            if not is_row or chosen.is_floating_point() or chosen.is_complex():
                raise refused_index(index)
        try:  # a GPU need not tell the indices
            checks = {
                name: values[chosen.to(values.device) if isinstance(chosen, Tensor) else chosen]
                for name, values in self.checks.items()
            }
            return Samples(self.u[chosen], self.z[chosen], self.grid.of_samples(chosen), self.query, checks)
        except (TypeError, ValueError, IndexError) as error:
            if isinstance(error, UsageError):
                raise
            raise refused_index(index) from None

    def __repr__(self) -> str:
        inputs, outputs = self.channels
        dtype = str(self.u.dtype).removeprefix("torch.")
        grids = f"{self.grid}" if self.query is None else f"{self.grid} to {self.query}"
        return f"Samples({len(self)} pairs, {inputs} to {outputs} channels, {dtype}, {grids})"

    def blocks(self, count: int) -> Iterator[Samples]:
        """All samples in their order, ``count`` at a time."""
        check_count("count", count)
        return (self[first : first + count] for first in range(0, len(self), count))

    @checked
    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Samples:
        """The same samples on another device or with values in another precision; the grid stays in float64."""
        device = None if device is None else as_device(device)
        grid, query = self.grid, self.query
        if device is not None:
            grid, query = grid.to(device), None if query is None else query.to(device)
        u, z = (values.to(device=device, dtype=dtype) for values in (self.u, self.z))
        return Samples(u, z, grid, query, self.checks)


def concatenate(parts: Sequence[Samples]) -> Samples:
    """All samples of several sets on the same grids."""
    checks = {name: torch.cat([part.checks[name] for part in parts]) for name in parts[0].checks}
    first, u, z = parts[0], torch.cat([p.u for p in parts]), torch.cat([p.z for p in parts])
    return Samples(u, z, first.grid, first.query, checks)


def z_grid(samples: Pairs) -> Grid:
    """The grid that the outputs are known on."""
    return samples.grid if samples.query is None else samples.query


def larger_grid(samples: Pairs) -> Grid:
    """The grid of u or that of z, whichever has more points: what an operator's memory grows with."""
    return max(samples.grid, z_grid(samples), key=lambda grid: prod(grid.shape))


def _check_query(grid: Grid, query: Grid) -> None:
    if query.counts is not None:
        raise UsageError(f"the query must be the same points for all samples: got {query}; try Grid.scattered(points)")
    if query.dim != grid.dim:
        raise UsageError(f"grid and query must have the same dimension: got {grid} and {query}")
    if query.points.device.type != "cpu":  # looking would wait for a GPU at every batch; operators look once
        return
    for k, (lower, upper) in enumerate(grid.bounds):
        first, last = float(query.points[..., k].min()), float(query.points[..., k].max())
        slack = 1e-12 * (upper - lower)  # n dt may be rounded past the end
        if first < lower - slack or last > upper + slack:
            raise UsageError(
                f"axis {k} of the query reaches from {first:g} to {last:g}, outside the box [{lower:g}, {upper:g}] of "
                "the grid; give the grid bounds= that hold both"
            )


def _remedy(samples: Samples) -> str:
    """What to do about z of another shape than that of its grid."""
    if samples.query is not None:
        return ", on the query"
    return "; where z is on points of its own, give them as query="


def joined(parts: Sequence[Samples]) -> Samples:
    """All samples of several sets, on the grid of the first, or each on its own mesh, as a ragged grid."""
    first = parts[0].grid
    if len(parts) == 1 or not first.cells or parts[0].query is not None or all(part.grid is first for part in parts):
        return parts[0] if len(parts) == 1 else concatenate(parts)
    grids = [part.grid.of_sample(k) for part in parts for k in range(len(part))]
    if first.counts is None and all(torch.equal(first.points, one.points) for one in grids):
        return concatenate(parts)
    lower, upper = torch.tensor([grid.bounds for grid in grids], dtype=torch.float64).unbind(-1)
    bounds = list(zip(lower.amin(0).tolist(), upper.amax(0).tolist(), strict=True))
    cells = [grid.cells[0].corners for grid in grids]
    grid = Grid.ragged([grid.points for grid in grids], bounds=bounds, cells=cells)
    u, z = (
        pad([one for part in parts for one in unpadded(values(part), part.grid)], grid)
        for values in (lambda part: part.u, lambda part: part.z)
    )
    return Samples(u, z, grid)


def unpadded(values: Tensor, grid: Grid) -> list[Tensor]:
    """The functions (channels, *shape), one for each sample."""
    return list(values.unbind(0)) if grid.counts is None else unpad(values, grid)


@dataclass(frozen=True, eq=False)
class Split:
    """Samples to train on, samples to choose by, and samples that neither has seen."""

    train: Pairs
    validation: Pairs
    test: Pairs


def split(samples: Pairs, validation: int, test: int) -> Split:
    """The last ``test`` samples, the ``validation`` samples before them, and the rest to train on."""
    train = len(samples) - validation - test
    if min(validation, test) < 0 or train < 1:
        raise UsageError(
            f"validation and test must leave samples to train on: got {validation} and {test} of {len(samples)}"
        )
    return Split(samples[:train], samples[train : train + validation], samples[train + validation :])


def check_samples(samples: Pairs, kind: str) -> None:
    """Refuse samples that nothing can be learned from: not finite, or with an output that is zero everywhere."""
    if not isinstance(samples, Pairs):
        raise UsageError(f"the {kind} samples must be Samples(u, z, grid): got {named(samples)}")
    if not len(samples):
        raise DataError(f"there are no {kind} samples; give at least one")
    if not all(samples.channels):
        raise DataError(f"the {kind} samples have no channels; give at least one for u and for z")
    first = 0
    for block in samples.blocks(BLOCK):
        if block.u.requires_grad or block.z.requires_grad:
            raise UsageError(f"the {kind} samples require a gradient; give u.detach() and z.detach()")
        not_finite = [~torch.isfinite(values).flatten(1).all(1) for values in (block.u, block.z)]
        for broken, complaint in (
            (not_finite[0], "of u holds values that are not finite"),
            (not_finite[1], "of z holds values that are not finite"),
            ((block.z == 0).flatten(1).all(1), "of z is zero everywhere and has no relative error"),
        ):
            if bool(broken.any()):
                raise DataError(f"{kind} sample {first + int(broken.nonzero()[0])} {complaint}; leave it out")
        first += len(block)


@checked
def pad(values: Sequence[Tensor], grid: Grid) -> Tensor:
    """The functions of a ragged grid as one tensor, zero where a sample has no point.

    Args:
        values: (channels, N_i) for each sample.
        grid: a ragged grid with the points of each sample.

    Returns:
        (batch, channels, N), N the largest N_i.
    """
    counts = _counts(grid)
    if len(values) != len(counts):
        raise UsageError(f"values must be one tensor for each of {len(counts)} sets of points: got {len(values)}")
    for k, (one, n) in enumerate(zip(values, counts, strict=True)):
        as_numbers(one, f"values of sample {k}")
        if one.ndim != 2 or one.shape[1] != n or one.shape[0] != values[0].shape[0]:
            channels = values[0].shape[0] if values[0].ndim else "channels"
            raise UsageError(f"values of sample {k} must be ({channels}, {n}): got {tuple(one.shape)}")
        if one.dtype != values[0].dtype or one.device != values[0].device:
            raise UsageError(f"values of all samples must be of one type: got {values[0].dtype} and {one.dtype}")
    return torch.stack([pad_zeros(one, (0, grid.shape[0] - one.shape[1])) for one in values])


@checked
def unpad(values: Tensor, grid: Grid) -> list[Tensor]:
    """The inverse of `pad`: (batch, channels, N) -> (channels, N_i) for each sample."""
    counts = _counts(grid)
    if values.ndim != 3 or (len(values), values.shape[2]) != (len(counts), grid.shape[0]):
        raise UsageError(f"values must be ({len(counts)}, channels, {grid.shape[0]}): got {tuple(values.shape)}")
    return [one[:, :n] for one, n in zip(values, counts, strict=True)]


def is_point(grid: Grid) -> Tensor:
    """Where a ragged grid has points and not padding: (batch, 1, N)."""
    counts = torch.tensor(_counts(grid), device=grid.weights.device)
    return (torch.arange(grid.shape[0], device=counts.device) < counts.unsqueeze(-1)).unsqueeze(1)


def _counts(grid: Grid) -> tuple[int, ...]:
    if grid.counts is None:
        raise UsageError(f"values are padded on a ragged grid: got {grid}; make one with Grid.ragged(points)")
    return grid.counts


class Moments:
    """Mean, standard deviation and root mean square of each channel over D and over samples, block by block.

    Integrals use the weights of the samples' grids. Before anything was added, all moments are NaN.
    """

    def __init__(self, channels: int) -> None:
        self._mean = torch.zeros(channels, dtype=torch.float64)
        self._squares = torch.zeros(channels, dtype=torch.float64)
        self._counted = 0

    def add(self, values: Tensor, grid: Grid) -> None:
        """Add samples (count, channels, *shape) on a grid. On a ragged grid every sample counts the same."""
        count = len(values)
        if not count:
            return
        flat, weights = values.flatten(2).double(), grid.weights.to(values.device)
        if grid.counts is None:
            over, weights = "bcn,n->c", (weights / weights.sum()).flatten()
        else:
            over, weights = "bcn,bn->c", (weights / weights.sum(-1, keepdim=True)).squeeze(1)
        mean = torch.einsum(over, flat, weights) / count
        squares = torch.einsum(over, (flat - mean[:, None]).square(), weights)
        # The squares about the common mean are those of both parts and n m / (n + m) (difference of the means)^2.
        share, difference = count / (self._counted + count), mean.cpu() - self._mean
        self._mean += share * difference
        self._squares += squares.cpu() + self._counted * share * difference.square()
        self._counted += count

    @property
    def mean(self) -> Tensor:
        """(channels,), float64."""
        return self._mean if self._counted else torch.full_like(self._mean, torch.nan)

    @property
    def std(self) -> Tensor:
        """(channels,), float64."""
        return (self._squares / (self._counted or torch.nan)).sqrt()

    @property
    def root_mean_square(self) -> Tensor:
        """(channels,), float64: the deviation from zero."""
        return (self.std.square() + self.mean.square()).sqrt()
