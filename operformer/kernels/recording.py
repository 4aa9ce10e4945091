"""Actions on a GPU that are launched at once: what a CPU has launched one kernel after the other, as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Action = Callable[[], Tensor]
Recorder = Callable[[Action], Action]


class CudaGraphs:
    """Records actions that read tensors that stay, and may add to the gradients of some parameters.

    All recordings share their memory, so the output of one is overwritten when it, or another, is carried out again.
    """

    def __init__(self, parameters: Sequence[nn.Parameter] = ()) -> None:
        self._parameters = parameters
        self._pool: Any = None

    def __call__(self, action: Action) -> Action:
        """The same action from now on, by one launch; gradients are as before when this returns."""
        torch.cuda.empty_cache()  # what was used before would otherwise be kept beside the graph's memory
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        kept = [gradient.clone() for gradient in gradients]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # compiles, tunes, and makes the libraries' workspaces
                action()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=stream):
            output = action()
        self._pool = graph.pool()
        if gradients:
            torch._foreach_copy_(gradients, kept)

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay
