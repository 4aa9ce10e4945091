"""The training loop (Section 6): relative loss, an optimizer, a schedule, checkpoints, one or many processes."""

# DESIGN.md: A further cycle begins from a copy of the best weights

from __future__ import annotations

import math
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from operformer.checking import checked
from operformer.domain import Pairs, Samples
from operformer.domain.samples import check_samples, larger_grid
from operformer.errors import DivergedError, ResourceError, UsageError
from operformer.evaluation.cautions import few_samples, modes_beyond, warn
from operformer.evaluation.errors import relative_errors
from operformer.evaluation.loss import LOSSES
from operformer.files import GoneError, sweep
from operformer.operators import Operator, load
from operformer.problems import Symmetry
from operformer.problems.symmetry import check_symmetry
from operformer.terminal import Terminal
from operformer.training.batches import Augmentation, Plan, batch_sizes, levels_of, resident, sent, shares, streamed
from operformer.training.checkpoint import (
    Progress,
    State,
    assign,
    gather,
    keep_settings,
    last_position,
    load_checkpoint,
    what_is_left,
    write_checkpoint,
)
from operformer.training.chosen import GivenOperator, GivenTraining, as_given, by_recipe
from operformer.training.heartbeat import Heartbeat
from operformer.training.lock import locked
from operformer.training.normalisation import check_channels, fit_normalisation
from operformer.training.optimizer import WeightAverage, make_optimizer
from operformer.training.ranks import Ranks, whole
from operformer.training.recipe import Training, check_device
from operformer.training.rounding import LossScale, rounding
from operformer.training.schedule import make_schedule
from operformer.training.signals import StopSignals, stop_error
from operformer.training.status import Board, TrainingDisplay, Watch, append_metrics
from operformer.training.update import GraphedPass, Update

__all__ = ["LOSSES", "Training", "check_device", "train"]


@checked
def train(
    operator: GivenOperator,
    samples: Pairs | Sequence[Pairs],
    validation: Pairs,
    settings: GivenTraining,
    folder: str | Path,
    title: str = "training",
    symmetries: tuple[Symmetry, ...] = (),
    *,
    recipe: str | None = None,
    minutes: float = 2.0,
) -> Operator:
    """Fit the operator to the samples. The same folder again resumes from its last checkpoint, to the same numbers.

    ``train(None, samples, validation, None, folder, recipe="auto")`` chooses operator and training by the samples and
    says in four lines what it chose and why.

    Args:
        operator: a fresh operator, whose normalisation is fitted on the samples first, or a trained one, which keeps
            its own and learns on. With a recipe also None, or settings that are not to be chosen, such as
            {"basis": "cosine"}.
        samples: what to train on, or the same samples on several grids, from the coarsest to the finest.
        validation: samples that choose the epoch whose weights are kept. Good value: a tenth of the training samples.
        settings: how to train. With a recipe also None, or settings that are not to be chosen, such as {"epochs": 5}.
        folder: for checkpoints, metrics and the best operator (in folder/operator).
        title: what the progress bar calls it.
        symmetries: the problem's, for ``settings.augment``.
        recipe: "auto" or another one of `recommend`'s; without it operator and settings are those that are given.
        minutes: how long a training by a recipe may take, with the choice. Good values: 2 to 60.

    Returns:
        The operator with the best validation error, in evaluation mode.

    Example:
        >>> u = torch.rand(12, 1, 16)
        >>> samples = Samples(u, u.cumsum(-1) / 16, Grid.uniform(16))
        >>> operator = TNO(dim=1, in_channels=1, out_channels=1, hidden_channels=8, n_layers=1, n_heads=2)
        >>> operator = train(operator, samples[:10], samples[10:], Training(epochs=1, batch_size=5), "runs/example")
    """
    folder = Path(folder)
    levels = levels_of(samples)
    named = [*(("training", level) for level in levels), ("validation", validation)]
    for kind, pairs in named:
        check_samples(pairs, kind)
    chosen = (
        as_given(operator, settings)
        if recipe is None
        else by_recipe(recipe, minutes, operator, settings, levels[-1], folder)
    )
    operator, settings = chosen.operator, chosen.settings
    check_device(settings)
    for kind, pairs in named:
        check_channels(operator, pairs, kind)
    _check_fit(levels, settings, symmetries)
    ranks = Ranks(settings)
    ranks.first(lambda: warn([*few_samples(len(levels[-1])), *modes_beyond(operator, levels[-1].grid)]))
    with ExitStack() as stack:
        ranks.first(lambda: stack.enter_context(_occupied(folder)))
        ranks.first(partial(keep_settings, folder, settings))
        ranks.first(partial(chosen.keep, folder))
        ranks.first(partial(_sweep, folder))
        signals = stack.enter_context(StopSignals())
        stack.enter_context(Heartbeat(ranks.rank, ranks.world))
        stack.enter_context(torch.random.fork_rng([ranks.device] if ranks.device.type == "cuda" else []))
        stack.enter_context(rounding(operator, settings.averages, settings.products))
        fit_normalisation(operator, levels[-1])
        job = _prepare(operator, levels, validation, settings, folder, ranks, symmetries)
        progress = load_checkpoint(folder / "checkpoints", job.state) or Progress(0, None, 0)
        _carry_out(job, progress, signals, title)
        if signals.received is not None:  # after the last batch
            raise stop_error(signals.received)
    return load(folder / "operator").to(ranks.device)


