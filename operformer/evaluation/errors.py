"""How well an operator does on grids it was not trained on: errors in L2 and H1, by wave number, at faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from statistics import median

import torch
from torch import Tensor, nn

from operformer.checking import checked
from operformer.domain import Pairs, Samples
from operformer.domain.samples import check_samples, larger_grid, z_grid
from operformer.errors import DivergedError
from operformer.evaluation.cautions import rough_gradients, unlike_training, warn
from operformer.evaluation.face_jumps import FaceJumps, JumpMean
from operformer.evaluation.loss import LOSSES, LossName, relative_h1, relative_l2
from operformer.evaluation.pictures import cut, on_one_grid
from operformer.evaluation.prediction import together
from operformer.evaluation.spectra import ErrorSpectrum, SpectrumMean
from operformer.evaluation.standard import Outputs
from operformer.operators.operator import Operator, applied, check_takes_functions, computes_in

OTHER_SET = "(set)"  # ends the label of a set that is not the run's own
SHOWN = 64  # points along an axis of a picture
MOST_TRIANGLES = 20_000  # of a mesh in a picture; larger ones are read on as many points as others


@dataclass(frozen=True)
class Summary:
    """The error that half of the samples stay below, the average error, and the largest."""

    median: float
    mean: float
    worst: float


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The errors of an operator on samples of one grid, and what its median and its worst sample look like.

    ``h1_errors`` is empty where points have no neighbours (scattered ones); ``spectrum`` is None where they are not
    equispaced, and ``jumps`` also where there is no partition. ``standardised_errors`` is empty where mean and
    deviation of the training samples are not known.
    """

    label: str  # what kind of grid
    points: int
    errors: tuple[float, ...]  # relative L2, one for each sample
    median_sample: Look
    worst_sample: Look
    h1_errors: tuple[float, ...] = ()  # relative H1
    spectrum: ErrorSpectrum | None = None
    jumps: FaceJumps | None = None
    standardised_errors: tuple[float, ...] = ()  # relative L2 of standardised outputs
    weights: str = ""  # the hash of those it was made from, as `load_hashed` gives it; empty if that is not known

    def __repr__(self) -> str:
        norms = [("L2", self.l2), *([("H1", self.h1)] if self.h1 else [])]
        said = "; ".join(
            f"{name} error median {one.median:.3g}, mean {one.mean:.3g}, worst {one.worst:.3g}" for name, one in norms
        )
        return f"Evaluation({self.label}: {said}; {len(self.errors)} samples on {self.points} points)"

    @property
    def median(self) -> float:
        """The L2 error that half of the samples stay below."""
        return self.l2.median

    @property
    def mean(self) -> float:
        """The average L2 error."""
        return self.l2.mean

    @property
    def worst(self) -> float:
        """The largest L2 error."""
        return self.l2.worst

    @property
    def l2(self) -> Summary:
        """The relative errors in L2(D)."""
        return summarise(self.errors)

    @property
    def h1(self) -> Summary | None:
        """The relative errors in H1(D), where there are any."""
        return summarise(self.h1_errors) if self.h1_errors else None

    @property
    def standardised(self) -> Summary | None:
        """The relative L2 errors of standardised outputs, where they are known."""
        return summarise(self.standardised_errors) if self.standardised_errors else None


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


@dataclass(frozen=True)
class Triangles:
    """One sample on a mesh in the plane: points (N, 2), corners (M, 3), and functions as (channels, N)."""

    error: float
    points: list[list[float]]
    corners: list[list[int]]
    u: list[list[float]]
    z: list[list[float]]
    prediction: list[list[float]]


Look = Curves | Images | Triangles


@checked
def evaluate(
    operator: nn.Module,
    samples: Samples,
    label: str = "test samples",
    is_periodic: bool = False,
    n_patches: Sequence[int] | None = None,
    outputs: Outputs | None = None,
) -> Evaluation:
    """The operator's relative errors on samples it was not trained on, weighted by their grid.

    Args:
        operator: an operator; another library's module inside `operformer.sharing.neuralop.UniformOnly`.
        samples: test samples, on any grid that the operator takes; errors are those on the query, if they have one.
        label: what tables call the grid.
        is_periodic: whether u and z are periodic, for derivatives and spectra.
        n_patches: the partition whose faces are examined; the operator's own if not given.
        outputs: mean and deviation of the training samples' outputs, for errors in standardised units;
            ``Outputs.of(samples)`` finds them.

    Returns:
        ``median``, ``mean`` and ``worst`` of the L2 errors, the same in H1 where the grid allows it, every single
        error, and the samples of median and worst error.

    Example:
        >>> u = torch.rand(5, 1, 16)
        >>> operator = TNO(dim=1, in_channels=1, out_channels=1, hidden_channels=8, n_layers=1, n_heads=2)
        >>> 0 < evaluate(operator, Samples(u, u.cumsum(-1), Grid.uniform(16))).median < 10
        True
    """
    check_samples(samples, "test")
    check_takes_functions(operator, samples.query)
    found = predictions(operator, samples)
    done = assess(found, samples, label, is_periodic, n_patches or partition(operator), outputs)
    if isinstance(operator, Operator):
        warn(unlike_training(operator, samples.u, samples.grid))
    warn(rough_gradients(done.h1.median if done.h1 else None))
    return done


