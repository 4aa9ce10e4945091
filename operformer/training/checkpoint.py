"""The state of a training as a folder that is whole or not there.

    checkpoints/epoch-0007/                after an epoch
    checkpoints/epoch-0007-batch-000012/   inside the next one
        model.safetensors  config.json  optimizer.safetensors  training.json  (average.safetensors)

A checkpoint is written beside under a name that no reader looks at, flushed to disk and renamed; the last two are kept.
``training.json`` holds the checksums of the others and its own. Random numbers and the order of samples need no state:
they follow from the seed and the position.
"""

# DESIGN.md: A checkpoint is a folder that appears whole

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor
from torch.optim import Optimizer

from operformer.errors import DataError, ResourceError, UsageError
from operformer.files import Held, flush_folder, read_bytes, read_json, remove_folder, rename, write_bytes, write_json
from operformer.operators import Operator, load
from operformer.operators.pretrained import read_tensors
from operformer.training.optimizer import MOMENTS, WeightAverage, parts_of, step_device
from operformer.training.ranks import sharded_like, whole
from operformer.training.recipe import Training
from operformer.training.rounding import LossScale
from operformer.training.schedule import Schedule

KEPT = 2
FILES = ("average.safetensors", "config.json", "model.safetensors", "optimizer.safetensors")
_NAME = re.compile(r"epoch-(\d{4,9})(?:-batch-(\d{6,9}))?")


@dataclass(frozen=True)
class Progress:
    """How far a training has come."""

    epoch: int  # epochs done
    best_error: float | None  # the best validation error so far
    best_epoch: int
    batch: int = 0  # batches done of the next epoch
    loss: float = 0.0  # the sum over the pairs of those batches

    @property
    def name(self) -> str:
        """The name of its checkpoint."""
        inside = f"-batch-{self.batch:06d}" if self.batch else ""
        return f"epoch-{self.epoch:04d}{inside}"


@dataclass(frozen=True)
class State:
    """Everything that the next update depends on, beside the position."""

    operator: Operator
    optimizer: Optimizer
    schedule: Schedule
    average: WeightAverage | None = None
    scale: LossScale | None = None


@dataclass(frozen=True)
class Contents:
    """The same as plain values and whole tensors on the CPU."""

    operator: Operator
    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    average: dict[str, Tensor] | None
    record: dict[str, Any]


def gather(state: State) -> Contents:
    """What a checkpoint holds; of sharded tensors all processes give their parts."""
    average = state.average
    record = {
        "rates": [group["lr"] for group in state.optimizer.param_groups],
        "schedule": state.schedule.state_dict(),
        "averaged": average.updates if average else None,
        "scale": state.scale.state_dict() if state.scale else None,
    }
    return Contents(
        state.operator,
        {name: whole(tensor) for name, tensor in state.operator.state_dict().items()},
        _moments(state.optimizer),
        {name: whole(tensor) for name, tensor in average.weights.items()} if average else None,
        record,
    )


def write_checkpoint(folder: Path, contents: Contents, progress: Progress) -> None:
    """Write the checkpoint of a position, then drop all but the last two."""
    for leftover in folder.glob(".epoch-*"):
        remove_folder(leftover)
    partial = folder / f".{progress.name}.partial"
    try:
        _write_files(partial, contents, progress)
        _put_in_place(partial, folder / progress.name)
    except BaseException:
        remove_folder(partial)  # a full disk needs the room
        raise
    for old in _checkpoints(folder)[:-KEPT]:
        remove_folder(old)


