"""Which operator and which training suit some samples: measured features, then a short race between candidates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch

from operformer.checking import checked
from operformer.domain import Pairs, Samples
from operformer.domain.samples import check_samples, z_grid
from operformer.errors import UsageError
from operformer.evaluation.errors import relative_errors
from operformer.evaluation.loss import LOSSES
from operformer.operators import Operator
from operformer.operators.operator import applied
from operformer.operators.pretrained import make_operator
from operformer.settings import construct
from operformer.training.candidates import AUTO, candidates, check_recipe, common_settings, recipe_of, winner
from operformer.training.features import Features, measure
from operformer.training.normalisation import fit_normalisation
from operformer.training.optimizer import make_optimizer
from operformer.training.recipe import Training, training_device
from operformer.training.schedule import make_schedule

LOOKED_AT = 128  # samples to measure and to race on
RACE = 120  # updates of each candidate, unless they take more than this part of the time:
SHARE = 0.3
FEWEST = 12
MOST_EPOCHS = 1000
FEW_EPOCHS = 5


@dataclass(frozen=True, repr=False)
class Recommendation:
    """An operator and a training for some samples, and why. Print it to read the reasons.

    Args:
        operator: the operator's name and settings as plain values.
        training: how to train it.
        reasons: four lines: what was found in the samples, and what was chosen for it.
        channels: components of u and z.
        dim: the dimension of the domain.
        start: the trained operator to go on from, if there is one.
    """

    operator: Mapping[str, Any]
    training: Training
    reasons: tuple[str, ...]
    channels: tuple[int, int]
    dim: int
    start: Operator | None = None

    def make_operator(self) -> Operator:
        """A fresh operator, whose first weights follow from the training's seed, or a copy of the trained one."""
        if self.start is not None:
            return deepcopy(self.start)
        return fresh(self.operator, self.channels, self.dim, self.training.seed)

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={value!r}" for key, value in self.operator.items() if key != "name")
        how = f"{_counted(self.training.epochs)}, {self.training.optimizer}, {self.training.loss} loss"
        return f"Recommendation({self.operator['name']}({settings}), {how})"

    def __str__(self) -> str:
        return "\n".join(self.reasons)


@checked
def recommend(
    samples: Pairs,
    minutes: float = 2.0,
    operator: Mapping[str, Any] | Operator | None = None,
    training: Mapping[str, Any] | None = None,
    recipe: str = AUTO,
    clock: Callable[[], float] = time.monotonic,
) -> Recommendation:
    """Choose an operator and a training for samples of your own.

    Measures the grid, whether u and z are periodic, zero at the boundary and smooth, and whether z is a later state of
    u. What these leave open is decided by short trainings on some of the samples.

    Args:
        samples: the training samples, in memory or on disk.
        minutes: how long training may take on this machine, with the choice. Good values: 2 to 60.
        operator: settings of the operator that are not to be chosen, such as {"basis": "cosine"} or {"name": "TNO"}; or
            a trained operator, which is to learn these samples, too.
        training: settings of `Training` that are not to be chosen, such as {"batch_size": 8}.
        recipe: "auto", or the recipe that is to be fitted to the samples: "isotropic", "cosine" or "fourier" kernels of
            a `SpectralOperator`, "tno", "fano" or "vitno".
        clock: what counts the minutes, in seconds. `time.process_time` compares trainings on a machine with other work.

    Returns:
        The choice. Its ``make_operator()`` and ``training`` are what `train` takes.

    Example:
        >>> u = torch.rand(40, 1, 16)
        >>> chosen = recommend(Samples(u, u.cumsum(-1) / 16, Grid.uniform(16)), minutes=0.02)
        >>> chosen.operator["name"]
        'SpectralOperator'
    """
    if not minutes > 0:
        raise UsageError(f"minutes must be positive: got {minutes}; try 2")
    check_samples(samples, "training")
    if len(samples) < 5:
        raise UsageError(f"a choice needs at least 5 training samples: got {len(samples)}")
    check_recipe(recipe)
    started = clock()
    some = samples[torch.arange(min(len(samples), LOOKED_AT))].to(dtype=torch.float32)
    features = measure(some)
    start = operator if isinstance(operator, Operator) else None
    if isinstance(operator, Operator):
        known = {"name": operator.kind, **operator.settings}
        if recipe not in (AUTO, recipe_of(known)):
            raise UsageError(f"recipe {recipe!r} is of another operator than the one that is given; leave it out")
        asked = {**common_settings(features, len(samples)), "learning_rate": 2e-3, **(training or {})}
        tried = [(known, construct(Training, asked, "training"))]
    else:
        tried = candidates(features, recipe, operator or {}, training or {}, len(samples))
    device = training_device(tried[0][1])
    seconds = 60 * minutes
    raced = []
    for settings, how in tried:
        first = deepcopy(start) if start else fresh(settings, samples.channels, features.grid.dim, how.seed)
        raced.append(_race(first.to(device), how, some.to(device), SHARE * seconds / len(tried), clock))
    errors = [error for error, _ in raced]
    best = winner(tried, errors)
    (settings, how), per_update = tried[best], raced[best][1]
    if "epochs" not in (training or {}):
        epoch = _epoch_seconds(per_update, len(samples), how)
        how = replace(how, epochs=max(1, min(MOST_EPOCHS, int((seconds - (clock() - started)) / epoch))))
    told = [(one, error) for (one, _), error in zip(tried, errors, strict=True)]
    reasons = (*_found(features, len(samples)), _decided(told, settings), _trained(how, per_update, len(samples)))
    return Recommendation(settings, how, reasons, samples.channels, features.grid.dim, start)


