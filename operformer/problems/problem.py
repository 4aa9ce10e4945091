"""What a problem is: a law of pairs (u, z) that can be read at any resolution (Section 6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch

from operformer.domain import Grid
from operformer.domain.box import Bounds
from operformer.domain.samples import Samples, concatenate
from operformer.errors import UsageError

if TYPE_CHECKING:
    from operformer.problems.symmetry import Symmetry

Boundary = Literal["open", "wall", "periodic"]


class Problem(ABC):
    """A measure on inputs u and the operator that maps each to its output z.

    Subclasses are frozen dataclasses whose fields are the constants of the law; they never know the network.
    """

    # What holds at the edge of D, in The Well's words.
    boundary: ClassVar[Boundary] = "open"
    # How many draws are solved together, by the type of device. It bounds the memory, and a draw's last digits may
    # depend on its company: the blocks begin at the first draw asked for.
    block: ClassVar[Mapping[str, int]] = {"cpu": 4096, "cuda": 65536}

    @property
    @abstractmethod
    def input_names(self) -> tuple[str, ...]:
        """The names of u's components."""

    @property
    @abstractmethod
    def output_names(self) -> tuple[str, ...]:
        """The names of z's components."""

    @property
    def times(self) -> tuple[float, ...] | None:
        """If u and the channels of z are one field at several times, these times."""
        return None

    @property
    @abstractmethod
    def bounds(self) -> Bounds:
        """The box D that u and z are functions on."""

    @abstractmethod
    def grid(self, resolution: int) -> Grid:
        """The uniform grid of a resolution."""

    @abstractmethod
    def _solve(self, draws: Sequence[np.random.Generator], grid: Grid) -> Samples:
        """One pair for each stream of random numbers, on the grid and on its device, in float64."""

    @property
    def in_channels(self) -> int:
        """How many components u has."""
        return len(self.input_names)

    @property
    def out_channels(self) -> int:
        """How many components z has."""
        return len(self.output_names)

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """Moves that leave the law as it is, to be applied in turn; none unless a problem names them."""
        return ()

    def sample(
        self,
        count: int,
        resolution: int | Grid,
        seed: int = 0,
        device: torch.device | str = "cpu",
        first: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> Samples:
        """Draw the pairs first, ..., first + count - 1 of the measure, read on the grid of the given resolution.

        The same seed is the same draw at every resolution, on every device and for every count. A `Grid` in place of
        the resolution reads the draw there. Whatever the dtype of the values, they are computed in float64.
        """
        check_draws(count, seed, first)
        grid = resolution if isinstance(resolution, Grid) else self.grid(resolution)
        check_inside(grid, self.bounds)
        grid = grid.to(device)
        size = self.block[torch.device(device).type]
        solved = []
        for start in range(first, first + count, size):
            draws = [stream(seed, index) for index in range(start, min(start + size, first + count))]
            solved.append(self._solve(draws, grid).to(dtype=dtype))
        return concatenate(solved)

    def readings(
        self,
        count: int,
        grids: Sequence[Grid],
        seed: int = 0,
        device: torch.device | str = "cpu",
        first: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> Iterator[Samples]:
        """The same draws on one grid after the other; a problem may solve them once for all grids."""
        return (self.sample(count, grid, seed, device, first, dtype) for grid in grids)

    def _read_each(
        self,
        solved: Samples,
        grids: Sequence[Grid],
        read: Callable[[int, Samples, Grid], Samples],
        dtype: torch.dtype,
    ) -> Iterator[Samples]:
        """What ``read`` makes of blocks of a solution, told where they begin, on one grid after the other."""
        device = solved.u.device
        size = self.block[device.type]
        for grid in grids:
            check_inside(grid, self.bounds)
            placed = grid.to(device)
            blocks = enumerate(solved.blocks(size))
            yield concatenate([read(size * index, block, placed).to(dtype=dtype) for index, block in blocks])


def stream(seed: int, index: int) -> np.random.Generator:
    """The random numbers of one draw: they depend on the seed and on the draw's index, on nothing else."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, index])))


def check_draws(count: int, seed: int, first: int) -> None:
    """Refuse what cannot be counted or seeded."""
    if count < 1:
        raise UsageError(f"count must be at least 1: got {count}")
    check_seed("seed", seed)
    if first < 0:
        raise UsageError(f"first must not be negative: got {first}")


def check_seed(name: str, seed: int) -> None:
    """Refuse what is no seed."""
    if not 0 <= seed < 2**32:
        raise UsageError(f"{name} must be from 0 to 2^32 - 1: got {seed}")


def check_inside(grid: Grid, bounds: Bounds) -> None:
    """Refuse a grid that reaches out of the domain, or that has another dimension."""
    if grid.dim != len(bounds):
        raise UsageError(f"the problem needs a grid of dimension {len(bounds)}: got {grid.dim}")
    for (low, high), (lower, upper) in zip(grid.bounds, bounds, strict=True):
        slack = 1e-12 * (upper - lower)  # n dt may be rounded past T
        if low < lower - slack or high > upper + slack:
            raise UsageError(
                f"the grid must lie in [{lower:g}, {upper:g}]: got [{low:g}, {high:g}]; cut it or change the problem"
            )
