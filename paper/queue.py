"""What is still to be trained for RESULTS.md, how long it takes, and as much of it as fits into a given time.

An entry is a run by a recipe with a seed. It is done when a record of these settings is there. A training that was
stopped resumes from its folder, which may have been carried here from another machine.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

from operformer.errors import OperformerError, TerminatedError
from operformer.problems.problem import Draws
from operformer.runs import evaluate_run, is_evaluated, is_trained, train_run
from operformer.runs.experiment import Experiment, parse_stored
from operformer.settings import differing
from operformer.training.checkpoint import last_epoch
from operformer.training.status import read_metrics
from paper.archive import FRESH, Archive, keep, read_archive, record_run
from paper.catalogue import PIECEWISE, Recipe, find_row, rows
from paper.counting import count_operations
from paper.recipes import plain, train_as

# Of one H200 that a training has to itself; records may have shared theirs. Seconds for a pass over 1000 samples.
ALONE = {("ViTNO", 416): 8.3, ("FANO", 416): 9.2}
RATE = 30e12  # operations a second where no record tells
LEAST = 90.0  # seconds for which it pays to start
LIGHT = 1_500_000  # parameters: checkpoints of an operator of at most so many are small enough to be carried


@dataclass(frozen=True)
class Entry:
    """A run of the catalogue, a recipe and the seed of the training."""

    run: str
    recipe: Recipe
    seed: int = 0

    @property
    def name(self) -> str:
        """Of its folder, as `python -m paper train` calls it."""
        return f"{self.run}-{self.recipe}{f'-seed-{self.seed}' if self.seed else ''}"

    @property
    def experiment(self) -> Experiment:
        """What is trained."""
        found = train_as(find_row(self.run), self.recipe)
        return replace(found, training=replace(found.training, seed=self.seed))


@dataclass(frozen=True)
class State:
    """How far an entry is, and the minutes that it still takes."""

    entry: Entry
    epoch: int
    minutes: float
    is_recorded: bool

    @property
    def epochs(self) -> int:
        """Of the whole training."""
        return self.entry.experiment.training.epochs

    @property
    def text(self) -> str:
        """In words."""
        if self.is_recorded:
            return "recorded"
        return f"epoch {self.epoch} of {self.epochs}" if self.epoch else "to run"


def entries() -> list[Entry]:
    """All that RESULTS.md asks for, the table of Section 6.2 first."""
    table = [Entry(row.name, "same-operator") for row in rows("2d_median_errors_high", recipe="same-operator")]
    blended = [Entry(row.name, "best") for row in rows(variants=("blended",))]
    # Of the baselines, too: what is due to the recipe and what to the operator is told apart.
    best = [Entry(row.name, "best") for row in rows(recipe="best") if row.operator != "SpectralOperator"]
    patched = [Entry(row.name, "same-operator") for row in rows(variants=("smoothing", "extension"))]
    seeds = [
        Entry(name, "same-operator", seed)
        for name in ("darcy-64-tno", "darcy-416-vitno", "lorenz-yz")
        for seed in (0, 1, 2)
    ]
    li = [Entry(row.name, "best", seed) for row in rows() if row.name.startswith("darcy-li") for seed in range(5)]
    widths = [Entry(row.name, "same-operator") for row in rows("parameter_accuracy", PIECEWISE) if row.variant]
    return list(dict.fromkeys((*table, *blended, *best, *patched, *seeds, *li, *widths)))


def find_entries(names: Sequence[str]) -> list[Entry]:
    """Entries by their own names or by those of their runs; all if none is named."""
    known = entries()
    found: list[Entry] = []
    for name in names:
        run = name if any(entry.name == name for entry in known) else find_row(name).name
        found += [entry for entry in known if run in (entry.name, entry.run)]
    return list(dict.fromkeys(found)) if names else known


def states(chosen: Sequence[Entry], records: Path, runs: Path) -> list[State]:
    """Of each entry, in their order."""
    archive = read_archive(records)
    return [_state(entry, archive, runs / entry.name) for entry in chosen]


def _state(entry: Entry, archive: Archive, folder: Path) -> State:
    experiment = entry.experiment
    if any(_is_of(record.settings, experiment) for record in archive[entry.recipe].get(entry.run, [])):
        return State(entry, experiment.training.epochs, 0.0, True)
    epoch = last_epoch(folder / "checkpoints")
    return State(entry, epoch, _minutes(experiment, epoch, archive, folder), False)


def _is_of(settings: object, experiment: Experiment) -> bool:
    """Whether a record has the experiment's settings, wherever its samples lay."""
    there = parse_stored(settings)
    there = replace(there, data=replace(there.data, folder=""))
    return not differing(plain(there), plain(experiment))


