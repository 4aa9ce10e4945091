"""How the learning rate falls: the paper's plateau rule and a cosine."""

from __future__ import annotations

from math import cos, pi
from typing import Any, Literal, Protocol

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

ScheduleName = Literal["plateau", "cosine"]


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
        """Best error, epochs since, and the rates."""
        state = self._scheduler.state_dict()
        # Infinity, which JSON has not, and which is made anew.
        return {name: value for name, value in state.items() if name != "mode_worse"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self._scheduler.load_state_dict(state)


class Cosine:
    """A linear rise over the first tenth of the updates, then half a cosine down to zero."""

    def __init__(self, optimizer: Optimizer, updates: int) -> None:
        self._optimizer = optimizer
        self._highest = [group["lr"] for group in optimizer.param_groups]
        self._updates = updates
        self._done = 0
        self._apply()

    def after_update(self) -> None:
        """Move one update along the curve."""
        self._done += 1
        self._apply()

    def after_epoch(self, validation_error: float) -> None:
        """The curve does not look at errors."""

    def state_dict(self) -> dict[str, Any]:
        """How far along the curve we are."""
        return {"done": self._done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self._done = state["done"]
        self._apply()

    def _apply(self) -> None:
        rise = max(1, self._updates // 10)
        if self._done < rise:
            factor = (self._done + 1) / rise
        else:
            factor = (1 + cos(pi * (self._done - rise) / max(1, self._updates - rise))) / 2
        for group, highest in zip(self._optimizer.param_groups, self._highest, strict=True):
            group["lr"] = highest * factor


def make_schedule(name: ScheduleName, optimizer: Optimizer, updates: int) -> Schedule:
    """The schedule of that name for a run of so many updates."""
    return Plateau(optimizer) if name == "plateau" else Cosine(optimizer, updates)
