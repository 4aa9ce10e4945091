"""Pairs that are remembered: runs of one problem that follow each other in a process draw them once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import torch

from operformer.domain import Grid
from operformer.problems.problem import Problem, Samples


class Draws:
    """Draws pairs as `Problem.sample` does, and keeps the last ``kept`` sets of them in memory."""

    def __init__(self, kept: int = 0) -> None:
        self._kept = kept
        self._sets: OrderedDict[object, Samples] = OrderedDict()

    def sample(
        self,
        problem: Problem,
        count: int,
        resolution: int | Grid,
        seed: int,
        device: torch.device | str,
        first: int = 0,
        dtype: torch.dtype | None = None,
    ) -> Samples:
        """The pairs, in another precision if one is given; whoever gets them must not change them."""
        grid = resolution if isinstance(resolution, Grid) else problem.grid(resolution)
        points = hashlib.sha256(grid.points.cpu().numpy().tobytes()).digest()
        key = (type(problem), problem, count, grid.kind, points, seed, str(device), first, dtype)
        if key not in self._sets:
            # Room first: the old pairs and the new ones need not fit together.
            while self._sets and len(self._sets) >= self._kept:
                self._sets.popitem(last=False)
            samples = problem.sample(count, grid, seed, device, first).to(dtype=dtype)
            if not self._kept:
                return samples
            self._sets[key] = samples
        self._sets.move_to_end(key)
        return self._sets[key]
