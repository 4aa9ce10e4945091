"""Which pairs make a batch, at which resolution, and how they come to the device.

All of it follows from (seed, epoch, batch), so that a training resumes from a position alone.
"""

# DESIGN.md: Everything follows from seed, epoch and batch

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from operformer.domain import Pairs, Samples
from operformer.domain.samples import larger_grid, z_grid
from operformer.errors import UsageError
from operformer.problems import Symmetry
from operformer.problems.symmetry import moved

BatchName = Literal["points", "pairs"]
ResolutionName = Literal["staged", "mixed", "growing"]
FITS = 0.4  # of the free memory of a GPU, which the training itself needs too


@dataclass(frozen=True)
class Plan:
    """The batches of every epoch: ``sizes`` holds the pairs of a batch for each resolution, coarse to fine.

    Staged, the resolutions share the epochs, coarse ones first, equally or by ``stages``; mixed, one is drawn for each
    batch; growing, one is drawn of those whose stage has begun.
    """

    count: int
    sizes: tuple[int, ...]
    epochs: int
    seed: int
    resolutions: ResolutionName = "staged"
    stages: tuple[float, ...] = ()

    def epoch(self, epoch: int) -> list[tuple[int, Tensor]]:
        """The resolution and the chosen pairs of each batch; every pair comes once."""
        generator = torch.Generator().manual_seed((self.seed << 20) + epoch)
        order = torch.randperm(self.count, generator=generator)
        levels = self.levels(epoch)
        sizes = [self.sizes[level] for level in levels]
        sizes[-1] = self.count - sum(sizes[:-1])
        return list(zip(levels, order.split(sizes), strict=True))

    def levels(self, epoch: int) -> list[int]:
        """The resolution of each batch, counted from the coarsest."""
        stage = self._stage(min(epoch, self.epochs - 1))
        if self.resolutions == "staged":
            return [stage] * -(-self.count // self.sizes[stage])
        known = len(self.sizes) if self.resolutions == "mixed" else stage + 1
        draws = np.random.default_rng([self.seed, epoch])
        levels, left = [], self.count
        while left > 0:
            levels.append(int(draws.integers(known)))
            left -= self.sizes[levels[-1]]
        return levels

    def _stage(self, epoch: int) -> int:
        """The resolution of an epoch: the one whose part of all epochs it begins in."""
        if not self.stages:
            return epoch * len(self.sizes) // self.epochs
        ends = [self.epochs * end / sum(self.stages) for end in accumulate(self.stages)]
        return next(level for level, end in enumerate(ends) if epoch < end - 1e-9 or level + 1 == len(ends))

    def updates(self, begin: int = 0, end: int | None = None) -> int:
        """The batches of the epochs from ``begin`` to before ``end``, of all if nothing is said."""
        epochs = range(begin, self.epochs if end is None else end)
        if len(self.sizes) == 1:
            return len(epochs) * len(self.levels(0))
        return sum(len(self.levels(epoch)) for epoch in epochs)


def batch_sizes(finest: int, levels: Sequence[Pairs], batches: BatchName = "points") -> tuple[int, ...]:
    """Samples in a batch of each resolution: with the points of ``finest`` of the last one, or the same number."""
    if batches == "pairs":
        return (finest,) * len(levels)
    points = [prod(larger_grid(pairs).shape) for pairs in levels]
    return tuple(max(1, round(finest * points[-1] / n)) for n in points)


def levels_of(samples: Pairs | Sequence[Pairs]) -> tuple[Pairs, ...]:
    """The sets of a training from the coarsest grid to the finest, all with the same draws."""
    levels: tuple[Any, ...] = tuple(samples) if isinstance(samples, list | tuple) else (samples,)
    counts = sorted({len(level) for level in levels})
    points = [prod(level.grid.shape) for level in levels]
    if len(counts) != 1:
        raise UsageError(f"sets of several resolutions must hold the same draws: got {' and '.join(map(str, counts))}")
    if points != sorted(set(points)):
        raise UsageError(f"sets of several resolutions go from coarse to fine: got {points} points")
    return levels


def shares(chosen: Tensor, rank: int, world: int, parts: int) -> list[tuple[Tensor, Tensor]]:
    """The parts of a batch that one of ``world`` processes computes: where in the batch, and which pairs.

    Who has nothing to do takes the first pair along, for the sake of the others, who wait for its gradient; its weight
    is zero because it is counted as none.
    """
    places = torch.arange(len(chosen)).tensor_split(world)[rank].tensor_split(parts)
    return [(place, chosen[place if len(place) else torch.zeros(1, dtype=torch.long)]) for place in places]


@dataclass(frozen=True)
class Augmentation:
    """A random symmetry of the problem for every pair, drawn from (seed, epoch, batch)."""

    symmetries: tuple[Symmetry, ...]
    seed: int

    def __call__(self, samples: Samples, epoch: int, batch: int, size: int, places: Tensor) -> Samples:
        """The pairs that stand at these places of a batch of that size, moved."""
        draws = np.random.default_rng([self.seed, epoch, batch, len(self.symmetries)])
        uniform = torch.from_numpy(draws.random((len(self.symmetries), size)))
        places = places if len(places) else torch.zeros(1, dtype=torch.long)
        return moved(samples, self.symmetries, sent(uniform[:, places], samples.u.device))


def resident(pairs: Pairs, device: torch.device, dtype: torch.dtype) -> Pairs:
    """Pairs that fit go to the device once, in the operator's precision; others go there batch by batch."""
    if device.type == "cpu":
        return pairs.to(device, dtype) if isinstance(pairs, Samples) else pairs
    free, _ = torch.cuda.mem_get_info(device)
    points = [prod(grid.shape) for grid in (pairs.grid, z_grid(pairs))]
    if dtype.itemsize * len(pairs) * sum(map(mul, pairs.channels, points)) > FITS * free:
        return pairs
    whole = pairs if isinstance(pairs, Samples) else pairs[torch.arange(len(pairs))]
    # Checks stay on the CPU, and choosing from them would wait for an index that is on the GPU.
    return replace(whole, checks={}).to(device, dtype)


def sent(numbers: Tensor, device: torch.device) -> Tensor:
    """A few numbers of the CPU on a device; on a GPU without waiting for what it computes."""
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers


def streamed(loads: Sequence[Callable[[], Samples]]) -> Iterator[Samples]:
    """The results in order, the next one read while the one before it is used."""
    with ThreadPoolExecutor(1) as reader:
        waiting: deque[Future[Samples]] = deque()
        for load in loads:
            waiting.append(reader.submit(load))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
