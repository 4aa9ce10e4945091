"""The loss of a batch and its gradient as one launch: CUDA graphs of the compiled forward and backward pass.

A CPU needs longer to launch the kernels of a small batch one by one than a GPU to carry them out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from operformer.domain import Grid, Samples
from operformer.evaluation.loss import Loss
from operformer.kernels.recording import MOST_GRAPHS, Action, Arrivals, CudaGraphs, Recorder
from operformer.operators.compiling import compiled

WARM = 20  # batches of one shape before it is worth compiling; the last one of an epoch is often smaller


@dataclass(frozen=True)
class _Recording:
    """What a graph reads, and how to carry it out again."""

    u: Tensor
    z: Tensor
    factor: Tensor
    replay: Action


class GraphedPass:
    """The mean loss of the operator on a batch; its gradient, times a factor, is added to that of the parameters.

    A shape on a grid that keeps coming is compiled and recorded; before that the operator is called as it is. The loss
    is overwritten by the next call. Gradients must stay where they are: zero them, do not drop them. While it records,
    nobody may hold an output of the operator with its graph: that would keep gradients on another stream.
    """

    def __init__(self, operator: nn.Module, loss: Loss, record: Recorder | None = None, warm: int = WARM) -> None:
        self._operator, self._loss, self._arrivals = operator, loss, Arrivals(warm)
        torch.compiler.reset()  # operators share `forward`, of which the compiler keeps eight forms a process
        self._compiled = compiled(operator, dynamic=False)
        self._record = record or CudaGraphs(list(operator.parameters()))
        self._recordings: dict[tuple[torch.Size, Grid], _Recording] = {}

    def __call__(self, samples: Samples, factor: float) -> Tensor:
        """The loss, without its gradient."""
        key = (samples.u.shape, samples.grid)
        if key not in self._recordings:
            is_familiar = self._arrivals.is_familiar(*key)
            if not is_familiar or len(self._recordings) == MOST_GRAPHS or samples.grid.counts:
                return self._pass(self._operator, samples.u, samples.z, samples.grid, factor)
            self._recordings[key] = self._recording(samples, factor)
        recording = self._recordings[key]
        recording.u.copy_(samples.u)
        recording.z.copy_(samples.z)
        recording.factor.fill_(factor)
        return recording.replay()

    def _recording(self, samples: Samples, factor: float) -> _Recording:
        u, z, grid = samples.u.clone(), samples.z.clone(), samples.grid
        static = torch.full((), factor, dtype=u.dtype, device=u.device)
        return _Recording(u, z, static, self._record(lambda: self._pass(self._compiled, u, z, grid, static)))

    def _pass(self, module: Callable[..., Tensor], u: Tensor, z: Tensor, grid: Grid, factor: float | Tensor) -> Tensor:
        loss = self._loss(module(u, grid), z, grid).mean()
        (loss * factor).backward()
        return loss.detach()
