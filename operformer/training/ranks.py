"""The processes that train together, one for each GPU, as torchrun starts them; without torchrun there is one."""

# DESIGN.md: A batch is an update

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from operformer.errors import ElsewhereError, OperformerError, ResourceError, UsageError
from operformer.operators.production import compiled
from operformer.training.recipe import Training, training_device


class Ranks:
    """This process among those that train together, and what they tell each other: numbers, never objects."""

    def __init__(self, settings: Training) -> None:
        self.world = world_size()
        self.rank = int(os.environ.get("RANK", 0)) if self.world > 1 else 0
        if settings.strategy == "fsdp" and self.world == 1:
            raise UsageError('training.strategy is "fsdp", which needs several processes; start them with torchrun')
        self.is_sharded = settings.strategy == "fsdp"
        self.device = training_device(settings) if self.world == 1 else _join(settings)

    def setup(self, operator: nn.Module, is_compiled: bool) -> nn.Module:
        """The operator as all processes train it; its parameters may become shards."""
        operator.to(self.device)
        if is_compiled:
            torch.compiler.reset()  # operators share `forward`, of which the compiler keeps eight forms a process
        module: nn.Module = operator
        if self.world > 1:
            module = _shard(operator, self.device, self.world) if self.is_sharded else _copy(operator, self.device)
        return compiled(module) if is_compiled else module

    @contextmanager
    def silence(self, module: Any) -> Iterator[None]:
        """Gradients that are computed inside are not exchanged yet."""
        if not self.is_sharded:
            with nullcontext() if self.world == 1 else module.no_sync():
                yield
            return
        module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            module.set_requires_gradient_sync(True)

    def total(self, *numbers: float) -> list[float]:
        """Each number summed over all processes, in float64."""
        if self.world == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(values)
        return values.tolist()

    def first(self, action: Callable[[], None]) -> None:
        """The first process acts, the others wait; an error there ends all of them."""
        error: OperformerError | None = None
        if self.rank == 0:
            try:
                action()
            except OperformerError as caught:
                error = caught
        (code,) = self.total(error.exit_code if error else 0)
        if error:
            raise error
        if code:
            raise ElsewhereError(int(code))

    def told(self, error: OperformerError) -> OperformerError:
        """An error that all processes have found, told by the first one only."""
        return error if self.rank == 0 else ElsewhereError(error.exit_code)


def world_size() -> int:
    """How many processes torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", 1)) if dist.is_torchelastic_launched() else 1


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return world_size() == 1 or os.environ.get("RANK") == "0"


def _join(settings: Training) -> torch.device:
    """Join the processes that torchrun has started; the device of this one."""
    local, count = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if settings.device == "cuda" and count > torch.cuda.device_count():
        found = f"{count} processes and {torch.cuda.device_count()} GPUs"
        raise ResourceError(f"every process on a machine needs a GPU of its own: got {found}; start fewer")
    on_gpu = settings.device != "cpu" and torch.cuda.device_count() >= count
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if on_gpu else "gloo")
        atexit.register(_leave)
    return device


def _leave() -> None:
    """Without it, torch warns of what is left open."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _copy(operator: nn.Module, device: torch.device) -> nn.Module:
    """Every process holds the operator, and gradients are averaged."""
    if device.type == "cpu":
        return DistributedDataParallel(operator)
    with torch.cuda.stream(torch.cuda.Stream()):  # torch's own advice, where graphs are captured later
        return DistributedDataParallel(operator, device_ids=[device.index])


def _shard(operator: nn.Module, device: torch.device, world: int) -> nn.Module:
    """Every layer by itself, so that one layer at a time is whole, and what is left.

    Other lists of modules, such as those of a baseline's library, may be read without being called: they are left.
    """
    mesh: DeviceMesh = init_device_mesh(device.type, (world,))
    for name, module in operator.named_modules():
        if name.rpartition(".")[2] == "layers":
            for layer in module.children():
                fully_shard(layer, mesh=mesh)
    fully_shard(operator, mesh=mesh, reshard_after_forward=True)
    return operator


def whole(tensor: Tensor) -> Tensor:
    """A tensor without its shards, on the CPU; all processes take part."""
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().cpu().contiguous()


def sharded_like(full: Tensor, target: Tensor) -> Tensor:
    """A whole tensor on the device of another one, and in its shards if it has any."""
    moved = full.to(target.device)
    if isinstance(target, DTensor):
        # Every process has read the whole tensor, in an order of its own: nothing is exchanged.
        return distribute_tensor(moved, target.device_mesh, target.placements, src_data_rank=None)
    return moved
