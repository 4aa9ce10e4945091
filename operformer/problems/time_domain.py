"""What problems on a time interval share: grids of [0, T] and the reading of draws on them (Section 6.1)."""

from __future__ import annotations

from math import inf

import torch

from operformer.domain import Grid
from operformer.domain.box import Bounds
from operformer.errors import UsageError
from operformer.problems.problem import Problem


class TimeProblem(Problem):
    """A law of pairs of functions on [0, T], T = ``horizon``, whose draws can be read at any times."""

    horizon: float

    def grid(self, resolution: int) -> Grid:
        """{n dt}, n = 0, ..., N, dt = T / N, for N = resolution time steps (equation regular_set)."""
        if resolution < 1:
            raise UsageError(f"resolution must be at least one time step: got {resolution}; the paper has 200")
        return Grid.uniform((resolution + 1,), bounds=[(0.0, self.horizon)], kind="nodes")

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

    @property
    def bounds(self) -> Bounds:
        """[0, T]."""
        return ((0.0, self.horizon),)


def check_horizon(horizon: float) -> None:
    """Refuse an interval [0, T] that is empty or endless."""
    if not 0 < horizon < inf:
        raise UsageError(f"horizon must be positive and finite: got {horizon}; the paper has 2")
