"""Actions on a GPU that are launched at once: what a CPU has launched one kernel after the other, as a CUDA graph."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Action = Callable[[], Tensor]
Recorder = Callable[[Action], Action]

MOST_GRAPHS = 8  # of one operator; as many as the compiler keeps forms of one function


class CudaGraphs:
    """Records actions that read tensors that stay, and may add to the gradients of some parameters.

    All recordings share their memory, so the output of one is overwritten when it, or another, is carried out again.
    """

    def __init__(self, parameters: Sequence[nn.Parameter] = ()) -> None:
        self._parameters = parameters
        self._pool: Any = None
        self._recorded: list[Action] = []  # so that what graphs read stays

    def __call__(self, action: Action) -> Action:
        """The same action from now on, by one launch; gradients are as before when this returns.

        An action in which the CPU waits for values of the GPU is returned as it is: no graph holds that.
        """
        torch.cuda.empty_cache()  # what was used before would otherwise be kept beside the graph's memory
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        kept = [gradient.clone() for gradient in gradients]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            action()  # compiles, tunes, and makes the libraries' workspaces
            waits = _waits(action)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.empty_cache()
        carried_out = action if waits else self._record(action, stream)
        if gradients:
            torch._foreach_copy_(gradients, kept)
        return carried_out

    def _record(self, action: Action, stream: torch.cuda.Stream) -> Action:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=stream):
            output = action()
        self._pool = graph.pool()
        self._recorded.append(action)

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay


class Arrivals:
    """Counts what comes on a grid, known by the object and forgotten with it, until recording it is worth while."""

    def __init__(self, warm: int) -> None:
        self._warm = warm
        self._seen: WeakKeyDictionary[Any, Counter[Hashable]] = WeakKeyDictionary()

    def is_familiar(self, form: Hashable, grid: Any) -> bool:
        """Whether it has come more than ``warm`` times, this time included."""
        seen = self._seen.setdefault(grid, Counter())
        seen[form] += 1
        return seen[form] > self._warm


def _waits(action: Action) -> bool:
    """Carry out an action; whether the CPU waits for the GPU in it. A capture that finds out leaves torch unusable."""
    before = torch.cuda.get_sync_debug_mode()
    try:
        _set_sync_debug_mode("error")
        action()
    except RuntimeError as error:
        if "synchronizing CUDA operation" not in str(error):
            raise
        return True
    finally:
        _set_sync_debug_mode(before)
    return False


def _set_sync_debug_mode(mode: int | str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is a prototype and may miss some
        torch.cuda.set_sync_debug_mode(mode)
