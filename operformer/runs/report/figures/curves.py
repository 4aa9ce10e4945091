"""Errors as curves: against the resolution, on other grids, and by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from operformer.runs.folder import Run
from operformer.runs.report.figures.style import (
    REFERENCE,
    STYLE,
    Look,
    looks_of,
    new_figure,
    percent_ticks,
    shared_legend,
)
from operformer.runs.report.tables import run_names, spoken_operator
from operformer.text import drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes


from matplotlib.ticker import MaxNLocator


@dataclass(frozen=True)
class Line:
    """The errors of one run: at each resolution those of all samples; its colour and marker."""

    name: str
    look: Look
    resolutions: tuple[int, ...]
    errors: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Panel:
    """Operators of one problem, and the resolution that they were trained at."""

    title: str
    lines: tuple[Line, ...]
    trained: int
    axis: str = "points along each axis"


@mpl.rc_context(STYLE)
def resolution_panels(panels: Sequence[Panel], note: str = "") -> Figure:
    """Medians with a band that holds 80 % of the samples, the training resolution marked; a panel for each problem."""
    figure = new_figure(5.0 * len(panels) + 0.4, 3.9, note)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for line in panel.lines:
            colour, marker = line.look
            _band(axes, line.resolutions, line.errors, colour)
            medians = [_quantile(errors, 0.5) for errors in line.errors]
            axes.plot(line.resolutions, medians, f"{marker}-", color=colour, ms=6, label=line.name)
        ticks = sorted({n for line in panel.lines for n in line.resolutions})
        _finish(axes, ticks, panel.trained)
        axes.set(xlabel=f"{panel.axis} (trained on {panel.trained})", ylabel="relative L2 error")
        axes.set_title(panel.title, fontsize=10)
    shared_legend(figure)
    return figure


@mpl.rc_context(STYLE)
def resolution_figure(runs: Sequence[Run]) -> Figure:
    """Relative L2 error of runs against the number of points, irregular grids among them."""
    figure = new_figure(8.4, 3.8)
    axes = figure.subplots()
    looks = looks_of([spoken_operator(run.experiment.operator["name"]) for run in runs])
    for run, name, (colour, _) in zip(runs, map(drawn, run_names(runs)), looks, strict=True):
        uniform = [e for e in run.evaluations if e.label.endswith("x")]
        points = [e.points for e in uniform]
        _band(axes, points, [e.errors for e in uniform], colour)
        axes.plot(points, [e.median for e in uniform], "o-", color=colour, label=f"{name}, median")
        axes.plot(points, [e.worst for e in uniform], "v:", color=colour, ms=5, lw=1, label=f"{name}, worst")
        hollow: dict[str, Any] = {"color": colour, "mfc": "white", "mew": 1.6, "ms": 8, "ls": "none"}
        for label, marker in (("irregular", "D"), ("graded", "s")):
            for there in (e for e in run.evaluations if e.label == label):
                text = f"{name}, {label} grid, median"
                axes.plot([there.points], [there.median], marker=marker, label=text, **hollow)
    trained = runs[0].evaluation("1x").points
    _finish(axes, [e.points for e in runs[0].evaluations if e.label.endswith("x")], trained)
    axes.set(xlabel=f"number of points (trained on {trained})", ylabel="relative L2 error")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _band(axes: Axes, x: Sequence[int], errors: Sequence[Sequence[float]], colour: str) -> None:
    low, high = ([_quantile(there, q) for there in errors] for q in (0.1, 0.9))
    axes.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)


def _finish(axes: Axes, ticks: Sequence[int], trained: int) -> None:
    axes.axvline(trained, color=REFERENCE, lw=1, ls="--", zorder=0)
    axes.set_xscale("log")
    axes.set_xticks(ticks, [str(tick) for tick in ticks], minor=False)
    axes.xaxis.set_minor_locator(NullLocator())
    _log_errors(axes)


def _log_errors(axes: Axes) -> None:
    """A logarithmic axis in per cent, unless every error is zero."""
    drawn_lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    if any((np.asarray(line.get_ydata()) > 0).any() for line in drawn_lines):
        axes.set_yscale("log")
        percent_ticks(axes)


def _quantile(errors: Sequence[float], q: float) -> float:
    return float(torch.tensor(errors, dtype=torch.float64).quantile(q))


@mpl.rc_context(STYLE)
def training_figure(runs: Sequence[Run]) -> Figure:
    """Loss and validation error by epoch."""
    figure = new_figure(7.2, 3.2)
    axes = figure.subplots()
    looks = looks_of([spoken_operator(run.experiment.operator["name"]) for run in runs])
    for run, name, (colour, _) in zip(runs, map(drawn, run_names(runs)), looks, strict=True):
        epochs = [record["epoch"] for record in run.metrics]
        axes.plot(epochs, [r["loss"] for r in run.metrics], "-", color=colour, label=f"{name}, loss")
        axes.plot(
            epochs, [r["validation_error"] for r in run.metrics], "o", color=colour, ms=4,
            label=f"{name}, validation",
        )  # fmt: skip
    axes.set(xlabel="epoch", ylabel="relative error")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _log_errors(axes)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
