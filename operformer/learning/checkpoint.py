"""The state of a training after an epoch, as a folder that is whole or not there.

    checkpoints/epoch-0007/   model.safetensors  config.json  optimizer.safetensors  training.json

A checkpoint is written beside under a name that no reader looks at, flushed to disk and renamed; the last two are kept.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor
from torch.optim import Optimizer

from operformer.errors import DataError, ResourceError
from operformer.files import flush_folder, read_json, write_bytes, write_json
from operformer.learning.schedule import Schedule
from operformer.operators import Operator, load
from operformer.operators.pretrained import read_tensors

KEPT = 2


@dataclass(frozen=True)
class Progress:
    """How far a training has come."""

    epoch: int  # epochs done
    best_error: float | None  # the best validation error so far
    best_epoch: int


def save_checkpoint(
    folder: Path, operator: Operator, optimizer: Optimizer, schedule: Schedule, progress: Progress
) -> None:
    """Write the checkpoint of an epoch, then drop all but the last two."""
    target = folder / f"epoch-{progress.epoch:04d}"
    partial = folder / f".{target.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    operator.save_pretrained(partial)
    write_bytes(partial / "optimizer.safetensors", save(_optimizer_tensors(optimizer)))
    rates = [group["lr"] for group in optimizer.param_groups]
    record = {"progress": vars(progress), "rates": rates, "schedule": schedule.state_dict()}
    write_json(partial / "training.json", record)
    try:
        flush_folder(partial)
        if target.exists():
            aside = folder / f".{target.name}.old"
            shutil.rmtree(aside, ignore_errors=True)
            target.rename(aside)
        partial.rename(target)
        shutil.rmtree(folder / f".{target.name}.old", ignore_errors=True)
        flush_folder(folder)
    except OSError as error:
        raise ResourceError(f"cannot write {target}: {error.strerror}; the checkpoint before it is untouched") from None
    for old in _checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path, operator: Operator, optimizer: Optimizer, schedule: Schedule) -> Progress | None:
    """Bring operator, optimizer and schedule to the state of the last checkpoint; None if there is none."""
    found = _checkpoints(folder)
    if not found:
        return None
    last = found[-1]
    stored = load(last)
    if stored.settings != operator.settings or type(stored) is not type(operator):
        raise DataError(f"{last} holds another operator than this run's; train into another folder")
    operator.load_state_dict(stored.state_dict())
    record = read_json(last / "training.json")
    try:
        _restore_optimizer(optimizer, read_tensors(last / "optimizer.safetensors"), record["rates"])
        schedule.load_state_dict(record["schedule"])
        return _checked_progress(Progress(**record["progress"]))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{last} is damaged ({error}); remove it to go on from the one before") from None


def last_epoch(folder: Path) -> int:
    """How many epochs the last checkpoint in the folder has behind it; 0 if there is none."""
    found = _checkpoints(folder)
    return int(found[-1].name.removeprefix("epoch-")) if found else 0


def _checkpoints(folder: Path) -> list[Path]:
    numbered = [(path.name.removeprefix("epoch-"), path) for path in folder.glob("epoch-*")]
    return [path for _, path in sorted((int(number), path) for number, path in numbered if number.isdigit())]


def _optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    state: dict[int, dict[str, Tensor]] = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": tensor.detach().cpu().contiguous()
        for index, entries in state.items()
        for name, tensor in entries.items()
    }


def _restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor], rates: list[float]) -> None:
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = tensor
    _check_moments(optimizer, state)
    if not all(isinstance(rate, float) and isfinite(rate) for rate in rates):
        raise TypeError(f"the learning rates are no numbers: {rates}")
    whole = optimizer.state_dict()
    whole["state"] = state
    for group, rate in zip(whole["param_groups"], rates, strict=True):
        group["lr"] = rate
    optimizer.load_state_dict(whole)


def _check_moments(optimizer: Optimizer, state: dict[int, dict[str, Tensor]]) -> None:
    """Every parameter has its moments, of its own shape and finite: with fewer, Adam would start anew silently."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if sorted(state) != list(range(len(parameters))):
        raise ValueError("the optimizer's moments belong to other parameters")
    for index, parameter in enumerate(parameters):
        entries = state[index]
        if entries.keys() != {"step", "exp_avg", "exp_avg_sq"}:
            raise ValueError(f"the moments of parameter {index} are incomplete")
        for name, tensor in entries.items():
            expected = parameter.shape if name != "step" else tensor.new_zeros(()).shape
            if tensor.shape != expected or not bool(tensor.isfinite().all()):
                raise ValueError(f"{name} of parameter {index} has a wrong shape or is not finite")


def _checked_progress(progress: Progress) -> Progress:
    if type(progress.epoch) is not int or type(progress.best_epoch) is not int or progress.epoch < 0:
        raise TypeError(f"the epochs are no whole numbers: {progress}")
    if progress.best_error is not None and not isinstance(progress.best_error, float):
        raise TypeError(f"the best error is no number: {progress}")
    return progress
