"""How the learning rate moves: the paper's plateau rule, a cosine, and one cycle (Smith and Topin 2018)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import cos, inf, isfinite, pi
from typing import Any, Literal, Protocol

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

ScheduleName = Literal["plateau", "cosine", "one-cycle"]


class Schedule(Protocol):
    """Sets the learning rate after each update and after each epoch."""

    def after_update(self) -> None:
        """One more update of the weights is done."""

    def after_epoch(self, validation_error: float) -> None:
        """One more pass over the training pairs is done."""

    def state_dict(self) -> dict[str, Any]:
        """What a later run needs to go on from here."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""


class Plateau:
    """Half the rate after more than two epochs without a better validation error (the authors' setting)."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._scheduler = ReduceLROnPlateau(optimizer, factor=0.5, patience=2)

    def after_update(self) -> None:
        """Nothing changes within an epoch."""

    def after_epoch(self, validation_error: float) -> None:
        """Count the epoch as better or not."""
        self._scheduler.step(validation_error)

    def state_dict(self) -> dict[str, Any]:
        """The best error, None before the first one, and the epochs without a better one."""
        best = float(self._scheduler.best)
        return {"best": best if isfinite(best) else None, "bad_epochs": self._scheduler.num_bad_epochs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        best, bad_epochs = state["best"], state["bad_epochs"]
        if not (best is None or (isinstance(best, float) and isfinite(best))) or type(bad_epochs) is not int:
            raise ValueError(f"the state of the schedule is invalid: {state}")
        self._scheduler.best = inf if best is None else best
        self._scheduler.num_bad_epochs = bad_epochs


class Curve(ABC):
    """A rate that follows a curve of the updates done and looks at no errors."""

    def __init__(self, optimizer: Optimizer, updates: int) -> None:
        self._optimizer = optimizer
        self._highest = [group["lr"] for group in optimizer.param_groups]
        self._updates = updates
        self._done = 0
        self._apply()

    @abstractmethod
    def factor(self, done: int, updates: int) -> float:
        """The rate after so many updates of all, as a share of the highest."""

    def after_update(self) -> None:
        """Move one update along the curve."""
        self._done += 1
        self._apply()

    def after_epoch(self, validation_error: float) -> None:  # noqa: B027  # not abstract: nothing is to be done
        """The curve does not look at errors."""

    def state_dict(self) -> dict[str, Any]:
        """How far along the curve we are."""
        return {"done": self._done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        if type(state["done"]) is not int or state["done"] < 0:
            raise ValueError(f"the updates done are no whole number: {state['done']!r}")
        self._done = state["done"]
        self._apply()

    def _apply(self) -> None:
        factor = self.factor(self._done, self._updates)
        for group, highest in zip(self._optimizer.param_groups, self._highest, strict=True):
            group["lr"] = highest * factor


class Cosine(Curve):
    """A linear rise over the first tenth of the updates, then half a cosine down to zero."""

    def factor(self, done: int, updates: int) -> float:
        """(k + 1) / rise, then (1 + cos(pi s)) / 2, s from 0 to 1."""
        rise = max(1, updates // 10)
        if done < rise:
            return (done + 1) / rise
        return (1 + cos(pi * (done - rise) / max(1, updates - rise))) / 2


class OneCycle(Curve):
    """Half a cosine up from 1/25 over 0.3 of the updates, half a cosine down to 1/250000: torch's OneCycleLR."""

    def factor(self, done: int, updates: int) -> float:
        """b + (a - b) (1 + cos(pi s)) / 2 on both ways, s from 0 to 1."""
        top, end = 0.3 * updates - 1, updates - 1
        if done <= top:
            return _half_cosine(1 / 25, 1.0, done / top if top > 0 else 1.0)
        return _half_cosine(1.0, 1 / 25e4, min(1.0, (done - top) / max(1.0, end - top)))


def _half_cosine(first: float, last: float, share: float) -> float:
    return last + (first - last) * (1 + cos(pi * share)) / 2


def make_schedule(name: ScheduleName, optimizer: Optimizer, updates: int) -> Schedule:
    """The schedule of that name for a run of so many updates."""
    if name == "plateau":
        return Plateau(optimizer)
    return Cosine(optimizer, updates) if name == "cosine" else OneCycle(optimizer, updates)