@dataclass(frozen=True)
class _Job:
    """What does not change from one update to the next."""

    settings: Training
    folder: Path
    ranks: Ranks
    levels: tuple[Pairs, ...]  # coarse to fine
    validation: Pairs
    plan: Plan
    state: State
    update: Update
    augmentation: Augmentation | None


def _prepare(
    operator: Operator,
    levels: tuple[Pairs, ...],
    validation: Pairs,
    settings: Training,
    folder: Path,
    ranks: Ranks,
    symmetries: tuple[Symmetry, ...],
) -> _Job:
    """Data and operator on the device, optimizer and schedule ready."""
    levels = tuple(resident(level, ranks.device, operator.input_mean.dtype) for level in levels)
    is_one_gpu = ranks.device.type == "cuda" and ranks.world == 1
    has_graphs = settings.compile and is_one_gpu and _are_on(levels, ranks.device)
    module = ranks.setup(operator, settings.compile and not has_graphs)
    sizes = batch_sizes(settings.batch_size, levels, settings.batches)
    first = settings.cycle(0)[1]  # later cycles stay at the finest resolution, or among all
    plan = Plan(len(levels[0]), sizes, first, settings.seed, settings.resolutions, settings.stages)
    done, batches = last_position(folder / "checkpoints")
    state = _state(operator, settings, plan, max(0, done if batches else done - 1))
    return _Job(
        settings,
        folder,
        ranks,
        levels,
        resident(validation, ranks.device, operator.input_mean.dtype),
        plan,
        state,
        Update(
            ranks,
            module,
            state,
            settings.loss,
            settings.clip_norm,
            GraphedPass(operator, LOSSES[settings.loss]) if has_graphs else None,
        ),
        Augmentation(symmetries, settings.seed) if settings.augment else None,
    )


def _state(operator: Operator, settings: Training, plan: Plan, epoch: int) -> State:
    """Optimizer, schedule and averages as they begin the cycle that an epoch belongs to."""
    optimizer = make_optimizer(settings.optimizer, operator, settings.learning_rate, settings.weight_decay)
    return State(
        operator,
        optimizer,
        make_schedule(settings.schedule, optimizer, plan.updates(*settings.cycle(epoch))),
        WeightAverage(operator, settings.ema) if settings.ema else None,
        LossScale() if settings.averages == "float16" else None,
    )


def _restarted(job: _Job, epoch: int) -> _Job:
    """A fresh cycle from the best weights so far.

    These are kept in a folder of their own: the best operator may be another one when the training resumes from here.
    """
    start = job.folder / "cycles" / f"{epoch:04d}"
    job.ranks.first(partial(_keep, job.folder / "operator", start))
    assign(job.state.operator.state_dict(), load(start).state_dict())
    state = _state(job.state.operator, job.settings, job.plan, epoch)
    return replace(job, state=state, update=replace(job.update, state=state))


def _keep(operator: Path, folder: Path) -> None:
    """Copy an operator, once."""
    if not (folder / "config.json").is_file():  # written after the weights
        load(operator).save_pretrained(folder)