def fresh(settings: Mapping[str, Any], channels: tuple[int, int], dim: int, seed: int) -> Operator:
    """An operator with these settings, whose first weights follow from the seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make_operator(settings, "operator", in_channels=channels[0], out_channels=channels[1], dim=dim)


def _race(
    operator: Operator, how: Training, some: Samples, seconds: float, clock: Callable[[], float]
) -> tuple[float, float]:
    """The error of a candidate on samples that it has not seen, after a short cycle, and the seconds of an update."""
    kept = max(1, len(some) // 5)
    train, rest = some[:-kept], some[-kept:]
    fit_normalisation(operator, train)
    optimizer = make_optimizer(how.optimizer, operator, how.learning_rate / 2, how.weight_decay)  # a short cycle
    order = torch.Generator().manual_seed(how.seed)
    times: list[float] = []
    schedule, updates = make_schedule("one-cycle", optimizer, RACE), RACE
    while len(times) < updates:
        for chosen in torch.randperm(len(train), generator=order).split(how.batch_size)[: updates - len(times)]:
            began, batch = clock(), train[chosen]
            loss = LOSSES[how.loss](applied(operator, batch.u, batch), batch.z, z_grid(batch)).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(operator.parameters(), how.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
            schedule.after_update()
            float(loss.detach())  # a GPU is waited for
            times.append(clock() - began)
            if len(times) == 3 and 3 * RACE * times[-1] > 3 * seconds:
                updates = max(FEWEST, int(seconds / times[-1]))
                schedule = make_schedule("one-cycle", optimizer, updates)
    error = float(relative_errors(operator.eval(), rest, how.loss).mean())
    return error, sorted(times)[len(times) // 2]


def _found(features: Features, count: int) -> tuple[str, str]:
    """What was measured, in two lines."""
    inputs, outputs = features.channels
    waves = "" if features.half_waves is None else f", made of {features.half_waves} half waves along an axis"
    traits = {
        "periodic": features.is_periodic,
        "zero at the boundary": features.is_zero_at_boundary,
        "a later state of u": features.is_flow,
        "a number for each sample": features.is_number,
    }
    said = ", ".join(trait for trait, holds in traits.items() if holds) or "neither periodic nor zero at the boundary"
    return (
        f"samples: {count} of {inputs} to {outputs} channels on {features.grid}",
        f"z is {said}{waves}",
    )


def _decided(told: list[tuple[dict[str, Any], float]], chosen: dict[str, Any]) -> str:
    """Which candidates ran, with their errors, and the choice."""

    def name(one: dict[str, Any]) -> str:
        return f"{one['name']} {one['basis']}" if "basis" in one else str(one["name"])

    def name_apart(one: dict[str, Any]) -> str:
        same = [other for other, _ in told if name(other) == name(one)]
        apart = [f"{key}={value}" for key, value in one.items() if any(other.get(key) != value for other in same)]
        return f"{name(one)} ({', '.join(apart)})" if apart else name(one)

    runs = ", ".join(f"{name_apart(one)} {100 * error:.3g} %" for one, error in told)
    settings = ", ".join(f"{key}={value}" for key, value in chosen.items() if key not in ("name", "basis"))
    how = f"error after a short training: {runs}; " if len(told) > 1 else ""
    why = "" if chosen is min(told, key=lambda each: each[1])[0] else f", {_preference(chosen)}"
    return f"{how}chosen: {name(chosen)} ({settings}){why}"


def _preference(chosen: dict[str, Any]) -> str:
    """Why the operator is chosen although another had a smaller error; see `winner`."""
    reason = (
        "Fourier's basis learns what moves in one direction"
        if chosen["basis"] == "fourier"
        else "isotropic kernels win later"
    )
    return f"preferred unless another has less than two thirds of its error, because {reason}"


def _trained(how: Training, per_update: float, count: int) -> str:
    """The training in a line."""
    epoch = _epoch_seconds(per_update, count, how)
    seconds = how.epochs * epoch
    total = f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:.2g} minutes"
    few = "; so few epochs teach little, so give it more minutes" if how.epochs < FEW_EPOCHS else ""
    return (
        f"training: {_counted(how.epochs)} of about {epoch:.2g} s, about {total} at this pace, "
        f"batches of {how.batch_size}, {how.loss} loss, "
        f"{how.optimizer}, {how.schedule} to {how.learning_rate:g}{few}"
    )


def _counted(epochs: int) -> str:
    return f"{epochs} epoch{'s' if epochs > 1 else ''}"


def _epoch_seconds(per_update: float, count: int, how: Training) -> float:
    """A tenth of the samples validates, at about a third of the price; checkpoints and the rest take some, too."""
    return 1.12 * per_update * -(-count // how.batch_size)
