"""Samples: pairs (u, z) of functions on one grid, in memory or on disk, and the parts a set is cut into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, overload

import torch
from torch import Tensor

from operformer.domain.grid import Grid
from operformer.errors import DataError, UsageError

BLOCK = 64  # pairs that are looked at together, so that a set on disk need not fit into memory


class Pairs(Protocol):
    """Pairs (u, z) of one grid, in memory (`Samples`) or on disk; a slice is pairs again, chosen ones are in memory."""

    @property
    def grid(self) -> Grid:
        """The grid that all of them are known on."""

    @property
    def channels(self) -> tuple[int, int]:
        """How many components u and z have."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Pairs: ...

    @overload
    def __getitem__(self, index: Tensor) -> Samples: ...

    def blocks(self, count: int) -> Iterator[Samples]:
        """All pairs in their order, so many at a time in memory."""


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """Pairs of functions on one grid: u (count, in_channels, *shape) and z (count, out_channels, *shape).

    On a ragged grid each pair has points of its own. ``checks`` is what a solver says of each pair (count,), such as
    its residual.
    """

    u: Tensor
    z: Tensor
    grid: Grid
    checks: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in (("u", self.u), ("z", self.z)):
            if not isinstance(values, Tensor):
                raise UsageError(f"{name} must be a torch tensor: got {type(values).__name__}; try torch.as_tensor")
            if tuple(values.shape[2:]) != self.grid.shape:
                expected = ", ".join(map(str, self.grid.shape))
                raise UsageError(f"{name} must be (count, channels, {expected}): got {tuple(values.shape)}")
        sets = len(self.u) if self.grid.counts is None else len(self.grid.counts)
        if sets != len(self.u):
            raise UsageError(f"a ragged grid needs points for each of {len(self.u)} samples: got {sets} sets of them")
        if len(self.u) != len(self.z):
            raise UsageError(f"u and z must hold as many samples as each other: got {len(self.u)} and {len(self.z)}")

    @property
    def channels(self) -> tuple[int, int]:
        """How many components u and z have."""
        return self.u.shape[1], self.z.shape[1]

    def __len__(self) -> int:
        return len(self.u)

    def __getitem__(self, index: slice | Tensor) -> Samples:
        checks = {
            name: values[index.to(values.device) if isinstance(index, Tensor) else index]
            for name, values in self.checks.items()
        }
        return Samples(self.u[index], self.z[index], self.grid.of_samples(index), checks)

    def __repr__(self) -> str:
        inputs, outputs = self.channels
        dtype = str(self.u.dtype).removeprefix("torch.")
        return f"Samples({len(self)} pairs, {inputs} to {outputs} channels, {dtype}, {self.grid})"

    def blocks(self, count: int) -> Iterator[Samples]:
        """All pairs in their order, so many at a time."""
        return (self[first : first + count] for first in range(0, len(self), count))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Samples:
        """The same pairs on another device, their values in another precision; the grid stays in float64."""
        grid = self.grid if device is None else self.grid.to(device)
        return Samples(self.u.to(device=device, dtype=dtype), self.z.to(device=device, dtype=dtype), grid, self.checks)


def concatenate(parts: Sequence[Samples]) -> Samples:
    """All pairs of several sets of one grid."""
    checks = {name: torch.cat([part.checks[name] for part in parts]) for name in parts[0].checks}
    return Samples(torch.cat([p.u for p in parts]), torch.cat([p.z for p in parts]), parts[0].grid, checks)


@dataclass(frozen=True, eq=False)
class Split:
    """Pairs to learn from, pairs to choose by, and pairs that neither has seen."""

    train: Pairs
    validation: Pairs
    test: Pairs


def split(samples: Pairs, validation: int, test: int) -> Split:
    """The last ``test`` pairs, the ``validation`` pairs before them, and the rest to train on."""
    train = len(samples) - validation - test
    if min(validation, test) < 0 or train < 1:
        raise UsageError(
            f"validation and test must leave pairs to train on: got {validation} and {test} of {len(samples)}"
        )
    return Split(samples[:train], samples[train : train + validation], samples[train + validation :])


def check_samples(samples: Pairs, kind: str) -> None:
    """Refuse pairs that cannot be learnt from: not finite, or an output that is zero everywhere."""
    if not len(samples):
        raise DataError(f"there are no {kind} samples; give at least one")
    first = 0
    for block in samples.blocks(BLOCK):
        for name, values in (("u", block.u), ("z", block.z)):
            broken = ~torch.isfinite(values).flatten(1).all(1)
            if bool(broken.any()):
                where = f"{kind} sample {first + int(broken.nonzero()[0])}"
                raise DataError(f"{where} of {name} holds values that are not finite; leave it out")
        zero = (block.z == 0).flatten(1).all(1)
        if bool(zero.any()):
            where = f"{kind} sample {first + int(zero.nonzero()[0])}"
            raise DataError(f"{where} of z is zero everywhere and has no relative error; leave it out")
        first += len(block)
