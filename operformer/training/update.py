"""One update of the weights from one batch: part by part, all processes together, no number that is not finite."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import isfinite, prod

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from operformer.domain import Grid, Samples
from operformer.domain.samples import larger_grid, z_grid
from operformer.errors import ResourceError
from operformer.evaluation.loss import LOSSES, Loss, LossName
from operformer.kernels.recording import MOST_GRAPHS, Action, Arrivals, CudaGraphs, Recorder
from operformer.operators.operator import applied
from operformer.operators.production import compiled
from operformer.training.checkpoint import State
from operformer.training.optimizer import can_step_unless, step_unless
from operformer.training.ranks import Ranks
from operformer.training.rounding import unscale


@dataclass(frozen=True)
class Update:
    """theta <- optimizer(grad of the mean loss of a batch), the gradient clipped to ``clip_norm``."""

    ranks: Ranks
    module: nn.Module
    state: State
    loss: LossName
    clip_norm: float
    graphs: GraphedPass | None = None  # in place of the module, on one GPU

    def __call__(
        self,
        parts: Iterable[tuple[Samples, int]],
        size: int,
        requests: list[float],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[float] | None:
        """The sum of the losses of ``size`` pairs and the summed requests; None if a number is not finite.

        ``parts`` are this process's, each with how many of its pairs count. ``meanwhile`` is done while a GPU computes.
        """
        given = list(parts)
        losses = [
            self._backward(samples, count, size, is_last=number == len(given) - 1)
            for number, (samples, count) in enumerate(given)
        ]
        clipped = self._clip()
        numbers = Arriving([clipped, *losses])
        is_early = self.ranks.world == 1 and can_step_unless(self.state.optimizer)
        if is_early:  # the GPU need not wait for the CPU to learn the norm and to launch the step
            step_unless(self.state.optimizer, ~numbers.are_finite())
        meanwhile()
        norm, *found = numbers.values()
        local = sum(loss * count for loss, (_, count) in zip(found, given, strict=True))
        summed = self.ranks.total(local, *requests)
        if not isfinite(summed[0]) or not (isfinite(norm) or self._may_be_scaled_too_high()):
            return None
        if isfinite(norm):
            if not is_early:
                self.state.optimizer.step()
            self._after_step()
        self.state.optimizer.zero_grad(set_to_none=self.graphs is None)
        self.state.schedule.after_update()
        return summed

    def _backward(self, samples: Samples, count: int, size: int, is_last: bool) -> Tensor:
        """Add the gradient of a part; the mean of its losses."""
        weight = count * self.ranks.world / size  # the gradients of the processes are averaged
        scale = self.state.scale.value if self.state.scale else 1.0
        try:
            if self.graphs is not None:
                loss = self.graphs(samples, weight * scale)
                return loss.clone() if not is_last else loss
            # Processes need not exchange the gradients of all parts but the last.
            with nullcontext() if is_last else self.ranks.silence(self.module):
                prediction = applied(self.module, samples.u, samples)
                loss = LOSSES[self.loss](prediction, samples.z, z_grid(samples)).mean()
                (loss if weight * scale == 1 else loss * (weight * scale)).backward()
        except (MemoryError, RuntimeError) as error:
            if _is_out_of_memory(error):
                raise _out_of_memory(samples, self.ranks.rank) from None
            raise
        return loss.detach()

    def _clip(self) -> Tensor:
        """The norm that the gradient had; it is clipped to ``clip_norm``."""
        parameters = list(self.state.operator.parameters())
        if self.state.scale:
            unscale(parameters, self.state.scale.value)
        norm: Tensor = torch.nn.utils.clip_grad_norm_(parameters, self.clip_norm)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def _may_be_scaled_too_high(self) -> bool:
        return self.state.scale is not None and self.state.scale.overflow()

    def _after_step(self) -> None:
        if self.state.scale:
            self.state.scale.success()
        if self.state.average:
            self.state.average.update()


class Arriving:
    """Numbers on their way from a device; asking for them waits for what was launched before, not for what is after."""

    def __init__(self, numbers: list[Tensor]) -> None:
        self._sent = torch.stack([number.detach().double() for number in numbers])
        self._there: torch.cuda.Event | None = None
        self._numbers = self._sent
        if self._sent.device.type == "cuda":
            self._numbers = torch.empty_like(self._sent, device="cpu", pin_memory=True)
            self._numbers.copy_(self._sent, non_blocking=True)
            self._there = torch.cuda.Event()
            self._there.record()

    def are_finite(self) -> Tensor:
        """Whether all of them are, as the device knows it."""
        return torch.isfinite(self._sent).all()

    def values(self) -> list[float]:
        """The numbers."""
        if self._there is not None:
            self._there.synchronize()
        found: list[float] = self._numbers.tolist()
        return found


def _is_out_of_memory(error: BaseException) -> bool:
    # On a CPU torch says so in words, and CUDA does of a graph.
    said = any(words in str(error) for words in ("allocate memory", "CUDA error: out of memory"))
    return said or isinstance(error, MemoryError | torch.OutOfMemoryError)


def _out_of_memory(samples: Samples, rank: int) -> ResourceError:
    what = f"a batch of {len(samples)} samples of {prod(larger_grid(samples).shape)} points"
    return ResourceError(
        f"out of memory (rank {rank}) with {what}; raise training.accumulation, or lower training.batch_size"
    )


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
        if samples.grid.counts or samples.query is not None:
            return self._eager(samples, factor)
        key = (samples.u.shape, samples.grid)
        if key not in self._recordings:
            is_familiar = self._arrivals.is_familiar(*key)
            if not is_familiar or len(self._recordings) == MOST_GRAPHS:
                return self._eager(samples, factor)
            self._recordings[key] = self._recording(samples, factor)
        recording = self._recordings[key]
        recording.u.copy_(samples.u)
        recording.z.copy_(samples.z)
        recording.factor.fill_(factor)
        return recording.replay()

    def _recording(self, samples: Samples, factor: float) -> _Recording:
        kept = replace(samples, u=samples.u.clone(), z=samples.z.clone())
        static = torch.full((), factor, dtype=kept.u.dtype, device=kept.u.device)
        return _Recording(kept.u, kept.z, static, self._record(lambda: self._pass(self._compiled, kept, static)))

    def _eager(self, samples: Samples, factor: float) -> Tensor:
        return self._pass(self._operator, samples, factor)

    def _pass(self, module: Callable[..., Tensor], samples: Samples, factor: float | Tensor) -> Tensor:
        loss = self._loss(applied(module, samples.u, samples), samples.z, z_grid(samples)).mean()
        (loss * factor).backward()
        return loss.detach()