def _carry_out(job: _Job, progress: Progress, signals: StopSignals, title: str) -> None:
    """All epochs that are left, with what is shown and written of them."""
    if progress.epoch >= job.settings.epochs:
        return
    is_first = job.ranks.rank == 0
    console = None if is_first else Terminal(quiet=True)
    watch = Watch(job.folder if is_first else None, title, job.settings, job.plan.count)
    board = Board(job.folder, progress.epoch) if is_first else None
    display = TrainingDisplay(title, job.settings.epochs, job.plan.count, progress.epoch, console, job.settings.loss)
    with display:
        for epoch in range(progress.epoch, job.settings.epochs):
            started = time.monotonic()
            if epoch in job.settings.restarts and not progress.batch:
                job = _restarted(job, epoch)
            progress = _epoch(job, progress, display, watch, signals)
            loss = progress.loss / job.plan.count
            progress, error = _validate(job, replace(progress, epoch=epoch + 1, batch=0, loss=0.0))
            rate, seconds = job.state.optimizer.param_groups[0]["lr"], time.monotonic() - started
            record = {"epoch": epoch + 1, "loss": loss, "validation_error": error, "learning_rate": rate}
            record |= {"seconds": round(seconds, 3)}
            job.ranks.first(partial(append_metrics, job.folder / "metrics.jsonl", record))
            if any(job.ranks.total(float(watch.is_save_worthwhile(progress)))):
                _save(job, progress, watch)
            watch.epoch(progress, loss)
            if board:
                board.epoch(record)
            display.epoch(epoch + 1, loss, error)
    if board:
        board.close()


def _epoch(job: _Job, progress: Progress, display: TrainingDisplay, watch: Watch, signals: StopSignals) -> Progress:
    """The batches of an epoch that are left; saves and leaves if a signal asks for it."""
    job.update.module.train()
    plan = job.plan.epoch(progress.epoch)
    parts = _parts(job, plan, progress)
    ahead = deque(islice(parts, job.settings.accumulation))
    for number in range(progress.batch, len(plan)):
        size = len(plan[number][1])
        _reseed(job, progress.epoch, number)
        given = [ahead.popleft() for _ in range(job.settings.accumulation)]
        asked = [float(signals.received == signal.SIGINT), float(signals.received == signal.SIGTERM)]
        fetch = partial(ahead.extend, islice(parts, job.settings.accumulation))
        summed = job.update(given, size, [*asked, float(watch.is_save_due())], fetch)
        if summed is None:
            watch.leave(progress, len(plan), "diverged")
            raise job.ranks.told(_diverged(progress.epoch, number, job.plan, given[0][0]))
        progress = replace(progress, batch=number + 1, loss=progress.loss + summed[0])
        display.batch(size)
        watch.batch(progress, len(plan), size)
        _, interrupted, terminated, is_save_due = summed
        if interrupted or terminated or is_save_due:
            _save(job, progress, watch)
        if interrupted or terminated:
            watch.leave(progress, len(plan), "stopped")
            raise stop_error(signal.SIGINT if interrupted else signal.SIGTERM)
    return progress


def _parts(job: _Job, plan: list[tuple[int, Tensor]], progress: Progress) -> Iterator[tuple[Samples, int]]:
    """This process's parts of the batches that are left, each with how many of its pairs count."""
    counts: list[int] = []
    loads = []
    for number, (level, chosen) in enumerate(plan[progress.batch :], start=progress.batch):
        for places, own in shares(chosen, job.ranks.rank, job.ranks.world, job.settings.accumulation):
            counts.append(len(places))
            loads.append(partial(_load, job, level, own, places, progress.epoch, number, len(chosen)))
    found = (load_part() for load_part in loads) if _are_on(job.levels, job.ranks.device) else streamed(loads)
    return zip(found, counts, strict=True)


def _are_on(levels: Sequence[Pairs], device: torch.device) -> bool:
    """Whether all pairs are on the device already; otherwise a thread brings them, and each batch has a grid anew."""
    return all(isinstance(level, Samples) and level.u.device == device for level in levels)


