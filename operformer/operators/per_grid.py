"""What an operator makes of a grid (partition, basis values, weights), made once and kept as long as the grid lives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch

from operformer.domain import Grid

T = TypeVar("T")


class PerGrid:
    """A cache whose keys are grids, known by the object and held weakly. Copies and pickles of it start empty."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Grid, dict[Hashable, Any]] = WeakKeyDictionary()

    def get(self, grid: Grid, key: Hashable, make: Callable[[], T]) -> T:
        """``make()`` at the first call for this grid and key, the same object at all others."""
        # A compiler or an exporter traces what is made: nothing of that may outlive the trace.
        if torch.compiler.is_compiling() or grid.points.requires_grad:
            return make()
        made = self._made.setdefault(grid, {})
        if key not in made:
            # A tensor of inference mode could not be used in a later training.
            with torch.inference_mode(False), torch.no_grad():
                made[key] = make()
        return made[key]

    def __deepcopy__(self, memo: dict[int, Any]) -> PerGrid:
        return PerGrid()

    def __reduce__(self) -> tuple[type[PerGrid], tuple[()]]:
        return PerGrid, ()
