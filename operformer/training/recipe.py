"""How to train: every choice of a training as one frozen value (Section 6)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import torch

from operformer.errors import ResourceError, UsageError
from operformer.evaluation.loss import LossName
from operformer.problems.problem import check_seed
from operformer.settings import check_fields
from operformer.training.batches import BatchName, ResolutionName
from operformer.training.optimizer import OptimizerName
from operformer.training.rounding import AverageName, ProductName
from operformer.training.schedule import ScheduleName

MOST_EPOCHS = 10**6


@dataclass(frozen=True)
class Training:
    """How to train: epochs, batches, optimizer, schedule, precision. A frozen value; every setting has a default.

    Args:
        epochs: passes over the training samples. Good values: 10 to 100; more is better, most of all here.
        batch_size: samples of one update, over all processes and all parts of an accumulation. Good values: 4 to 32.
        learning_rate: its highest value. Good values: 1e-3 for AdamW, 2e-3 to 8e-3 for Muon with "one-cycle".
        schedule: "plateau", which halves the rate when the validation error stalls; "cosine" or "one-cycle" when the
            number of epochs is known.
        loss: "l2", "h1" for gradients, too, or "l2+h1", their mean, where slopes are steep. All are relative errors,
            weighted by the grid.
        weight_decay: of AdamW and Muon. Good value: 0.
        clip_norm: the gradient's norm is clipped to it. Good value: 1.
        seed: of first weights, order and augmentation.
        device: "auto", "cpu" or "cuda".
        optimizer: "adamw", or "muon" for the matrices inside the layers, which learns faster on most problems.
        accumulation: parts that a batch is computed in, one after the other, to save memory.
        ema: decay of averaged weights, which are then validated and kept. Good values: 0 (none), 0.999.
        averages: precision inside attention, "full", "float16" or "bfloat16". Good value on a GPU: "float16".
        products: precision of float32 matrix products on a GPU, "full" or "tf32".
        compile: compile the operator; on one GPU that holds the samples, batches are launched as CUDA graphs, too.
        strategy: of several processes, "ddp" for whole copies, "fsdp" for shards of the weights.
        resolutions: of several resolutions, "staged" from coarse to fine, "mixed" draws one for each batch, "growing"
            draws one of those that a stage has reached.
        batches: batches of coarser resolutions have the "points" of the finest one's, or its number of "pairs".
        stages: the part of the epochs for each resolution, coarse to fine; equal parts if it is empty.
        augment: move every sample by a random symmetry of the problem.
        save_minutes: between checkpoints inside an epoch.
        restarts: epochs after which the rate begins a fresh cycle, from the best weights so far. ``epochs`` counts all.

    Example:
        >>> Training(epochs=20, batch_size=8, learning_rate=2e-3, schedule="one-cycle", loss="h1").epochs
        20
    """

    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 1e-3
    schedule: ScheduleName = "plateau"
    loss: LossName = "l2"
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    seed: int = 0
    device: Literal["cpu", "cuda", "auto"] = "auto"
    optimizer: OptimizerName = "adamw"
    accumulation: int = 1
    ema: float = 0.0
    averages: AverageName = "full"
    products: ProductName = "full"
    compile: bool = False
    strategy: Literal["ddp", "fsdp"] = "ddp"
    resolutions: ResolutionName = "staged"
    batches: BatchName = "points"
    stages: tuple[float, ...] = ()
    augment: bool = False
    save_minutes: float = 10.0
    restarts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, "training")
        for name in ("epochs", "batch_size", "accumulation"):
            if getattr(self, name) < 1:
                raise UsageError(f"training.{name} must be at least 1: got {getattr(self, name)}")
        if self.epochs > MOST_EPOCHS:
            raise UsageError(f"training.epochs must be at most {MOST_EPOCHS}: got {self.epochs}")
        for name in ("learning_rate", "clip_norm", "save_minutes"):
            if not getattr(self, name) > 0:
                raise UsageError(f"training.{name} must be positive: got {getattr(self, name)}")
        if not self.weight_decay >= 0:
            raise UsageError(f"training.weight_decay must not be negative: got {self.weight_decay}")
        if not 0 <= self.ema < 1:
            raise UsageError(f"training.ema must be from 0 to below 1: got {self.ema}; try 0.999")
        if any(not part > 0 for part in self.stages):
            raise UsageError(f"training.stages must be positive: got {list(self.stages)}; try [0.75, 0.25]")
        if self.stages and self.resolutions == "mixed":
            raise UsageError('training.stages goes with training.resolutions "staged" or "growing"; leave it out')
        if list(self.restarts) != sorted({n for n in self.restarts if 0 < n < self.epochs}):
            raise UsageError(
                f"training.restarts must rise from 1 to below training.epochs, {self.epochs}: got {list(self.restarts)}"
            )
        if self.accumulation > self.batch_size:
            parts = f"got {self.accumulation} parts of {self.batch_size} pairs"
            raise UsageError(f"training.accumulation must not exceed training.batch_size: {parts}")
        if self.optimizer == "muon" and self.strategy == "fsdp":
            raise UsageError('Muon needs whole matrices: got training.strategy "fsdp"; set it to "ddp"')
        check_seed("training.seed", self.seed)

    def cycle(self, epoch: int) -> tuple[int, int]:
        """The first epoch of the cycle that an epoch, counted from 0, belongs to, and the epoch after its last."""
        first = max((n for n in self.restarts if n <= epoch), default=0)
        return first, min((n for n in self.restarts if n > epoch), default=self.epochs)


def check_device(settings: Training) -> None:
    """Refuse a device that this machine does not have."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise ResourceError('training.device is "cuda", but no CUDA device was found; set it to "cpu" or "auto"')


def training_device(settings: Training) -> torch.device:
    """Where a process of this training computes."""
    check_device(settings)
    if settings.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