def _write_files(partial: Path, contents: Contents, progress: Progress) -> None:
    contents.operator.save_pretrained(partial, contents.weights)
    write_bytes(partial / "optimizer.safetensors", save(contents.moments))
    if contents.average is not None:
        write_bytes(partial / "average.safetensors", save(contents.average))
    checksums = {path.name: _checksum(read_bytes(path)) for path in sorted(partial.iterdir())}
    record = {"progress": vars(progress), **contents.record, "checksums": checksums}
    write_json(partial / "training.json", record | {"checksum": _checksum(_canonical(record))})


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename a checkpoint that is on disk; one of the same position goes first."""
    aside = target.with_name(f".{target.name}.old")
    try:
        flush_folder(partial)
        if target.exists():
            rename(target, aside)
        rename(partial, target)
        remove_folder(aside)
        flush_folder(target.parent)
    except OSError as error:
        raise ResourceError(f"cannot write {target}: {error.strerror}; the checkpoint before it is untouched") from None


def load_checkpoint(folder: Path, state: State) -> Progress | None:
    """Bring everything to the state of the last checkpoint; None without one."""
    found = _checkpoints(folder)
    if not found:
        return None
    last = found[-1]
    operator = state.operator
    # Two moments and an average in float64, and the names of the tensors.
    most = 2**22 + 64 * sum(tensor.numel() for tensor in operator.state_dict().values())
    record = _checked_record(last, most)
    stored = load(last)
    if stored.description != operator.description or stored.input_mean.dtype != operator.input_mean.dtype:
        raise DataError(f"{last} holds another operator than this run's; train into another folder")
    try:
        assign(operator.state_dict(), stored.state_dict())
        _restore_moments(state.optimizer, read_tensors(last / "optimizer.safetensors"), record["rates"])
        state.schedule.load_state_dict(record["schedule"])
        if state.scale:
            state.scale.load_state_dict(record["scale"])
        if state.average:
            _restore_average(state.average, read_tensors(last / "average.safetensors"), record["averaged"])
        return _checked_progress(Progress(**record["progress"]), last)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{last} is damaged ({error}); remove it to go on from the one before") from None


# What may change when a training resumes: its length, where and how fast it runs. All else decides its numbers.
FREE = ("epochs", "device", "strategy", "compile", "accumulation", "save_minutes")


def keep_settings(folder: Path, settings: Training) -> None:
    """A folder holds one training; only its length, and where and how fast it runs, may change."""
    path = folder / "training.json"
    # Through JSON, which turns tuples into lists.
    wanted = json.loads(json.dumps({name: value for name, value in asdict(settings).items() if name not in FREE}))
    if has_checkpoint(folder / "checkpoints") and path.is_file():
        there = read_json(path)
        if not isinstance(there, dict):
            raise DataError(f"{path} is damaged (no table of settings); restore it")
        before = json.loads(json.dumps(asdict(Training()))) | there  # settings that are newer than the folder
        begun = [n for n in wanted["restarts"] if n < last_epoch(folder / "checkpoints")]
        if before["restarts"][: len(begun)] == begun:  # a cycle may be added at the end
            before["restarts"] = wanted["restarts"]
        differing = [name for name, value in wanted.items() if before[name] != value]
        if differing:
            raise UsageError(f"{folder} holds a training with another {differing[0]}; train into another folder")
    write_json(path, wanted)


def last_epoch(folder: Path) -> int:
    """How many epochs the last checkpoint in the folder has behind it; 0 without one."""
    return last_position(folder)[0]


def last_position(folder: Path) -> tuple[int, int]:
    """The epochs behind the last checkpoint in the folder, and the batches of the next one; zeros without one."""
    found = _checkpoints(folder)
    return _position(found[-1]) if found else (0, 0)


def has_checkpoint(folder: Path) -> bool:
    """Whether there is something to go on from."""
    return bool(_checkpoints(folder))


def what_is_left(folder: Held) -> str:
    """The last checkpoint of a run whose folder is no longer where it was, in words."""
    try:
        with folder.inside("checkpoints", create=False) as place:
            names = sorted(filter(_NAME.fullmatch, place.names()), key=lambda name: _position(Path(name)))
    except (OSError, DataError):
        names = []
    now = folder.now()
    if not names or now is None:
        return f"its last checkpoint is {names[-1]}" if names else "no checkpoint is left"
    return f"its last checkpoint is {now / 'checkpoints' / names[-1]}; the training resumes with --out {now}"


def _checkpoints(folder: Path) -> list[Path]:
    """From the first position to the last."""
    return sorted((path for path in folder.glob("epoch-*") if _NAME.fullmatch(path.name)), key=_position)


def _position(path: Path) -> tuple[int, int]:
    found = _NAME.fullmatch(path.name)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _canonical(record: dict[str, Any]) -> bytes:
    # Through JSON once more: tuples become lists, as they will be when they are read.
    return json.dumps(json.loads(json.dumps(record)), sort_keys=True).encode()


def _checked_record(last: Path, most: int) -> dict[str, Any]:
    """The record of a checkpoint, after every file was compared with its checksum."""
    path = last / "training.json"
    record = read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get("checksums"), dict):
        raise DataError(f"{path} is damaged (no record); remove {last} to go on from the one before")
    if record.pop("checksum", None) != _checksum(_canonical(record)):
        raise DataError(f"{path} is damaged (checksum); remove {last} to go on from the one before")
    for name, expected in record["checksums"].items():
        if name not in FILES or _checksum(read_bytes(last / name, most)) != expected:
            raise DataError(f"{last / name} is damaged (checksum); remove {last} to go on from the one before")
    return record


@torch.no_grad()
def assign(targets: dict[str, Tensor], full: dict[str, Tensor]) -> None:
    """Give tensors, or this process's shards of them, the values of whole ones."""
    for name, target in targets.items():
        target.copy_(sharded_like(full[name], target))


