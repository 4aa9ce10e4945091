"""What a problem is: a law of samples (u, z) that can be read at any resolution (Section 6)."""

# DESIGN.md: A draw is a seed and an index

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from operformer.checking import as_device, checked
from operformer.domain import Grid
from operformer.domain.box import Bounds
from operformer.domain.samples import Samples, concatenate
from operformer.errors import UsageError
from operformer.memory import require_memory
from operformer.problems.symmetry import Symmetry
from operformer.settings import check_count

Boundary = Literal["open", "wall", "periodic"]
FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)  # resolutions of an evaluation, as multiples of the training resolution


class Problem(ABC):
    """A measure on inputs u and the operator that maps each to its output z.

    Subclasses are frozen dataclasses whose fields are the constants of the law; they never know the network.
    """

    # Whether samples can be drawn; otherwise ``stored`` is the set on disk that holds all there are.
    has_law: ClassVar[bool] = True
    stored: ClassVar[Any] = None
    # What holds at the edge of D, in The Well's words.
    boundary: ClassVar[Boundary] = "open"
    # How many samples are solved together, by the type of device. It bounds the memory. The last digits of a sample
    # may depend on its block; blocks begin at the first sample asked for.
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
    def units(self) -> Mapping[str, str]:
        """The units of those components that have one, by name."""
        return {}

    @property
    def labels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of u's and of z's components with their units, such as "T [K]"."""
        units = self.units
        inputs, outputs = (
            tuple(f"{name} [{units[name]}]" if name in units else name for name in names)
            for names in (self.input_names, self.output_names)
        )
        return inputs, outputs

    @property
    def times(self) -> tuple[float, ...] | None:
        """If u and the channels of z are one field at several times, these times."""
        return None

    @property
    @abstractmethod
    def bounds(self) -> Bounds:
        """The box D that u and z are functions on."""

    @property
    def in_channels(self) -> int:
        """How many components u has."""
        return len(self.input_names)

    @property
    def out_channels(self) -> int:
        """How many components z has."""
        return len(self.output_names)

    @property
    def query(self) -> Grid | None:
        """Where z is known, if it is not on the grid of u: on a grid of its own, the same at all resolutions."""
        return None

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """Moves that leave the law as it is, to be applied in turn; none unless a problem names them."""
        return ()

    @abstractmethod
    def grid(self, resolution: int) -> Grid:
        """The uniform grid of a resolution."""

    def evaluation_grids(self, resolution: int) -> dict[str, Grid]:
        """The grids on which an operator is tested, by label: "0.5x" to "2x" are uniform, others irregular."""
        return {f"{factor:g}x": self.grid(max(1, round(factor * resolution))) for factor in FACTORS}

    def for_tests(self, resolution: int) -> Problem:
        """The law of the test samples of an operator trained at a resolution: this one, maybe solved more coarsely."""
        return self

    def followed(self, steps: int) -> tuple[Sequence[Problem], list[float]] | None:
        """The law of u with the next ``steps`` outputs of a rollout in z, and the times since u of these outputs.

        There may be several such laws, to be tried in turn: a later one resolves more. None if z is no later u.
        """
        return None

    @abstractmethod
    def _solve(self, draws: Sequence[np.random.Generator], grid: Grid) -> Samples:
        """One sample for each stream of random numbers, on the grid and on its device, in float64."""

    @property
    def _solved_on(self) -> Grid | None:
        """A grid whose solution serves all grids by `_read`; None if each grid is solved on its own."""
        return None

    def _read(self, solved: Samples, grid: Grid, draws: Sequence[np.random.Generator]) -> Samples:
        """Samples on the grid `_solved_on`, which these streams of random numbers made, on another grid."""
        raise NotImplementedError

    @checked
    def sample(
        self,
        count: int,
        resolution: int | Grid,
        seed: int = 0,
        device: torch.device | str = "cpu",
        first: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> Samples:
        """Draw samples of the law and read them on a grid.

        A seed and an index are one sample: the same at every resolution, on every device and for every count.

        Args:
            count: how many samples.
            resolution: of `grid`, or a `Grid` of any kind inside the box of the problem.
            seed: from 0 to 2^32 - 1.
            device: where the samples are solved and stay.
            first: the index of the first sample. Take test samples from after the training samples.
            dtype: of the values returned; they are computed in float64.

        Returns:
            The samples first, ..., first + count - 1.
        """
        check_draws(count, seed, first)
        device = as_device(device)
        if not dtype.is_floating_point:
            raise UsageError(f"dtype must be torch.float32 or torch.float64: got {dtype}")
        grid = resolution if isinstance(resolution, Grid) else self.grid(resolution)
        check_inside(grid, self.bounds)
        grid = grid.to(device)
        size = self.block.get(device.type)
        if size is None:
            raise UsageError(f"samples are solved on a CPU or a GPU: got the device {device}")
        if grid.weights.device.type == "cpu":
            need = 2 * count * (self.in_channels + self.out_channels) * grid.weights.numel() * dtype.itemsize
            require_memory(need, f"{count} samples on {grid}", "draw fewer, or keep them as a set on disk")
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
        """The same samples on one grid after the other, solved once for all grids where the problem allows it."""
        if len(grids) < 2 or self._solved_on is None:
            yield from (self.sample(count, grid, seed, device, first, dtype) for grid in grids)
            return
        solved = self.sample(count, self._solved_on, seed, device, first)
        size = self.block[torch.device(device).type]
        for grid in grids:
            check_inside(grid, self.bounds)
            placed, starts = grid.to(device), range(first, first + count, size)
            yield concatenate(  # no name for the result: it need not stay in memory while the next grid is read
                [
                    self._read(block, placed, [stream(seed, start + k) for k in range(len(block))]).to(dtype=dtype)
                    for start, block in zip(starts, solved.blocks(size), strict=True)
                ]
            )


class TimeProblem(Problem):
    """A law of functions on [0, T], T = ``horizon``, that can be read at any times (Section 6.1)."""

    horizon: float

    def __post_init__(self) -> None:
        if not 0 < self.horizon < inf:
            raise UsageError(f"horizon must be positive and finite: got {self.horizon}; the paper has 2")

    @property
    def bounds(self) -> Bounds:
        """[0, T]."""
        return ((0.0, self.horizon),)

    def grid(self, resolution: int) -> Grid:
        """{n dt}, n = 0, ..., N, dt = T / N, for N = resolution time steps (equation regular_set)."""
        if resolution < 1:
            raise UsageError(f"resolution must be at least one time step: got {resolution}; the paper has 200")
        return Grid.uniform((resolution + 1,), bounds=self.bounds, kind="nodes")

    def irregular_grid(self, resolution: int) -> Grid:
        """{n dt}, n = 0, ..., N/2, and {2 n dt}, n = N/4 + 1, ..., N/2: the second half keeps every other time."""
        # Paper: equation irregular_set prints n = N/2 + 1, ..., 3N/4 for the second set, which lies beyond T.
        if resolution < 4 or resolution % 4:
            raise UsageError(f"an irregular grid needs a resolution divisible by 4: got {resolution}; try 200")
        times = self.grid(resolution).points[:, 0]
        half = resolution // 2
        return Grid.rectilinear(torch.cat((times[: half + 1], times[half + 2 :: 2])))

    def graded_grid(self, resolution: int) -> Grid:
        """{T (n / N)^2}, n = 0, ..., N: points crowd at the start, and the last step is twice the mean one."""
        return Grid.rectilinear(self.horizon * torch.linspace(0, 1, resolution + 1, dtype=torch.float64).square())

    def evaluation_grids(self, resolution: int) -> dict[str, Grid]:
        """Uniform ones, and the irregular and the graded one if the resolution is divisible by 4."""
        grids = super().evaluation_grids(resolution)
        if resolution % 4 == 0:
            grids |= {"irregular": self.irregular_grid(resolution), "graded": self.graded_grid(resolution)}
        return grids


class Draws:
    """Samples as `Problem.readings` gives them; the last ``kept`` sets stay in memory.

    Runs of one problem that follow each other in a process draw their samples once. Do not change what is returned.
    """

    def __init__(self, kept: int = 0) -> None:
        self._kept = kept
        self._sets: OrderedDict[Hashable, Samples] = OrderedDict()

    def sample(
        self, problem: Problem, count: int, resolution: int, seed: int, device: torch.device, first: int = 0
    ) -> Samples:
        """`Problem.sample` in float32, which training needs."""
        (found,) = self.readings(problem, count, [problem.grid(resolution)], seed, device, first, torch.float32)
        return found

    def readings(
        self,
        problem: Problem,
        count: int,
        grids: Sequence[Grid],
        seed: int,
        device: torch.device,
        first: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> Iterator[Samples]:
        """`Problem.readings`, solved for the grids that are not in memory."""
        points = [hashlib.sha256(grid.points.cpu().numpy().tobytes()).digest() for grid in grids]
        law = (problem, count, seed, str(device), first, dtype)
        keys = [(*law, grid.kind, digest) for grid, digest in zip(grids, points, strict=True)]
        known = {key: self._sets[key] for key in keys if key in self._sets}
        missing = [grid for key, grid in zip(keys, grids, strict=True) if key not in known]
        read = problem.readings(count, missing, seed, device, first, dtype)
        for key in keys:
            if key in known:
                if key in self._sets:
                    self._sets.move_to_end(key)
                yield known[key]
                continue
            # Make room first: the oldest set and the new one need not fit into memory together.
            while self._sets and len(self._sets) >= self._kept:
                self._sets.popitem(last=False)
            if not self._kept:
                yield next(read)
                continue
            self._sets[key] = next(read)
            yield self._sets[key]


def stream(seed: int, index: int) -> np.random.Generator:
    """The random numbers of one sample: they depend on the seed and the index alone."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, index])))


def check_draws(count: int, seed: int, first: int) -> None:
    """Refuse what cannot be counted or seeded."""
    check_count("count", count)
    check_seed("seed", seed)
    check_count("first", first, least=0)


def check_seed(name: str, seed: int) -> None:
    """Refuse what is no seed."""
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
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
