"""How well an operator does on grids it was not trained on: median, mean and worst error (Section 6.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.domain.interpolation import interpolate
from operformer.errors import DivergedError
from operformer.learning.loss import LOSSES, LossName
from operformer.learning.samples import check_samples
from operformer.operators import Operator
from operformer.problems import Pairs, Samples

SHOWN = 64  # points along an axis of a picture


@dataclass(frozen=True)
class Evaluation:
    """The errors of an operator on samples of one grid, and what its median and its worst sample look like."""

    label: str  # what kind of grid
    points: int
    errors: tuple[float, ...]  # relative L2, one for each sample
    median_sample: Curves | Images
    worst_sample: Curves | Images

    @property
    def median(self) -> float:
        """The error that half of the samples stay below."""
        return float(torch.tensor(self.errors, dtype=torch.float64).quantile(0.5))

    @property
    def mean(self) -> float:
        """The average error."""
        return sum(self.errors) / len(self.errors)

    @property
    def worst(self) -> float:
        """The largest error."""
        return max(self.errors)


@dataclass(frozen=True)
class Curves:
    """One sample on an interval: times (N,), and input, truth and prediction as (channels, N)."""

    error: float
    x: list[float]
    u: list[list[float]]
    z: list[list[float]]
    prediction: list[list[float]]


@dataclass(frozen=True)
class Images:
    """One sample on a rectangle: axes x (N,), y (M,), and input, truth and prediction as (channels, N, M).

    At most 64 points of each axis are kept, and of a box the slice in its middle.
    """

    error: float
    x: list[float]
    y: list[float]
    u: list[list[list[float]]]
    z: list[list[list[float]]]
    prediction: list[list[list[float]]]


def evaluate(operator: Operator, samples: Samples, label: str) -> Evaluation:
    """Relative L2 errors on the samples' own grid."""
    check_samples(samples, "test")
    errors = relative_errors(operator, samples)
    order = torch.argsort(errors)
    return Evaluation(
        label,
        samples.grid.weights.numel(),
        tuple(errors.tolist()),
        _look(operator, samples, int(order[(len(order) - 1) // 2]), errors),
        _look(operator, samples, int(order[-1]), errors),
    )


def relative_errors(operator: Operator, samples: Pairs, norm: LossName = "l2", batch_size: int = 64) -> Tensor:
    """||G(u) - z|| / ||z|| for each sample (count,), float64 on the CPU."""
    parts = [
        LOSSES[norm](predict(operator, batch).double(), batch.z.double(), batch.grid).cpu()
        for batch in samples.blocks(batch_size)
    ]
    errors = torch.cat(parts)
    if not bool(torch.isfinite(errors).all()):
        raise DivergedError(
            f"the operator's output on sample {int((~torch.isfinite(errors)).nonzero()[0])} is not finite"
        )
    return errors


@torch.no_grad()
def predict(operator: Operator, samples: Samples) -> Tensor:
    """G(u) on the samples' grid, in the operator's precision and on its device."""
    operator.eval()
    return operator(samples.u.to(operator.input_mean), samples.grid).to(samples.z.device)


def _look(operator: Operator, samples: Samples, index: int, errors: Tensor) -> Curves | Images:
    one = samples[index : index + 1].to("cpu")
    prediction = predict(operator, samples[index : index + 1]).cpu()
    functions = (one.u[0], one.z[0], prediction[0])
    if one.grid.dim == 1:
        order = torch.argsort(one.grid.points[:, 0])
        x = one.grid.points[:, 0][order].tolist()
        u, z, found = (values[:, order].tolist() for values in functions)
        return Curves(float(errors[index]), x, u, z, found)
    return _images(float(errors[index]), functions, one.grid)


def _images(error: float, functions: tuple[Tensor, ...], grid: Grid) -> Images:
    """Points that are kept, of scattered ones the values of the nearest on a raster."""
    if grid.axes is None:
        raster = Grid.uniform((SHOWN,) * grid.dim, bounds=grid.bounds, kind="cells")
        functions = tuple(interpolate(values.double(), grid, raster) for values in functions)
        grid = raster
    if grid.dim == 3:
        functions = tuple(values[..., values.shape[-1] // 2] for values in functions)
    orders = [axis.argsort()[:: -(-len(axis) // SHOWN)] for axis in (grid.axes or ())[:2]]
    x, y = (axis[order].tolist() for axis, order in zip(grid.axes or (), orders, strict=False))
    u, z, found = (values[:, orders[0]][:, :, orders[1]].tolist() for values in functions)
    return Images(error, x, y, u, z, found)