def _load(job: _Job, level: int, own: Tensor, places: Tensor, epoch: int, number: int, size: int) -> Samples:
    pairs = job.levels[level]
    samples = pairs[sent(own, job.ranks.device) if _are_on([pairs], job.ranks.device) else own]
    dtype = job.state.operator.input_mean.dtype
    if samples.u.device != job.ranks.device or samples.u.dtype != dtype or samples.z.dtype != dtype:
        samples = samples.to(job.ranks.device, dtype)
    return job.augmentation(samples, epoch, number, size, places) if job.augmentation else samples


def _validate(job: _Job, progress: Progress) -> tuple[Progress, float]:
    """The validation error after an epoch; if it is the best one, the operator is kept."""
    average = job.state.average
    with average.applied() if average else nullcontext():
        error = _validation_error(job)
        job.state.schedule.after_epoch(error)
        if progress.best_error is None or error < progress.best_error:
            operator = job.state.operator
            weights = {name: whole(tensor) for name, tensor in operator.state_dict().items()}
            job.ranks.first(partial(operator.save_pretrained, job.folder / "operator", weights))
            progress = replace(progress, best_error=error, best_epoch=progress.epoch)
    return progress, error


def _validation_error(job: _Job) -> float:
    """The mean relative error; each process takes as many pairs, so that all of them call the operator as often."""
    operator, pairs, norm = job.state.operator, job.validation, job.settings.loss
    if job.ranks.world == 1:
        return float(relative_errors(operator, pairs, norm).mean())
    count = len(pairs)
    share = -(-count // job.ranks.world)
    wanted = job.ranks.rank * share
    first = min(wanted, count - share)
    errors = torch.zeros(count, dtype=torch.float64)
    try:
        errors[first : first + share] = relative_errors(operator, pairs[first : first + share], norm)
    except DivergedError:
        errors[first : first + share] = torch.nan  # told by all of them together
    errors[:wanted] = 0  # what the last ones have besides, others have, too
    error = float(torch.tensor(job.ranks.total(*errors.tolist()), dtype=torch.float64).mean())
    if not math.isfinite(error):
        raise job.ranks.told(DivergedError("the operator's output on the validation samples is not finite"))
    return error


def _save(job: _Job, progress: Progress, watch: Watch) -> None:
    """Write a checkpoint, once there is something to go on from."""
    with watch.saving():
        contents = gather(job.state)
        if contents.moments:
            job.ranks.first(partial(write_checkpoint, job.folder / "checkpoints", contents, progress))


@contextmanager
def _occupied(folder: Path) -> Iterator[None]:
    """The folder is this process's alone, from the first file to the last, or what is left of it is reported."""
    with locked(folder) as there:
        try:
            yield
            there.check()
        except GoneError as error:
            raise ResourceError(f"{error}; {what_is_left(there)}") from None


def _sweep(folder: Path) -> None:
    for place in (folder, folder / "operator"):
        sweep(place)


def _check_fit(levels: tuple[Pairs, ...], settings: Training, symmetries: tuple[Symmetry, ...]) -> None:
    """Refuse resolutions and symmetries that do not go with the settings."""
    how = settings.resolutions
    if how != "staged" and len(levels) == 1:
        raise UsageError(f'training.resolutions is "{how}", but there is one resolution; give data.coarser')
    if settings.stages and len(settings.stages) != len(levels):
        raise UsageError(f"training.stages must have {len(levels)} parts: got {len(settings.stages)}; see data.coarser")
    if settings.augment and not symmetries:
        raise UsageError("training.augment is true, but the problem names no symmetries; set it to false")
    for symmetry in symmetries if settings.augment else ():
        for level in levels:
            check_symmetry(symmetry, level)


def _reseed(job: _Job, epoch: int, batch: int) -> None:
    """Random numbers inside the operator follow from (seed, epoch, batch, rank)."""
    sequence = np.random.SeedSequence([job.settings.seed, epoch, batch, job.ranks.rank])
    torch.manual_seed(int(sequence.generate_state(1, np.uint64)[0]))


def _diverged(epoch: int, batch: int, plan: Plan, samples: Samples) -> DivergedError:
    step = sum(len(plan.levels(before)) for before in range(epoch)) + batch + 1
    points = math.prod(larger_grid(samples).shape)
    return DivergedError(
        f"the loss or its gradient is not finite in epoch {epoch + 1}, batch {batch + 1} (update {step}, "
        f"{points} points); checkpoints before it are good: lower training.learning_rate and train into a new folder"
    )
