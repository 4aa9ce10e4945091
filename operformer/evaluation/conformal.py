"""Conformal bands: P(|z - G(u)| <= q s on at least 1 - delta of D, by volume) >= 1 - alpha, for any operator.

Split conformal prediction: pairs that the operator was not trained on are given a score each, and the band is as wide
as a quantile of the scores. It holds for every law and every operator, however good, if the pairs to come are
exchangeable with those of the calibration. That a share of D is asked for, and not all of it, is the idea of Ma,
Azizzadenesheli and Anandkumar (Calibrated uncertainty quantification for operator learning via conformal prediction,
TMLR 2024); here the share is measured by the grid's weights, so it means the same on every grid.
"""

# DESIGN.md: Bands count volume

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor
from typing import Literal

import torch
from torch import Tensor, nn

from operformer.checking import checked
from operformer.domain import Grid, Pairs, Samples
from operformer.domain.interpolation import interpolate
from operformer.domain.quadrature import check_values
from operformer.domain.samples import Moments, check_samples, larger_grid, z_grid
from operformer.errors import DivergedError, UsageError
from operformer.evaluation.cautions import warn
from operformer.evaluation.errors import predict
from operformer.evaluation.loss import relative_l2
from operformer.evaluation.prediction import together
from operformer.operators import Operator
from operformer.operators.operator import applied, check_takes_functions
from operformer.settings import named