def assess(
    prediction: Tensor,
    samples: Samples,
    label: str,
    is_periodic: bool = False,
    n_patches: Sequence[int] | None = None,
    outputs: Outputs | None = None,
) -> Evaluation:
    """The errors of predictions (count, channels, *shape), some samples at a time.

    ``is_periodic`` is said of the functions, which a grid of cells does not know; ``n_patches`` is the partition whose
    faces are looked at.
    """
    grid = z_grid(samples)
    l2, h1, standardised = [], [], []
    spectrum, jumps = SpectrumMean(grid, is_periodic), JumpMean(grid, n_patches)
    for block, found in zip(
        samples.blocks(size := together(larger_grid(samples))), prediction.split(size), strict=True
    ):
        found, z, there = found.double(), block.z.double(), z_grid(block)
        l2.append(relative_l2(found, z, there))
        if outputs is not None:
            standardised.append(relative_l2(outputs.standardise(found), outputs.standardise(z), there))
        if grid.has_neighbours:
            h1.append(relative_h1(found, z, there))
        spectrum.add(found, z)
        jumps.add(found, z)
    errors = _finite(torch.cat(l2).cpu())
    order = torch.argsort(errors)
    return Evaluation(
        label,
        prod(grid.shape),
        tuple(errors.tolist()),
        _look(prediction, samples, int(order[(len(order) - 1) // 2]), errors),
        _look(prediction, samples, int(order[-1]), errors),
        tuple(torch.cat(h1).tolist()) if h1 else (),
        spectrum.mean(),
        jumps.mean(),
        tuple(torch.cat(standardised).tolist()) if standardised else (),
    )


def predictions(operator: nn.Module, samples: Samples) -> Tensor:
    """G(u) for all samples, some at a time: (count, channels, *shape)."""
    return torch.cat([predict(operator, block) for block in samples.blocks(together(larger_grid(samples)))])


def relative_errors(
    operator: nn.Module, samples: Pairs, norm: LossName = "l2", batch_size: int | None = None
) -> Tensor:
    """||G(u) - z|| / ||z|| for each sample (count,), float64 on the CPU."""
    parts = [
        LOSSES[norm](predict(operator, batch).double(), batch.z.double(), z_grid(batch)).cpu()
        for batch in samples.blocks(batch_size or together(larger_grid(samples)))
    ]
    return _finite(torch.cat(parts))


@torch.no_grad()
def predict(operator: nn.Module, samples: Samples) -> Tensor:
    """G(u) where the samples' outputs are known, in the operator's precision and on its device."""
    operator.eval()
    return applied(operator, samples.u.to(computes_in(operator)), samples).to(samples.z.device)


def partition(operator: nn.Module) -> tuple[int, ...] | None:
    """The patches along each axis of an operator that has patches."""
    return getattr(operator, "n_patches", None)


def summarise(errors: Sequence[float]) -> Summary:
    """Median, mean and worst of some errors."""
    return Summary(median(errors), sum(errors) / len(errors), max(errors))


def _finite(errors: Tensor) -> Tensor:
    if not bool(torch.isfinite(errors).all()):
        raise DivergedError(
            f"the operator's output on sample {int((~torch.isfinite(errors)).nonzero()[0])} is not finite"
        )
    return errors


def _look(prediction: Tensor, samples: Samples, index: int, errors: Tensor) -> Look:
    one, error = on_one_grid(samples[index : index + 1].to("cpu")), float(errors[index])
    most = SHOWN if one.grid.dim > 1 else prod(one.grid.shape)
    values = [one.u[0], one.z[0], prediction[index].cpu()]
    if one.grid.counts is not None:
        values = [value[:, : one.grid.counts[0]] for value in values]
    grid = one.grid.of_sample(0)
    if grid.cells and grid.dim == 2 and len(grid.cells[0].corners) <= MOST_TRIANGLES:
        mesh = grid.points.tolist(), grid.cells[0].corners.tolist()
        return Triangles(error, *mesh, *(value.tolist() for value in values))
    axes, functions = cut(values, grid, most)
    u, z, found = (values.tolist() for values in functions)
    if len(axes) == 1:
        return Curves(error, axes[0].tolist(), u, z, found)
    return Images(error, axes[0].tolist(), axes[1].tolist(), u, z, found)
