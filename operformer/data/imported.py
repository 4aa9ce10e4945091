"""A set of somebody's own as a problem to learn: its pairs are all there is, on the grid they are known on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from operformer.data.store import StoredPairs, open_pairs
from operformer.domain import Grid, Samples
from operformer.domain.box import Bounds
from operformer.domain.interpolation import nested_grids
from operformer.errors import UsageError
from operformer.problems.problem import Problem


@dataclass(frozen=True)
class Imported(Problem):
    """The pairs that `operformer import` left in a folder. There is no law behind them, so nothing can be drawn."""

    folder: str

    has_law = False

    @property
    def stored(self) -> StoredPairs:
        """All samples, on disk."""
        return open_pairs(self.folder)

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the set calls u's channels."""
        return self.stored.manifest.header.fields.inputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the set calls z's channels."""
        return self.stored.manifest.header.fields.outputs

    @property
    def bounds(self) -> Bounds:
        """The box that the set's grid lies in."""
        return self.stored.grid.bounds

    def grid(self, resolution: int) -> Grid:
        """The set's own grid, whatever the resolution."""
        return self.stored.grid

    def evaluation_grids(self, resolution: int) -> dict[str, Grid]:
        """The set's own grid, and coarser ones whose points are among its own: z is not known elsewhere."""
        nested = {f"{1 / k:.3g}x": grid for k, grid in nested_grids(self.stored.grid).items()}
        return dict(reversed(nested.items())) | {"1x": self.stored.grid}

    def _solve(self, draws: Sequence[np.random.Generator], grid: Grid) -> Samples:
        raise UsageError(f"{self.folder} holds pairs and no law: they are known on their own grid only")
