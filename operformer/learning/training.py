"""The training loop (Section 6): relative loss, Adam, a schedule, a checkpoint after each epoch."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import Precision
from torch import Tensor, nn

from operformer.errors import DivergedError, ResourceError, UsageError
from operformer.files import read_json, write_json
from operformer.learning.checkpoint import Progress, last_epoch, load_checkpoint, save_checkpoint
from operformer.learning.evaluation import relative_errors
from operformer.learning.loss import LOSSES, LossName
from operformer.learning.metrics import append_metrics
from operformer.learning.progress import TrainingDisplay
from operformer.learning.samples import check_channels, check_samples, fit_normalisation
from operformer.learning.schedule import Schedule, ScheduleName, make_schedule
from operformer.operators import Operator, load
from operformer.problems import Pairs, Samples
from operformer.problems.problem import check_seed


@dataclass(frozen=True)
class Training:
    """How to train. Good values: the authors' Adam at 1e-3 with the plateau rule; the cosine when epochs are few."""

    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 1e-3
    schedule: ScheduleName = "plateau"
    loss: LossName = "l2"
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    seed: int = 0
    device: Literal["cpu", "cuda", "auto"] = "auto"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise UsageError(f"training.{name} must be at least 1: got {getattr(self, name)}")
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise UsageError(f"training.{name} must be positive: got {getattr(self, name)}")
        if not self.weight_decay >= 0:
            raise UsageError(f"training.weight_decay must not be negative: got {self.weight_decay}")
        check_seed("training.seed", self.seed)


def train(
    operator: Operator,
    samples: Pairs,
    validation: Pairs,
    settings: Training,
    folder: str | Path,
    title: str = "training",
) -> Operator:
    """Fit the operator to the samples; the result is the one with the best validation error, also in folder/operator.

    The same folder again goes on from its last checkpoint, to the same numbers. The order of the samples in an epoch
    follows from (seed, epoch) alone.
    """
    folder = Path(folder)
    check_device(settings)
    for kind, pairs in (("training", samples), ("validation", validation)):
        check_samples(pairs, kind)
        check_channels(operator, pairs, kind)
    _refuse_other_settings(folder, settings)
    fabric = Fabric(accelerator=settings.device, devices=1, plugins=_AsItIs())
    fit_normalisation(operator, samples)
    samples, validation = _on_device(samples, fabric.device), _on_device(validation, fabric.device)
    operator.to(fabric.device)
    optimizer = torch.optim.AdamW(operator.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)
    batches = -(-len(samples) // settings.batch_size)
    schedule = make_schedule(settings.schedule, optimizer, settings.epochs * batches)
    progress = load_checkpoint(folder / "checkpoints", operator, optimizer, schedule) or Progress(0, None, 0)
    wrapped, optimizer = fabric.setup(operator, optimizer)

    with TrainingDisplay(title, settings.epochs, batches, progress.epoch) as display:
        for epoch in range(progress.epoch, settings.epochs):
            started = time.monotonic()
            loss = _epoch(fabric, wrapped, optimizer, schedule, samples, settings, epoch, display)
            error = float(relative_errors(operator, validation, settings.loss).mean())
            schedule.after_epoch(error)
            if progress.best_error is None or error < progress.best_error:
                operator.save_pretrained(folder / "operator")
                progress = Progress(epoch + 1, error, best_epoch=epoch + 1)
            else:
                progress = replace(progress, epoch=epoch + 1)
            rate, seconds = optimizer.param_groups[0]["lr"], time.monotonic() - started
            record = {"epoch": epoch + 1, "loss": loss, "validation_error": error, "learning_rate": rate}
            append_metrics(folder / "metrics.jsonl", record | {"seconds": round(seconds, 3)})
            save_checkpoint(folder / "checkpoints", operator, optimizer, schedule, progress)
            display.epoch(epoch + 1, loss, error)
    return load(folder / "operator").to(fabric.device)


def _epoch(
    fabric: Fabric,
    wrapped: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    samples: Pairs,
    settings: Training,
    epoch: int,
    display: TrainingDisplay,
) -> float:
    """One pass over the samples; the mean loss."""
    wrapped.train()
    total = 0.0
    for number, chosen in enumerate(_order(len(samples), settings, epoch).split(settings.batch_size)):
        batch = samples[chosen].to(fabric.device)
        loss = LOSSES[settings.loss](wrapped(batch.u, batch.grid), batch.z, batch.grid).mean()
        fabric.backward(loss)
        norm = fabric.clip_gradients(wrapped, optimizer, max_norm=settings.clip_norm, error_if_nonfinite=False)
        _check_finite(loss, norm, epoch, number)
        optimizer.step()
        optimizer.zero_grad()
        schedule.after_update()
        total += loss.item() * len(batch)
        display.batch(len(batch))
    return total / len(samples)


def _on_device(pairs: Pairs, device: torch.device) -> Pairs:
    """Pairs in memory go to the device once; those on disk go there batch by batch."""
    return pairs.to(device) if isinstance(pairs, Samples) else pairs


class _AsItIs(Precision):
    """Fabric's own plugins round what goes in and out; here dtypes are the operator's and the samples'."""

    def convert_input(self, data: Any) -> Any:
        return data

    def convert_output(self, data: Any) -> Any:
        return data


def _refuse_other_settings(folder: Path, settings: Training) -> None:
    """A folder holds one training; only its length and its device may change."""
    path = folder / "training.json"
    wanted = {name: value for name, value in asdict(settings).items() if name not in ("epochs", "device")}
    if last_epoch(folder / "checkpoints") and path.is_file():
        differing = [name for name, value in wanted.items() if read_json(path).get(name) != value]
        if differing:
            raise UsageError(f"{folder} holds a training with another {differing[0]}; train into another folder")
    write_json(path, wanted)


def check_device(settings: Training) -> None:
    """Refuse a device that is not there."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise ResourceError('training.device is "cuda", but no CUDA device was found; set it to "cpu" or "auto"')


def _order(count: int, settings: Training, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed((settings.seed << 20) + epoch)
    return torch.randperm(count, generator=generator)


def _check_finite(loss: Tensor, gradient_norm: Tensor | None, epoch: int, batch: int) -> None:
    numbers = loss if gradient_norm is None else loss + gradient_norm
    if not bool(torch.isfinite(numbers)):
        raise DivergedError(
            f"the loss or its gradient is not finite in epoch {epoch + 1}, batch {batch + 1}; checkpoints before "
            "it are good: lower training.learning_rate and train into a new folder"
        )