def _minutes(experiment: Experiment, epoch: int, archive: Archive, folder: Path) -> float:
    """For samples, the epochs that are left, and an evaluation."""
    measured = [line["seconds"] for line in read_metrics(folder / "metrics.jsonl")] if epoch else []
    an_epoch = median(measured) if measured else experiment.data.train * _seconds_a_sample(experiment, archive)
    alike = [
        record
        for records in (records for runs in archive.values() for records in runs.values())
        for record in records
        if record.problem == experiment.problem and record.resolution == experiment.data.resolution
    ]
    around = [record.clock["data"] + record.clock["evaluation"] for record in alike]
    return ((experiment.training.epochs - epoch) * an_epoch + (median(around) if around else 60.0)) / 60


def _seconds_a_sample(experiment: Experiment, archive: Archive) -> float:
    """By records of the operator on such a grid, the least, since GPUs were shared; else by counted operations."""
    operator, resolution = experiment.operator, experiment.data.resolution
    found = [
        record.seconds / record.settings["training"]["epochs"] / record.settings["data"]["train"]
        for record in (record for runs in archive.values() for records in runs.values() for record in records)
        if _pace(record.settings) == _pace(experiment.to_mapping())
    ]
    if operator.get("hidden_channels") == 128 and (operator["name"], resolution) in ALONE:
        hard = replace(experiment, operator={**operator, "overlap": 0})
        found.append(ALONE[operator["name"], resolution] / 1000 * _operations(experiment) / _operations(hard))
    return min(found) if found else 3 * _operations(experiment) / RATE


def _pace(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """What trainings that take as long for a sample have in common."""
    operator, data = settings["operator"], settings["data"]
    described = (operator["name"], operator.get("hidden_channels"), bool(operator.get("overlap")))
    return (*described, data["resolution"], tuple(data["coarser"]))


def _operations(experiment: Experiment) -> float:
    """Of one sample, forward."""
    return count_operations(experiment.make_operator, experiment.problem.grid(experiment.data.resolution))


def work(
    chosen: Sequence[Entry], records: Path, runs: Path, minutes: float, tell: Callable[[str], None], left: float = 0.0
) -> int:
    """Train, evaluate and record what fits into the minutes; how many records were made.

    What was begun comes first. A training that does not fit is begun only if its checkpoint can be carried, or if it
    fits into what is ``left`` of this machine; it is stopped with a checkpoint when the time is over.
    """
    end, made, draws = time.monotonic() + 60 * minutes, 0, Draws(kept=4)
    ordered = sorted(states(chosen, records, runs), key=lambda state: not (runs / state.entry.name).is_dir())
    for state in (state for state in ordered if not state.is_recorded):
        seconds = end - time.monotonic()
        if seconds < min(LEAST, 30 * minutes):
            break
        if not _is_to_be_begun(state, runs, max(seconds / 60, left)):
            tell(f"{state.entry.name}: does not fit, about {state.minutes:.0f} min")
            continue
        try:
            path = _carry_out(state.entry, records, runs / state.entry.name, seconds, draws)
        except OperformerError as error:
            tell(f"{state.entry.name} failed: {error}")
            continue
        if path is None:
            tell(f"{state.entry.name}: stopped, the time is over; carry {runs / state.entry.name}")
            break
        made += 1
        tell(f"{state.entry.name}: recorded, {path}")
    return made


def _is_to_be_begun(state: State, runs: Path, minutes: float) -> bool:
    """Whether there is something to resume, or a new training fits or can be resumed elsewhere."""
    if (runs / state.entry.name).is_dir() or state.minutes <= minutes:
        return True
    import torch

    with torch.device("meta"):
        return state.entry.experiment.make_operator().n_parameters <= LIGHT


def _carry_out(entry: Entry, records: Path, folder: Path, seconds: float, draws: Draws) -> Path | None:
    """The record of an entry, or None if the time was over first."""
    experiment = entry.experiment
    with _time_limit(seconds) as limit:
        try:
            if not is_trained(experiment, folder):
                train_run(experiment, folder, draws)
            if not is_evaluated(experiment, folder):
                evaluate_run(folder, draws)
            record = record_run(folder, entry.recipe, FRESH)
        except TerminatedError:
            if not limit.is_over:
                raise
            return None
    return keep(record, records, is_replaced=True)


class _Limit:
    """Whether the time is over."""

    is_over = False


@contextmanager
def _time_limit(seconds: float) -> Iterator[_Limit]:
    """Ask this process to stop after the seconds, as SIGTERM does: a training then saves a checkpoint first."""
    limit = _Limit()

    def stop() -> None:
        limit.is_over = True
        os.kill(os.getpid(), signal.SIGTERM)

    def leave(number: int, frame: FrameType | None) -> None:
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, leave)
    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield limit
    finally:
        timer.cancel()
        signal.signal(signal.SIGTERM, before)
