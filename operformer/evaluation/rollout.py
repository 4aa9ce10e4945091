"""Rollouts: an operator applied to its own output, and how its error grows along a true trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median

import torch
from torch import Tensor

from operformer.checking import checked
from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.evaluation.loss import relative_l2
from operformer.evaluation.prediction import together
from operformer.evaluation.spectra import ErrorSpectrum, SpectrumMean
from operformer.operators import Operator


@checked
def rollout(operator: Operator, u0: Tensor, steps: int, grid: Grid | None = None) -> Tensor:
    """G(u_0), G(G(u_0)), ...: (batch, channels, *shape) -> (batch, steps, channels, *shape).

    Gradients are kept where the caller keeps them, as with the operator itself.
    """
    if operator.in_channels != operator.out_channels:
        raise UsageError(
            f"a rollout needs an operator with as many outputs as inputs: got {operator.in_channels} to "
            f"{operator.out_channels} channels"
        )
    if steps < 1:
        raise UsageError(f"steps must be at least 1: got {steps}")
    states = [u0]
    for _ in range(steps):
        states.append(operator(states[-1], grid))
    return torch.stack(states[1:], dim=1)


@dataclass(frozen=True)
class Rollout:
    """Relative L2 errors (steps, samples) against the true trajectory, of the rollout and of persistence, z = u_0.

    An output that is not finite has the error infinity. ``spectrum`` is that of the last step; None where points are
    not equispaced or outputs not finite.
    """

    times: tuple[float, ...]  # after the start, of each step
    errors: tuple[tuple[float, ...], ...]
    persistence: tuple[tuple[float, ...], ...]
    spectrum: ErrorSpectrum | None
    weights: str = ""  # the hash of those it was made from, as `load_hashed` gives it; empty if that is not known

    @property
    def medians(self) -> tuple[float, ...]:
        """The error at each step that half of the samples stay below."""
        return tuple(map(median, self.errors))

    @property
    def worst(self) -> tuple[float, ...]:
        """The largest error at each step."""
        return tuple(map(max, self.errors))

    @property
    def persistence_medians(self) -> tuple[float, ...]:
        """The medians of the forecast that nothing changes."""
        return tuple(map(median, self.persistence))


@torch.no_grad()
def study_rollout(
    operator: Operator, u0: Tensor, truth: Tensor, grid: Grid, times: Sequence[float], is_periodic: bool = False
) -> Rollout:
    """The operator's rollout from u_0 (count, channels, *shape) beside the truth (count, steps, channels, *shape)."""
    if truth.ndim != u0.ndim + 1 or len(truth) != len(u0) or truth.shape[1] != len(times):
        raise UsageError(
            f"the truth must be (count, {len(times)}, channels, *shape) for {len(times)} times and {len(u0)} starts: "
            f"got {tuple(truth.shape)}"
        )
    operator.eval()
    size, errors, persistence = together(grid), [], []
    spectrum = SpectrumMean(grid, is_periodic)
    for start, z in zip(u0.split(size), truth.double().split(size), strict=True):
        found = rollout(operator, start.to(operator.input_mean), len(times), grid).to(z)
        errors.append(_errors(found, z, grid))
        persistence.append(_errors(start.to(z).unsqueeze(1).expand_as(z), z, grid))
        spectrum.add(found[:, -1], z[:, -1])
    grown = _steps(errors)
    last = spectrum.mean() if all(isfinite(error) for error in grown[-1]) else None
    return Rollout(tuple(times), grown, _steps(persistence), last)


def _errors(found: Tensor, z: Tensor, grid: Grid) -> Tensor:
    """(batch, steps, channels, *shape) twice -> (batch, steps)."""
    errors = relative_l2(found.flatten(0, 1), z.flatten(0, 1), grid).unflatten(0, z.shape[:2])
    return torch.where(torch.isfinite(errors), errors, torch.inf)


def _steps(parts: Sequence[Tensor]) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, torch.cat(list(parts)).T.tolist()))
