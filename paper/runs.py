"""The runs of a reproduction: what is missing is trained and evaluated, several at a time; what fails is named."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from operformer.data.workers import Report, in_processes
from operformer.errors import OperformerError, ResourceError, TerminatedError, UsageError
from operformer.problems.problem import Draws
from operformer.runs import evaluate_run, is_evaluated, is_trained, train_run
from operformer.runs.experiment import Experiment, parse_stored
from paper.counting import count_operations

OVERHEAD = 2e9  # operations that an update costs besides its products, about: small operators wait for Python


@dataclass(frozen=True)
class Failure:
    """A run that came to nothing: why, and the exit code of the reason."""

    name: str
    reason: str
    exit_code: int
    is_missing_package: bool = False


def carry_out(
    experiments: Mapping[str, Experiment], folder: Path, jobs: int, tell: Callable[[str], None]
) -> list[Failure]:
    """Train and evaluate each experiment in folder/NAME, unless that was done; what failed.

    ``jobs`` processes share the machine's cores. A run that was interrupted resumes where it stopped.
    """
    weights, failures = {}, []
    for name, experiment in experiments.items():
        try:
            if not is_evaluated(experiment, folder / name):
                weights[name] = _weight(experiment)
        except OperformerError as error:
            failures.append(Failure(name, str(error), error.exit_code, isinstance(error, ResourceError)))
    done = len(experiments) - len(weights) - len(failures)
    if done:
        tell(f"{done} of {len(experiments)} runs are done already")
    if weights:
        clock = _Clock(weights, done + len(failures), len(experiments), tell)
        threads = max(1, (os.cpu_count() or 1) // jobs)
        ordered = _in_order(weights, experiments)
        tasks = [_Task(name, experiments[name].to_mapping(), folder / name, threads) for name in ordered]
        in_processes([task.carry_out for task in tasks], min(jobs, len(tasks)), clock.hear)
        failures += clock.failures
    return failures


def jobs_for() -> int:
    """How many trainings at a time pay: one for each core, up to four; on a GPU one."""
    return 1 if torch.cuda.is_available() else min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class _Outcome:
    name: str
    seconds: float
    failure: Failure | None


@dataclass(frozen=True)
class _Task:
    """One run; a value that can be sent to another process."""

    name: str
    settings: Mapping[str, Any]
    folder: Path
    threads: int

    def carry_out(self, report: Report) -> None:
        """Train and evaluate, silently; whatever happens is reported."""
        started = time.monotonic()
        torch.set_num_threads(self.threads)
        failure = None
        try:
            experiment = parse_stored(self.settings)
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
                if not is_trained(experiment, self.folder):
                    train_run(experiment, self.folder, _draws)
                evaluate_run(self.folder, _draws)
        except TerminatedError:
            os._exit(143)  # the pool would give its process another task
        except OperformerError as error:
            failure = Failure(self.name, str(error), error.exit_code)
        except Exception as error:  # the others shall go on
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            failure = Failure(self.name, reason, 5 if "memory" in reason.lower() else 1)
        report(_Outcome(self.name, time.monotonic() - started, failure))


_draws = Draws(kept=10)  # runs of one problem, which come after each other, draw its samples once in each process


class _Clock:
    """Counts runs, tells of each, and says how long the rest takes, by the operations that are left."""

    def __init__(self, weights: Mapping[str, float], before: int, total: int, tell: Callable[[str], None]) -> None:
        self._weights, self._before, self._total, self._tell = dict(weights), before, total, tell
        self._all, self._started = sum(weights.values()), time.monotonic()
        self._width = max(map(len, weights))
        self.failures: list[Failure] = []

    def hear(self, outcome: _Outcome) -> None:
        """One more run is done, or failed."""
        self._before += 1
        self._weights.pop(outcome.name)
        line = f"[{self._before}/{self._total}] {outcome.name:{self._width}}  {spoken(outcome.seconds):>7}"
        if outcome.failure is not None:
            self.failures.append(outcome.failure)
            line += f"  failed: {outcome.failure.reason}"
        if self._weights:
            left = sum(self._weights.values())
            line += f"  about {spoken((time.monotonic() - self._started) * left / (self._all - left))} left"
        self._tell(line)


def spoken(seconds: float) -> str:
    """A duration as a person says it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _weight(experiment: Experiment) -> float:
    """Operations of the training, roughly; making the operator also shows whether its package is there."""
    data, training = experiment.data, experiment.training
    try:
        operations = count_operations(experiment.make_operator, experiment.problem.grid(data.resolution))
    except UsageError:  # which the run itself will tell
        operations = 0
    updates = training.epochs * -(-data.train // training.batch_size)
    return 3.0 * operations * data.train * training.epochs + OVERHEAD * updates


def _in_order(weights: Mapping[str, float], experiments: Mapping[str, Experiment]) -> list[str]:
    """Runs of one problem after each other, the longest problem and the longest run first."""
    groups: dict[object, list[str]] = {}
    for name in weights:
        groups.setdefault((experiments[name].problem, experiments[name].data), []).append(name)
    ordered = sorted(groups.values(), key=lambda names: -sum(weights[name] for name in names))
    return [name for names in ordered for name in sorted(names, key=lambda name: -weights[name])]
