"""How to train: every choice of a training as one frozen value (Section 6)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch

from operformer.errors import DataError, ResourceError, UsageError
from operformer.evaluation.loss import LossName
from operformer.files import read_json, write_json
from operformer.problems.problem import check_seed
from operformer.training.batches import BatchName, ResolutionName
from operformer.training.optimizer import OptimizerName
from operformer.training.rounding import AverageName, ProductName
from operformer.training.schedule import ScheduleName

MOST_EPOCHS = 10**6
# What may change when a training goes on: its length, where and how fast it runs. All else decides its numbers.
FREE = ("epochs", "device", "strategy", "compile", "accumulation", "save_minutes")


@dataclass(frozen=True)
class Training:
    """How to train. Good values: the authors' Adam at 1e-3 with the plateau rule; the cosine when epochs are few.

    ``batch_size`` counts the pairs of one update, over all processes and all parts of an accumulation, at the finest
    resolution; coarser batches hold more pairs and as many points, or with ``batches="pairs"`` as many pairs.
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
    accumulation: int = 1  # parts that a batch is computed in, one after the other
    ema: float = 0.0  # decay of the averaged weights, which are then validated and kept; 0 is none
    averages: AverageName = "full"  # precision inside attention
    products: ProductName = "full"  # precision of float32 matrix products on a GPU
    compile: bool = False  # on one GPU that holds the pairs, batches are launched as CUDA graphs, too
    strategy: Literal["ddp", "fsdp"] = "ddp"  # of several processes: whole copies, or shards of the weights
    # Of several: from coarse to fine; one drawn for each batch; one drawn of those that a stage has reached.
    resolutions: ResolutionName = "staged"
    batches: BatchName = "points"  # of coarser resolutions: with as many points as the finest one's, or as many pairs
    stages: tuple[float, ...] = ()  # of the epochs, the part of each resolution, coarse to fine; equal if not given
    augment: bool = False  # move every pair by a random symmetry of the problem
    save_minutes: float = 10.0  # between checkpoints inside an epoch

    def __post_init__(self) -> None:
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
        if self.accumulation > self.batch_size:
            parts = f"got {self.accumulation} parts of {self.batch_size} pairs"
            raise UsageError(f"training.accumulation must not exceed training.batch_size: {parts}")
        if self.optimizer == "muon" and self.strategy == "fsdp":
            raise UsageError('Muon needs whole matrices: got training.strategy "fsdp"; set it to "ddp"')
        check_seed("training.seed", self.seed)


def check_device(settings: Training) -> None:
    """Refuse a device that is not there."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise ResourceError('training.device is "cuda", but no CUDA device was found; set it to "cpu" or "auto"')


def training_device(settings: Training) -> torch.device:
    """Where a process of this training computes."""
    check_device(settings)
    if settings.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())


def keep_settings(folder: Path, settings: Training) -> None:
    """A folder holds one training; only its length, and where and how fast it runs, may change."""
    from operformer.training.checkpoint import has_checkpoint  # here: settings alone need no torch.distributed

    path = folder / "training.json"
    # Through JSON, which turns tuples into lists.
    wanted = json.loads(json.dumps({name: value for name, value in asdict(settings).items() if name not in FREE}))
    if has_checkpoint(folder / "checkpoints") and path.is_file():
        there = read_json(path)
        if not isinstance(there, dict):
            raise DataError(f"{path} is damaged (no table of settings); restore it")
        before = json.loads(json.dumps(asdict(Training()))) | there  # settings that are newer than the folder
        differing = [name for name, value in wanted.items() if before[name] != value]
        if differing:
            raise UsageError(f"{folder} holds a training with another {differing[0]}; train into another folder")
    write_json(path, wanted)
