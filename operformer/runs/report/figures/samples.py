"""The test samples of median and of worst error: input, truth, prediction, error (Figures xtoyz to FANO_NS_samples)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from torch import Tensor

from operformer.evaluation.errors import Curves, Images, Look, Triangles
from operformer.problems import Problem
from operformer.runs.folder import Run
from operformer.runs.report.figures.style import INPUT, PREDICTION, STYLE, TRUTH, new_figure
from operformer.runs.report.tables import percent
from operformer.text import drawn

ERRORS = ("#7c3aed", "#0891b2", "#b45309")
FLOOR = 1e-12  # of an error whose logarithm is drawn
Plane = Images | Triangles


def samples_figure(run: Run, label: str) -> Figure:
    """The two samples of a run on one of its grids."""
    evaluation = run.evaluation(label)
    return pair_figure(evaluation.median_sample, evaluation.worst_sample, run.experiment.problem, label)


def pair_figure(median: Look, worst: Look, problem: Problem, label: str, note: str = "") -> Figure:
    """The two samples side by side, or above each other where they are images."""
    if isinstance(median, Plane) and isinstance(worst, Plane):
        return images_figure(median, worst, problem, note)
    if isinstance(median, Curves) and isinstance(worst, Curves):
        return curves_figure(median, worst, problem, is_marked=not label.endswith("x"), note=note)
    raise TypeError("the median and the worst sample are of different kinds")


@mpl.rc_context(STYLE)
def curves_figure(median: Curves, worst: Curves, problem: Problem, is_marked: bool = False, note: str = "") -> Figure:
    """Input above outputs above error, the median sample left of the worst."""
    outputs = _output_names(problem, len(median.z))
    own = "x" if hasattr(problem, "recover") else "u" if problem.has_law else drawn(problem.labels[0][0])
    names = [f"input {own}", *outputs, "error"]
    figure = new_figure(9.0, 1.7 * len(names) + 0.5, note)
    axes = figure.subplots(len(names), 2, sharex=True, sharey="row", squeeze=False)
    for column, (name, sample) in enumerate((("median", median), ("worst", worst))):
        _draw_curves(axes[:, column], sample, outputs, is_marked)
        axes[0, column].set_title(f"{name} error, {percent(sample.error)}", fontsize=10)
        axes[-1, column].set_xlabel("t")
    for row, name in enumerate(names):
        axes[row, 0].set_ylabel(name)
    lines = axes[1, 0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center" if note else "outside upper right", ncols=2, fontsize=9)
    return figure


@mpl.rc_context(STYLE)
def images_figure(median: Plane, worst: Plane, problem: Problem, note: str = "") -> Figure:
    """Input, truth, prediction and the logarithm of the error side by side, median above worst.

    Where input and output are one field at two times, its change in place of truth and prediction, as in the paper.
    """
    is_flow = problem.times is not None
    inputs, named = problem.labels
    titles = [f"input, {_spoken(drawn(inputs[0]))}"]
    for name in map(drawn, named):
        titles += ["|truth - input|", "|prediction - input|"] if is_flow else [f"{name}, truth", "prediction"]
        titles += ["log10 of the error"]
    figure = new_figure(2.6 * len(titles), 4.6, note)
    axes = figure.subplots(2, len(titles), squeeze=False)
    for row, (name, sample) in zip(axes, (("median", median), ("worst", worst)), strict=True):
        _draw_images(figure, row, sample, is_flow)
        row[0].set_ylabel(f"{name} error, {percent(sample.error)}")
    for place, title in zip(axes[0], titles, strict=True):
        place.set_title(title, fontsize=10)
    return figure


def _draw_curves(axes: Any, sample: Curves, outputs: Sequence[str], is_marked: bool) -> None:
    dots: dict[str, Any] = {"marker": ".", "ms": 3} if is_marked else {}
    axes[0].plot(sample.x, sample.u[0], color=INPUT, lw=1.2, **dots)
    for row, name in enumerate(outputs):
        truth, prediction = sample.z[row], sample.prediction[row]
        axes[1 + row].plot(sample.x, truth, color=TRUTH, lw=1.4, label="truth")
        axes[1 + row].plot(sample.x, prediction, "--", color=PREDICTION, lw=1.4, label="prediction", **dots)
        error = [p - t for p, t in zip(prediction, truth, strict=True)]
        axes[-1].plot(sample.x, error, color=ERRORS[row % len(ERRORS)], lw=1.2, label=name, **dots)
    if len(outputs) > 1:
        axes[-1].legend(fontsize=8, loc="best", ncols=len(outputs))


def _draw_images(figure: Figure, axes: Any, sample: Plane, is_flow: bool) -> None:
    u = torch.tensor(sample.u[0])
    pictures: list[tuple[Tensor, tuple[float | None, float | None], str]] = [(u, (None, None), "viridis")]
    for truth, prediction in zip(torch.tensor(sample.z), torch.tensor(sample.prediction), strict=True):
        error = (prediction - truth).abs().clamp(min=FLOOR).log10()
        shown = [(truth - u).abs(), (prediction - u).abs()] if is_flow else [truth, prediction]
        span = (float(shown[0].min()), float(shown[0].max()))  # of the truth, for both
        pictures += [(values, span, "viridis") for values in shown] + [(error, (None, None), "magma")]
    for place, (values, (lowest, highest), colours) in zip(axes, pictures, strict=True):
        how: dict[str, Any] = {"vmin": lowest, "vmax": highest, "cmap": colours, "rasterized": True}
        if isinstance(sample, Triangles):
            x, y = zip(*sample.points, strict=True)
            image = place.tripcolor(x, y, values, triangles=sample.corners, shading="gouraud", **how)
        else:
            image = place.pcolormesh(sample.x, sample.y, values.T, **how)
        place.set(xticks=[], yticks=[], aspect="equal")
        place.grid(visible=False)
        scale = figure.colorbar(image, ax=place, shrink=0.85)
        scale.ax.ticklabel_format(axis="y", style="sci", scilimits=(-2, 4))


def _output_names(problem: Problem, count: int) -> list[str]:
    named = getattr(problem, "recover", None) or (() if problem.has_law else map(drawn, problem.labels[1]))
    return list(named) or [f"output z{k + 1}" if count > 1 else "output z" for k in range(count)]


def _spoken(name: str) -> str:
    return "vorticity" if name.startswith("vorticity_") else name
