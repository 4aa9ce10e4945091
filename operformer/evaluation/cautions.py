"""What works and is likely not what was wanted: one sentence each, and how it is said."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.domain.samples import Moments
from operformer.errors import OperformerWarning
from operformer.operators import Operator

FAR = 5.0  # of the training's standard deviations: inputs that are as far from the training's mean
MOST_H1 = 0.5  # relative H1 error


def warn(cautions: Iterable[str]) -> None:
    """Say them as Python warnings; the command line prints one line each."""
    for caution in cautions:
        warnings.warn(caution, OperformerWarning, stacklevel=3)


def unlike_training(operator: Operator, u: Tensor, grid: Grid) -> list[str]:
    """Input channels whose root mean square distance from the training's mean is far above its deviation."""
    moments = Moments(u.shape[1])
    moments.add(u, grid)
    mean, scale = (t.detach().double().cpu() for t in (operator.input_mean, operator.input_scale))
    distance = _distance(moments.mean, moments.std, mean, scale)
    if not bool((distance > FAR).any()):
        return []
    worst = int(distance.argmax())
    found, trained = (
        f"{float(m[worst]):.3g} ± {float(s[worst]):.3g}" for m, s in ((moments.mean, moments.std), (mean, scale))
    )
    text = f"channel {worst} of u is {found}, and the operator was trained on {trained}"
    for k in range(len(mean)):
        order = torch.arange(len(mean))
        order[[worst, k]] = order[[k, worst]]
        if k != worst and bool((_distance(moments.mean[order], moments.std[order], mean, scale) <= FAR).all()):
            return [f"{text}; are channels {min(k, worst)} and {max(k, worst)} swapped?"]
    return [f"{text}; check units and the order of channels"]


def _distance(mean: Tensor, deviation: Tensor, trained_mean: Tensor, trained_deviation: Tensor) -> Tensor:
    return ((mean - trained_mean).square() + deviation.square()).sqrt() / trained_deviation


def rough_gradients(h1_median: float | None) -> list[str]:
    """An output that is near the truth and whose gradient is not."""
    if h1_median is None or h1_median <= MOST_H1:
        return []
    remedy = 'train longer or with loss="h1", fewer patches or an overlap'
    return [f"the median relative H1 error is {h1_median:.0%}: the gradients of the output are not learned; {remedy}"]


def modes_beyond(operator: Operator, grid: Grid) -> list[str]:
    """More modes than half the points of a patch, or of D for last layers, along an axis of a tensor product."""
    spectrum = getattr(operator, "spectrum", None)
    if spectrum is None or grid.axes is None:
        return []
    last = max([layer.most_modes for layer in getattr(operator, "last", ())], default=0)
    for k, (n, count, m) in enumerate(zip(grid.shape, operator.partition, spectrum.n_modes, strict=True)):
        points = (n - (grid.kind == "nodes")) // count
        for modes, there, where in ((m, points, "a patch" if count > 1 else "the domain"), (last, n, "the domain")):
            if modes > there / 2:
                return [
                    f"{modes} modes along axis {k}, more than half the {there} points of {where} there: the operator "
                    f"will change with the resolution; use at most {max(1, there // 2)} modes or a finer grid"
                ]
    return []


def few_samples(count: int) -> list[str]:
    """One function says nothing of others."""
    return ["there is one sample to train on: an operator learns that one output; use some hundred"] * (count == 1)
