"""The processes that train together, one for each GPU, as torchrun starts them; without torchrun there is one."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.precision import Precision
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from lightning_fabric.strategies.strategy import Strategy
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from operformer.errors import ElsewhereError, OperformerError, ResourceError, UsageError
from operformer.operators.compiling import compiled
from operformer.training.recipe import Training


class Ranks:
    """This process among those that train together, and what they tell each other: numbers, never objects."""

    def __init__(self, settings: Training) -> None:
        self.world = world_size()
        self.rank = int(os.environ.get("RANK", 0)) if self.world > 1 else 0
        if settings.strategy == "fsdp" and self.world == 1:
            raise UsageError('training.strategy is "fsdp", which needs several processes; start them with torchrun')
        self.fabric = _fabric(settings, self.world)
        self.device = self.fabric.device

    def setup(self, operator: nn.Module, is_compiled: bool) -> nn.Module:
        """The operator as all processes train it; its parameters may become shards."""
        operator.to(self.device)
        if is_compiled:
            torch.compiler.reset()  # operators share `forward`, of which the compiler keeps eight forms a process
        module = compiled(operator) if is_compiled else operator
        return self.fabric.setup_module(module)

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


def _fabric(settings: Training, world: int) -> Fabric:
    if world == 1:
        # Its own environment: inside a SLURM job fabric would look for tasks that nobody started.
        plugins: list[Any] = [_AsItIs(), LightningEnvironment()]
        return Fabric(accelerator=settings.device, devices=1, plugins=plugins)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    if settings.device == "cuda" and local > torch.cuda.device_count():
        found = f"{local} processes and {torch.cuda.device_count()} GPUs"
        raise ResourceError(f"every process on a machine needs a GPU of its own: got {found}; start fewer")
    on_gpu = settings.device != "cpu" and torch.cuda.device_count() >= local
    fabric = Fabric(
        accelerator="cuda" if on_gpu else "cpu",
        devices=local,
        num_nodes=world // local,
        strategy=_strategy(settings, world),
        plugins=_AsItIs(),
    )
    fabric.launch()
    return fabric


def _strategy(settings: Training, world: int) -> Strategy:
    if settings.strategy == "fsdp":
        return ModelParallelStrategy(_shard, data_parallel_size=world, tensor_parallel_size=1)
    return DDPStrategy()


def _shard(operator: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Every layer by itself, so that one layer at a time is whole, and what is left.

    Other lists of modules, such as those of a baseline's library, may be read without being called: they are left.
    """
    for name, module in operator.named_modules():
        if name.rpartition(".")[2] == "layers":
            for layer in module.children():
                fully_shard(layer, mesh=mesh["data_parallel"])
    fully_shard(operator, mesh=mesh["data_parallel"], reshard_after_forward=True)
    return operator


class _AsItIs(Precision):
    """Fabric's own plugins round what goes in and out; here dtypes are the operator's and the samples'."""

    def convert_input(self, data: Any) -> Any:
        return data

    def convert_output(self, data: Any) -> Any:
        return data
