"""Pairs that are remembered: runs of one problem that follow each other in a process draw them once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence

import torch

from operformer.domain import Grid, Samples
from operformer.problems.problem import Problem


class Draws:
    """Draws pairs as a `Problem` does, and keeps the last ``kept`` sets of them in memory.

    Whoever gets pairs must not change them.
    """

    def __init__(self, kept: int = 0) -> None:
        self._kept = kept
        self._sets: OrderedDict[Hashable, Samples] = OrderedDict()

    def sample(
        self, problem: Problem, count: int, resolution: int, seed: int, device: torch.device, first: int = 0
    ) -> Samples:
        """`Problem.sample`, in float32: what trainings need."""
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
        """`Problem.readings`, of those grids that are not in memory."""
        keys = [(*_key(problem, count, grid, seed, device, first), dtype) for grid in grids]
        known = {key: self._sets[key] for key in keys if key in self._sets}
        missing = [grid for key, grid in zip(keys, grids, strict=True) if key not in known]
        read = iter(problem.readings(count, missing, seed, device, first, dtype))
        for key in keys:
            if key in known:
                if key in self._sets:
                    self._sets.move_to_end(key)
                yield known[key]
            else:
                self._make_room()
                yield self._keep(key, next(read))

    def _make_room(self) -> None:
        """Before something new is drawn: the oldest and the new need not fit into memory together."""
        while self._sets and len(self._sets) >= self._kept:
            self._sets.popitem(last=False)

    def _keep(self, key: Hashable, samples: Samples) -> Samples:
        if self._kept:
            self._sets[key] = samples
        return samples


def _key(problem: Problem, count: int, grid: Grid, seed: int, device: torch.device, first: int) -> tuple[Hashable, ...]:
    points = hashlib.sha256(grid.points.cpu().numpy().tobytes()).digest()
    return (problem, count, grid.kind, points, seed, str(device), first)
