"""Rollouts: an operator applied to its own output, and how its error grows along a true trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor

from operformer.checking import checked
from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.evaluation.loss import relative_l2
from operformer.evaluation.pictures import cut
from operformer.evaluation.prediction import together
from operformer.evaluation.spectra import ErrorSpectrum, SpectrumMean
from operformer.operators import Operator

FRAMES = {1: 100, 2: 5}  # steps of a film, by the dimension
SHOWN = 96  # points along an axis of a film


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
class Film:
    """The first channel of one trajectory: true and rolled out, at some of its steps and points.

    ``y`` is empty on a line, where functions are (steps, n); in the plane they are (steps, n, m).
    """

    times: list[float]
    x: list[float]
    y: list[float]
    truth: list[Any]
    rollout: list[Any]


@dataclass(frozen=True)
class Rollout:
    """Relative L2 errors (steps, samples) against the true trajectory, of the rollout and of persistence, z = u_0.

    An output that is not finite has the error infinity. ``spectrum`` is that of the last step; None where points are
    not equispaced or outputs not finite. ``variance_errors`` are relative to the deviation of the truth from its mean
    over D in place of its norm (VRMSE). ``film`` shows the sample of median error.
    """

    times: tuple[float, ...]  # after the start, of each step
    errors: tuple[tuple[float, ...], ...]
    persistence: tuple[tuple[float, ...], ...]
    spectrum: ErrorSpectrum | None
    weights: str = ""  # the hash of those it was made from, as `load_hashed` gives it; empty if that is not known
    variance_errors: tuple[tuple[float, ...], ...] = ()
    film: Film | None = None

    @property
    def means(self) -> tuple[float, ...]:
        """The average error at each step (nRMSE)."""
        return tuple(map(fmean, self.errors))

    @property
    def variance_means(self) -> tuple[float, ...]:
        """The average error at each step, relative to the deviation of the truth (VRMSE)."""
        return tuple(map(fmean, self.variance_errors))

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
    size, errors, persistence, deviations = together(grid), [], [], []
    spectrum, rolled = SpectrumMean(grid, is_periodic), []
    for start, z in zip(u0.split(size), truth.double().split(size), strict=True):
        found = rollout(operator, start.to(operator.input_mean), len(times), grid).to(z)
        rolled.append(found[:, :, :1].float())
        errors.append(_errors(found, z, grid))
        deviations.append(_errors(found, z, grid, is_about_mean=True))
        persistence.append(_errors(start.to(z).unsqueeze(1).expand_as(z), z, grid))
        spectrum.add(found[:, -1], z[:, -1])
    grown = _steps(errors)
    last = spectrum.mean() if all(isfinite(error) for error in grown[-1]) else None
    order = torch.cat(errors)[:, -1].argsort()
    middle = int(order[(len(order) - 1) // 2])
    film = _film(times, truth[middle, :, 0], torch.cat(rolled)[middle, :, 0], grid)
    return Rollout(tuple(times), grown, _steps(persistence), last, "", _steps(deviations), film)


def _film(times: Sequence[float], truth: Tensor, found: Tensor, grid: Grid) -> Film | None:
    """What a page shows of a trajectory (steps, *shape); None in space, and of values that are not finite."""
    if grid.axes is None or grid.dim > 2 or not bool(torch.isfinite(found).all()):
        return None
    most = FRAMES[grid.dim]
    chosen = torch.linspace(0, len(times) - 1, min(len(times), most)).round().long().to(found.device)
    axes, functions = cut([truth[chosen].float(), found[chosen]], grid, SHOWN)
    x, y = axes[0].tolist(), axes[1].tolist() if len(axes) > 1 else []
    shown, ours = (values.cpu().tolist() for values in functions)
    return Film([times[int(k)] for k in chosen], x, y, shown, ours)


def _errors(found: Tensor, z: Tensor, grid: Grid, is_about_mean: bool = False) -> Tensor:
    """(batch, steps, channels, *shape) twice -> (batch, steps); relative to z, or to z less its mean over D."""
    steps = z.shape[1]
    found, z = found.flatten(0, 1), z.flatten(0, 1)
    if is_about_mean:
        share = (grid.weights / grid.weights.sum()).to(z)
        mean = (z * share).flatten(2).sum(-1).reshape(*z.shape[:2], *[1] * grid.n_axes)
        found, z = found - mean, z - mean
    errors = relative_l2(found, z, grid).unflatten(0, (-1, steps))
    return torch.where(torch.isfinite(errors), errors, torch.inf)


def _steps(parts: Sequence[Tensor]) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, torch.cat(list(parts)).T.tolist()))
