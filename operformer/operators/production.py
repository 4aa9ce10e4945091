"""An operator in production: compiled, and on a GPU one launch for each shape that keeps coming."""

# DESIGN.md: Paddings that torch 2.11 misreads are off

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from operformer.domain import Grid
from operformer.kernels.recording import MOST_GRAPHS, Action, Arrivals, CudaGraphs, Recorder

WARM = 2  # calls of one shape before it is recorded


@dataclass(frozen=True)
class _Recording:
    u: Tensor
    replay: Action


class Graphed(nn.Module):
    """z = operator(u, grid) by CUDA graphs: a small batch costs a GPU less time than a CPU to launch it.

    A shape on a grid is recorded when it comes for the third time; before that, on a CPU, on a ragged grid, with
    gradients or with other points for the output the operator is called as it is, and so is one that reads values, such
    as a TNO that looks for its initial condition, unless it is compiled. The output is a tensor of its own. Weights may
    change in place, but not settings such as the precision of averages; a grid is known by the object, so keep it.
    """

    def __init__(self, operator: nn.Module, record: Recorder | None = None) -> None:
        super().__init__()
        self.operator = operator
        self._given = self._record = record
        self._arrivals = Arrivals(WARM)
        self._recordings: dict[tuple[tuple[torch.Size, torch.dtype], Grid], _Recording] = {}

    def forward(self, u: Tensor, grid: Grid | None = None, query: Grid | None = None) -> Tensor:
        """z on the points of the grid, or on those of the query."""
        can_record = self._given is not None or u.device.type == "cuda"
        if grid is None or query is not None or grid.counts or torch.is_grad_enabled() or not can_record:
            return self.operator(u, grid, query)
        key = ((u.shape, u.dtype), grid)
        if key not in self._recordings:
            if not self._arrivals.is_familiar(*key) or len(self._recordings) == MOST_GRAPHS:
                return self.operator(u, grid)
            self._recordings[key] = self._recording(u, grid)
        recording = self._recordings[key]
        recording.u.copy_(u)
        return recording.replay().clone()

    def _recording(self, given: Tensor, grid: Grid) -> _Recording:
        self._record = self._record or CudaGraphs()
        with torch.inference_mode(False):  # a tensor of that mode could not be written to outside of it
            u, there = given.clone(), grid.to(given.device)
        return _Recording(u, self._record(lambda: self.operator(u, there)))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Graphed:
        """Weights that go to another device or precision are other tensors than those that were recorded."""
        self._recordings.clear()
        self._record = self._given  # graphs that are gone leave no memory to share
        return super()._apply(fn, recurse)


# On a GPU torch 2.11 pads rows in memory and reads some as if it had not: gradients of a FANO on 85 x 85 nodes were
# whatever the memory held. Its maintainers call that mended since August 2026 (pytorch/pytorch#194281).
_PADDING = "comprehensive_padding"


def compiled(operator: nn.Module, dynamic: bool | None = None) -> Any:
    """torch.compile(operator), without rows padded in memory."""
    options: dict[str, Any] | None = {_PADDING: False} if _PADDING in torch._inductor.list_options() else None
    return torch.compile(operator, dynamic=dynamic, options=options)
