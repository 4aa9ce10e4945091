"""The figures of Section 6.1, drawn from the record of a run: samples, error against resolution, irregular grids."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import torch

from operformer.learning.evaluation import Curves, Evaluation
from operformer.report.tables import operator_name
from operformer.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRUTH, PREDICTION, INPUT = "#1a1a1a", "#c2410c", "#475569"
RUNS = ("#1d4ed8", "#d97706", "#047857", "#7c3aed")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e2e8f0",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "operformer",
}


@mpl.rc_context(STYLE)
def samples_figure(run: Run, label: str) -> Figure:
    """The test samples of median and of worst error on a grid: input, truth and prediction (Figure xtoyz)."""
    evaluation = run.evaluation(label)
    outputs = _output_names(run, evaluation)
    figure = _figure(9.0, 1.9 * (1 + len(outputs)) + 0.4)
    axes = figure.subplots(1 + len(outputs), 2, sharex=True, sharey="row", squeeze=False)
    for column, (name, sample) in enumerate((("median", evaluation.median_sample), ("worst", evaluation.worst_sample))):
        _draw_sample(axes[:, column], sample, outputs, marked=not label.endswith("x"))
        axes[0, column].set_title(f"{name} error, {sample.error:.2%}", fontsize=10)
        axes[-1, column].set_xlabel("t")
    _input_label(axes[0, 0], run)
    for row, output in enumerate(outputs):
        axes[1 + row, 0].set_ylabel(output)
    axes[1, 1].legend(loc="upper right", fontsize=9)
    return figure


@mpl.rc_context(STYLE)
def resolution_figure(runs: Sequence[Run]) -> Figure:
    """Relative L2 error against the number of points, without retraining (Figure superresolution_1d)."""
    figure = _figure(7.2, 3.8)
    axes = figure.subplots()
    for run, colour in zip(runs, RUNS, strict=False):
        uniform = [e for e in run.evaluations if e.label.endswith("x")]
        points = [e.points for e in uniform]
        low, high = ([_quantile(e, q) for e in uniform] for q in (0.1, 0.9))
        axes.fill_between(points, low, high, color=colour, alpha=0.12, lw=0)
        axes.plot(points, [e.median for e in uniform], "o-", color=colour, label=f"{operator_name(run)}, median")
        axes.plot(
            points, [e.worst for e in uniform], "v:", color=colour, ms=5, lw=1, label=f"{operator_name(run)}, worst"
        )
        for label, marker in (("irregular", "D"), ("graded", "s")):
            there = [e for e in run.evaluations if e.label == label]
            axes.plot(
                [e.points for e in there],
                [e.median for e in there],
                marker,
                color=colour,
                mfc="white",
                mew=1.6,
                ms=8,
                label=f"{operator_name(run)}, {label} grid, median" if there else None,
            )
    trained = runs[0].evaluation("1x").points
    axes.axvline(trained, color="#94a3b8", lw=1, ls="--")
    axes.annotate(
        "training grid", (trained, 1), (4, -10), xycoords=("data", "axes fraction"), textcoords="offset points"
    )
    axes.set(xscale="log", yscale="log", xlabel="number of points", ylabel="relative L2 error")
    ticks = [e.points for e in runs[0].evaluations if e.label.endswith("x")]
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@mpl.rc_context(STYLE)
def training_figure(runs: Sequence[Run]) -> Figure:
    """Loss and validation error by epoch."""
    figure = _figure(7.2, 3.2)
    axes = figure.subplots()
    for run, colour in zip(runs, RUNS, strict=False):
        epochs = [record["epoch"] for record in run.metrics]
        axes.plot(epochs, [r["loss"] for r in run.metrics], "-", color=colour, label=f"{operator_name(run)}, loss")
        axes.plot(
            epochs, [r["validation_error"] for r in run.metrics], "o", color=colour, ms=4,
            label=f"{operator_name(run)}, validation",
        )  # fmt: skip
    axes.set(yscale="log", xlabel="epoch", ylabel="relative error")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@mpl.rc_context(STYLE)
def to_svg(figure: Figure) -> str:
    """The figure as the text of an SVG picture, the same for the same figure."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    return buffer.getvalue()


def _figure(width: float, height: float) -> Figure:
    """A figure of its own, outside of pyplot's list of open ones."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _draw_sample(axes: Any, sample: Curves, outputs: Sequence[str], marked: bool) -> None:
    dots: dict[str, Any] = {"marker": ".", "ms": 3} if marked else {}
    axes[0].plot(sample.x, sample.u[0], color=INPUT, lw=1.2, **dots)
    for row in range(len(outputs)):
        axes[1 + row].plot(sample.x, sample.z[row], color=TRUTH, lw=1.4, label="truth")
        axes[1 + row].plot(sample.x, sample.prediction[row], "--", color=PREDICTION, lw=1.4, label="prediction", **dots)


def _output_names(run: Run, evaluation: Evaluation) -> list[str]:
    named = getattr(run.experiment.problem, "recover", None)
    return list(named) if named else [f"z{k}" for k in range(len(evaluation.median_sample.z))]


def _input_label(axes: Axes, run: Run) -> None:
    axes.set_ylabel("input x" if hasattr(run.experiment.problem, "recover") else "input u")


def _quantile(evaluation: Evaluation, q: float) -> float:
    return float(torch.tensor(evaluation.errors, dtype=torch.float64).quantile(q))
