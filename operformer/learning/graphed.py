"""An operator whose kernels are launched as one graph: a small batch costs a GPU less time than a CPU to launch it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from operformer.domain import Grid

MOST_GRAPHS = 4  # each keeps the memory of a whole training step
MOST_SEEN = 16  # shapes that are remembered, with their grids


class Graphed(nn.Module):
    """operator(u, grid) while training on a GPU, by CUDA graphs of its forward and its backward pass.

    A graph is recorded when a shape on a grid comes for the second time; before that, beyond four graphs, without
    gradients, on a ragged grid or on a CPU the operator is called as it is. The output is overwritten by the next call.
    """

    def __init__(self, operator: nn.Module) -> None:
        super().__init__()
        self.operator = operator
        self._graphs: dict[tuple[torch.Size, int], Callable[[Tensor], Tensor]] = {}
        self._seen: dict[tuple[torch.Size, int], Grid] = {}  # which keeps the number of a grid from being used again

    def forward(self, u: Tensor, grid: Grid) -> Tensor:
        """z on the points of the grid."""
        key = (u.shape, id(grid))
        if u.device.type != "cuda" or not torch.is_grad_enabled() or grid.counts is not None:
            return self.operator(u, grid)
        if key not in self._graphs:
            if key not in self._seen or len(self._graphs) == MOST_GRAPHS:
                if len(self._seen) == MOST_SEEN:
                    self._seen.clear()
                self._seen[key] = grid
                return self.operator(u, grid)
            graphed = torch.cuda.make_graphed_callables(_OnGrid(self.operator, grid), (u.clone(),))
            self._graphs[key] = cast(Callable[[Tensor], Tensor], graphed)
        return self._graphs[key](u)


class _OnGrid(nn.Module):
    """The operator on one grid, a function of u alone."""

    def __init__(self, operator: nn.Module, grid: Grid) -> None:
        super().__init__()
        self.operator, self.grid = operator, grid

    def forward(self, u: Tensor) -> Tensor:
        return self.operator(u, self.grid)