def _moments(optimizer: Optimizer) -> dict[str, Tensor]:
    """What the optimizer keeps, under the number of the parameter; in one order, since processes give shards in it."""
    return {
        f"{index}.{name}": whole(tensor)
        for index, (part, _, parameter) in enumerate(_entries(optimizer))
        for name, tensor in sorted(part.state[parameter].items())
    }


def _entries(optimizer: Optimizer) -> list[tuple[Optimizer, dict[str, Any], Tensor]]:
    return [
        (part, group, parameter)
        for part in parts_of(optimizer)
        for group in part.param_groups
        for parameter in group["params"]
    ]


def _restore_moments(optimizer: Optimizer, tensors: dict[str, Tensor], rates: list[float]) -> None:
    found: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, name = key.split(".", 1)
        found.setdefault(int(number), {})[name] = tensor
    entries = _entries(optimizer)
    if sorted(found) != list(range(len(entries))):
        raise ValueError("the optimizer's moments belong to other parameters")
    if not all(isinstance(rate, float) and isfinite(rate) for rate in rates):
        raise TypeError(f"the learning rates are no numbers: {rates}")
    for index, (part, group, parameter) in enumerate(entries):
        _check_moments(part, parameter, index, found[index])
        part.state[parameter] = {
            name: tensor.to(step_device(group, parameter)) if name == "step" else sharded_like(tensor, parameter)
            for name, tensor in found[index].items()
        }
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def _check_moments(part: Optimizer, parameter: Tensor, index: int, moments: dict[str, Tensor]) -> None:
    """Every parameter has its moments, of its own shape and finite: with fewer, Adam would start anew silently."""
    if moments.keys() != MOMENTS[type(part)]:
        raise ValueError(f"the moments of parameter {index} are incomplete")
    for name, tensor in moments.items():
        expected = parameter.shape if name != "step" else tensor.new_zeros(()).shape
        if tensor.shape != expected or not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} of parameter {index} has a wrong shape or is not finite")


def _restore_average(average: WeightAverage, tensors: dict[str, Tensor], updates: Any) -> None:
    if tensors.keys() != average.weights.keys():
        raise ValueError("the averaged weights belong to another operator")
    for name, target in average.weights.items():
        if tensors[name].shape != target.shape or not bool(tensors[name].isfinite().all()):
            raise ValueError(f"the averaged {name} has a wrong shape or is not finite")
    if type(updates) is not int or updates < 0:
        raise TypeError(f"the averaged updates are no whole number: {updates!r}")
    assign(average.weights, tensors)
    average.updates = updates


def _checked_progress(progress: Progress, last: Path) -> Progress:
    counts = (progress.epoch, progress.best_epoch, progress.batch)
    if not all(type(count) is int and count >= 0 for count in counts):
        raise TypeError(f"the epochs are no whole numbers: {progress}")
    if progress.best_error is not None and not isinstance(progress.best_error, float):
        raise TypeError(f"the best error is no number: {progress}")
    if not isinstance(progress.loss, float) or not isfinite(progress.loss):
        raise TypeError(f"the loss is no number: {progress}")
    if (progress.epoch, progress.batch) != _position(last):
        raise ValueError(f"it holds the position {progress.name}")
    return progress