AnyOperator = Callable[..., Tensor]
SpreadName = Literal["rms", "constant"]
SMALLEST = 0.1  # of its root mean square over D: s is not smaller, also where no error was seen
ROUNDING = 1e-9  # relative; what counts as the same share


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """|z - G(u)| <= factor * spread on 1 - delta of D, ||z - G(u)|| / ||z|| <= relative_error: each with 1 - alpha.

    ``spread`` is s (channels, *shape), known on ``grid``. The two statements hold each by itself, not both at once.
    """

    alpha: float
    delta: float
    count: int  # of scores
    factor: float
    relative_error: float
    spread: Tensor
    grid: Grid
    weights: str = ""  # the hash of those it was made from, as `load_hashed` gives it; empty if that is not known

    def __repr__(self) -> str:
        share, points = f"{100 * (1 - self.alpha):g} %", f"{100 * (1 - self.delta):g} %"
        return (
            f"Calibration({share} of samples: |z - G(u)| <= {self.factor:.3g} spread on {points} of D, L2 error "
            f"<= {100 * self.relative_error:.3g} %; from {self.count} samples on {self.grid})"
        )

    @checked
    def half_width(self, grid: Grid) -> Tensor:
        """q s(x) on any grid of the domain: (channels, *shape), float64; s is read by interpolation."""
        read = interpolate(self.spread, self.grid, grid.to(self.grid.points.device))
        lowest = self.spread.flatten(1).amin(1).reshape(-1, *[1] * grid.n_axes)
        return (self.factor * torch.maximum(read, lowest)).to(grid.points.device)

    @checked
    def band(self, prediction: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        """The lower and the upper end of the band around G(u) (..., channels, *shape)."""
        check_values(prediction, grid)
        if prediction.shape[-grid.n_axes - 1] != len(self.spread) or not prediction.is_floating_point():
            raise UsageError(f"the prediction must have {len(self.spread)} channels: got {named(prediction)}")
        half = self.half_width(grid).to(prediction)
        return prediction - half, prediction + half


def sentences(calibration: Calibration, prediction: str = "the prediction", width: str | None = None) -> list[str]:
    """What a calibration promises, in two sentences."""
    half = calibration.half_width(calibration.grid)
    within = width or f"{float(half.min()):.3g} to {float(half.max()):.3g}"
    inside = "everywhere" if calibration.delta == 0 else f"on at least {1 - calibration.delta:.6g} of the domain"
    often = f"with probability {1 - calibration.alpha:.6g}"
    return [
        f"{often} the truth is within {within} of {prediction} {inside} ({calibration.count} scores)",
        f"{often} its relative L2 error is at most {calibration.relative_error:.2%}",
    ]


@dataclass(frozen=True)
class Coverage:
    """What a calibration says, counted on pairs it has not seen."""

    count: int
    functions: float  # the share of pairs in the band on at least 1 - delta of D: 1 - alpha or more is promised
    volume: float  # the mean share of D in the band
    relative_errors: float  # the share of pairs whose relative L2 error is below the bound: 1 - alpha or more
    width: float  # the half width's root mean square over D, as a multiple of the standard deviation of z


@checked
def calibrate(
    operator: AnyOperator, samples: Pairs, alpha: float = 0.1, delta: float = 0.05, spread: SpreadName = "rms"
) -> Calibration:
    """A conformal band q s(x) around predictions, and a bound of their relative L2 error, from fresh samples.

    q is the ceil((n + 1) (1 - alpha))-th of n scores. The score of a sample is the (1 - delta)-quantile over D of
    max_c |z_c - G_c(u)| / s_c, by the grid's weights.

    Args:
        operator: an operator, or any callable ``operator(u, grid)``, or ``operator(u, grid, query)`` for
            samples with a query.
        samples: samples that were not trained on; for alpha = 0.1 at least 9, and 17 with an "rms" spread.
            Good value: some hundred.
        alpha: the share of new samples that may leave the band. Good value: 0.1.
        delta: the share of D where a sample may leave the band and still counts as inside. Good value: 0.05.
        spread: "rms", s is the root mean square error at each point over the first half of the samples, which then
            give no scores; "constant", s is one number for each channel, which also takes the place of "rms", with a
            warning, if there are too few samples for that.

    Returns:
        The calibration: ``half_width(grid)`` is the band's, ``bound`` that of the relative L2 error.
    """
    used = check_request(len(samples), alpha, delta, spread)
    check_samples(samples, "calibration")
    check_takes_functions(operator, samples.query)
    warn(_too_few(len(samples), used, alpha, spread))
    s = _root_mean_square(operator, samples[:used]) if used else _constant(operator, samples)
    scores, errors = [], []
    for block in samples[used:].blocks(together(larger_grid(samples))):
        difference, error = _errors(operator, block)
        scores.append(weighted_quantile(_worst_channel(difference, s), z_grid(block).weights, 1 - delta).cpu())
        errors.append(error.cpu())
    factor, bound = (conformal_quantile(torch.cat(found), alpha) for found in (scores, errors))
    return Calibration(alpha, delta, len(samples) - used, factor, bound, s.cpu(), z_grid(samples).to("cpu"))


@checked
def coverage(calibration: Calibration, operator: AnyOperator, samples: Samples) -> Coverage:
    """How often the band and the bound hold on these pairs, whose grid need not be that of the calibration."""
    check_samples(samples, "test")
    grid = z_grid(samples)
    half_width = calibration.half_width(grid)
    shares, errors, moments = [], [], Moments(samples.channels[1])
    for block in samples.blocks(together(larger_grid(samples))):
        difference, error = _errors(operator, block)
        is_inside = (difference.abs() <= half_width).all(1).double().flatten(1)
        weights = grid.weights.flatten()
        shares.append((is_inside @ weights / weights.sum()).cpu())
        errors.append(error.cpu())
        moments.add(block.z, grid)
    share, error = torch.cat(shares), torch.cat(errors)
    is_covered = share >= (1 - calibration.delta) * (1 - ROUNDING)
    is_below = error <= calibration.relative_error
    functions, volume, below = (float(values.double().mean()) for values in (is_covered, share, is_below))
    return Coverage(len(samples), functions, volume, below, _relative_width(half_width, moments.std, grid))


def conformal_quantile(scores: Tensor, alpha: float) -> float:
    """The k-th smallest of n scores, k = ceil((n + 1) (1 - alpha)): one more exceeds it at most with alpha."""
    _check_count(len(scores), alpha)
    rank = len(scores) + 1 - floor((len(scores) + 1) * alpha * (1 + ROUNDING))
    return float(scores.sort().values[rank - 1])


def weighted_quantile(values: Tensor, weights: Tensor, level: float) -> Tensor:
    """min {t: w({values <= t}) >= level w(D)}, one for each function: (..., *shape), (*shape) -> (...)."""
    ordered, order = values.flatten(values.ndim - weights.ndim).sort(-1)
    measure = weights.to(values.device).flatten()[order].cumsum(-1)
    is_enough = measure >= level * (1 - ROUNDING) * measure[..., -1:]
    first = (is_enough & (measure > 0)).to(torch.int8).argmax(-1, keepdim=True)
    return ordered.gather(-1, first).squeeze(-1)


def least_count(alpha: float) -> int:
    """How many scores a quantile needs: ceil((n + 1) (1 - alpha)) <= n, so n >= 1 / alpha - 1."""
    return max(1, -floor(-(1 / alpha - 1) * (1 - ROUNDING)))


def check_request(count: int, alpha: float, delta: float, spread: SpreadName) -> int:
    """How many of so many pairs give the spread, none if the others were too few; refuses what they cannot answer."""
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must be between 0 and 1: got {alpha}; 0.1 is a coverage of 90 %")
    if not 0 <= delta < 1:
        raise UsageError(f"delta must be from 0 to below 1: got {delta}; 0.05 lets 5 % of the domain lie outside")
    _check_count(count, alpha)
    used = count // 2 if spread == "rms" else 0
    return used if count - used >= least_count(alpha) else 0


def _errors(operator: AnyOperator, block: Samples) -> tuple[Tensor, Tensor]:
    """z - G(u) (count, channels, *shape) and the relative L2 errors (count,), float64."""
    prediction = _output(operator, block).double()
    z = block.z.double()
    if not bool(torch.isfinite(prediction).all()):
        raise DivergedError("the operator's output on a sample is not finite; nothing can be said of its errors")
    return z - prediction, relative_l2(prediction, z, z_grid(block))


@torch.no_grad()
def _output(operator: AnyOperator, block: Samples) -> Tensor:
    if isinstance(operator, Operator):
        return predict(operator, block)
    if isinstance(operator, nn.Module):
        operator.eval()
    prediction = applied(operator, block.u, block)
    if not isinstance(prediction, Tensor) or prediction.shape != block.z.shape:
        raise UsageError(f"the operator must give {tuple(block.z.shape)}, like z: got {named(prediction)}")
    return prediction.to(block.z.device)


def _worst_channel(difference: Tensor, spread: Tensor) -> Tensor:
    return (difference.abs() / spread).amax(1)


def _root_mean_square(operator: AnyOperator, samples: Pairs) -> Tensor:
    """s(x) = (mean (z - G(u))^2 (x))^(1/2), and nowhere less than a tenth of its own root mean square over D."""
    grid = z_grid(samples)
    total = torch.zeros((), dtype=torch.float64)
    for block in samples.blocks(together(larger_grid(samples))):
        total = total.to(block.z.device) + _errors(operator, block)[0].square().sum(0)
    square = total / len(samples)
    weights = grid.weights.to(square.device)
    over = tuple(range(1, square.ndim))
    mean = (square * weights).sum(over, keepdim=True) / weights.sum()
    mean = torch.where(mean > 0, mean, 1.0)  # a channel without any error has a band of width zero by its factor
    return torch.maximum(square, SMALLEST**2 * mean).sqrt()


def _constant(operator: AnyOperator, samples: Pairs) -> Tensor:
    """s_c, which makes channels of different units comparable; the band of a single channel does not depend on it."""
    scale = getattr(operator, "output_scale", None)
    values = torch.ones(samples.channels[1]) if scale is None else scale
    grid = z_grid(samples)
    shape, device = (samples.channels[1], *grid.shape), grid.weights.device
    return values.detach().to(device, torch.float64).reshape(-1, *[1] * grid.n_axes).expand(shape).contiguous()


def _check_count(count: int, alpha: float) -> None:
    least = least_count(alpha)
    if count < least:
        asked = f"alpha={alpha:g} needs scores of at least {least} samples"
        raise UsageError(f"{asked}: got {count}; give more validation samples, or raise alpha")


def _too_few(count: int, used: int, alpha: float, spread: SpreadName) -> list[str]:
    """That the band has the same width everywhere, and what another form would take."""
    if used or spread == "constant":
        return []
    enough = 2 * least_count(alpha) - 1
    return [
        f"{count} samples are too few for a band whose width varies over the domain: it is constant, as with "
        f'spread="constant"; at alpha={alpha:g} {enough} validation samples are enough, or raise alpha'
    ]


def _relative_width(half_width: Tensor, deviation: Tensor, grid: Grid) -> float:
    """The half width's root mean square over D and channels, in units of the deviation of z, or 1 where that is 0."""
    units = torch.where(deviation > 0, deviation, 1.0).reshape(-1, *[1] * grid.n_axes)
    share = half_width.cpu() / units
    weights = grid.weights.cpu()
    return float(((share.square() * weights).flatten(1).sum(1) / weights.sum()).mean().sqrt())
