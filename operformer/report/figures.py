"""The figures of Section 6.1, drawn from the record of a run: samples, error against resolution, irregular grids."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from operformer.learning.evaluation import Curves, Evaluation, Images
from operformer.report.tables import percent, run_names
from operformer.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRUTH, PREDICTION, INPUT = "#1a1a1a", "#c2410c", "#475569"
ERRORS = ("#7c3aed", "#0891b2", "#b45309")
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
    """The test samples of median and of worst error on a grid: input, truth, prediction, error (Figure xtoyz)."""
    evaluation = run.evaluation(label)
    outputs = _output_names(run, evaluation)
    if isinstance(evaluation.median_sample, Images):
        return _images_figure(run, evaluation)
    names = [_input_name(run), *outputs, "error"]
    figure = _figure(9.0, 1.7 * len(names) + 0.5)
    axes = figure.subplots(len(names), 2, sharex=True, sharey="row", squeeze=False)
    for column, (name, sample) in enumerate((("median", evaluation.median_sample), ("worst", evaluation.worst_sample))):
        if isinstance(sample, Curves):
            _draw_sample(axes[:, column], sample, outputs, marked=not label.endswith("x"))
        axes[0, column].set_title(f"{name} error, {percent(sample.error)}", fontsize=10)
        axes[-1, column].set_xlabel("t")
    for row, name in enumerate(names):
        axes[row, 0].set_ylabel(name)
    lines = axes[1, 0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper right", ncols=2, fontsize=9)
    return figure


@mpl.rc_context(STYLE)
def resolution_figure(runs: Sequence[Run]) -> Figure:
    """Relative L2 error against the number of points, without retraining (Figure superresolution_1d)."""
    figure = _figure(8.4, 3.8)
    axes = figure.subplots()
    for run, name, colour in zip(runs, run_names(runs), cycle(RUNS), strict=False):
        uniform = [e for e in run.evaluations if e.label.endswith("x")]
        points = [e.points for e in uniform]
        low, high = ([_quantile(e, q) for e in uniform] for q in (0.1, 0.9))
        axes.fill_between(points, low, high, color=colour, alpha=0.12, lw=0)
        axes.plot(points, [e.median for e in uniform], "o-", color=colour, label=f"{name}, median")
        axes.plot(points, [e.worst for e in uniform], "v:", color=colour, ms=5, lw=1, label=f"{name}, worst")
        for label, marker in (("irregular", "D"), ("graded", "s")):
            for there in (e for e in run.evaluations if e.label == label):
                style: dict[str, Any] = {
                    "color": colour,
                    "mfc": "white",
                    "mew": 1.6,
                    "ms": 8,
                    "ls": "none",
                    "marker": marker,
                }
                axes.plot([there.points], [there.median], label=f"{name}, {label} grid, median", **style)
    trained = runs[0].evaluation("1x").points
    axes.axvline(trained, color="#94a3b8", lw=1, ls="--", zorder=0)
    axes.set(xscale="log", yscale="log", xlabel=f"number of points (trained on {trained})", ylabel="relative L2 error")
    ticks = [e.points for e in runs[0].evaluations if e.label.endswith("x")]
    axes.set_xticks(ticks, [str(t) for t in ticks], minor=False)
    axes.xaxis.set_minor_locator(NullLocator())
    _percent_ticks(axes)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@mpl.rc_context(STYLE)
def training_figure(runs: Sequence[Run]) -> Figure:
    """Loss and validation error by epoch."""
    figure = _figure(7.2, 3.2)
    axes = figure.subplots()
    for run, name, colour in zip(runs, run_names(runs), cycle(RUNS), strict=False):
        epochs = [record["epoch"] for record in run.metrics]
        axes.plot(epochs, [r["loss"] for r in run.metrics], "-", color=colour, label=f"{name}, loss")
        axes.plot(
            epochs, [r["validation_error"] for r in run.metrics], "o", color=colour, ms=4,
            label=f"{name}, validation",
        )  # fmt: skip
    axes.set(yscale="log", xlabel="epoch", ylabel="relative error")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _percent_ticks(axes)
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
    return Figure(figsize=(width, height), layout="constrained")


def _draw_sample(axes: Any, sample: Curves, outputs: Sequence[str], marked: bool) -> None:
    dots: dict[str, Any] = {"marker": ".", "ms": 3} if marked else {}
    axes[0].plot(sample.x, sample.u[0], color=INPUT, lw=1.2, **dots)
    for row, name in enumerate(outputs):
        truth, prediction = sample.z[row], sample.prediction[row]
        axes[1 + row].plot(sample.x, truth, color=TRUTH, lw=1.4, label="truth")
        axes[1 + row].plot(sample.x, prediction, "--", color=PREDICTION, lw=1.4, label="prediction", **dots)
        error = [p - t for p, t in zip(prediction, truth, strict=True)]
        axes[-1].plot(sample.x, error, color=ERRORS[row % len(ERRORS)], lw=1.2, label=name, **dots)
    if len(outputs) > 1:
        axes[-1].legend(fontsize=8, loc="lower left", ncols=len(outputs))


def _images_figure(run: Run, evaluation: Evaluation) -> Figure:
    """Input, truth, prediction and the logarithm of the error side by side, median above worst."""
    problem = run.experiment.problem
    titles = [f"input, {problem.input_names[0]}"]
    for name in problem.output_names:
        titles += [f"{name}, truth", "prediction", "log10 of the error"]
    figure = _figure(2.5 * len(titles), 4.4)
    axes = figure.subplots(2, len(titles), squeeze=False)
    for row, (name, sample) in zip(
        axes, (("median", evaluation.median_sample), ("worst", evaluation.worst_sample)), strict=True
    ):
        if isinstance(sample, Images):
            _draw_images(figure, row, sample)
            row[0].set_ylabel(f"{name} error, {percent(sample.error)}")
    for place, title in zip(axes[0], titles, strict=True):
        place.set_title(title, fontsize=10)
    return figure


def _draw_images(figure: Figure, axes: Any, sample: Images) -> None:
    pictures: list[tuple[list[list[float]], tuple[float, float] | None, str]] = [(sample.u[0], None, "viridis")]
    for truth, prediction in zip(sample.z, sample.prediction, strict=True):
        z, found = torch.tensor(truth), torch.tensor(prediction)
        span = (float(z.min()), float(z.max()))
        error = (found - z).abs().clamp(min=1e-12).log10()
        pictures += [(truth, span, "viridis"), (prediction, span, "viridis"), (error.tolist(), None, "magma")]
    for place, (values, limits, colours) in zip(axes, pictures, strict=True):
        lowest, highest = limits or (None, None)
        image = place.pcolormesh(
            sample.x, sample.y, torch.tensor(values).T, vmin=lowest, vmax=highest, cmap=colours, rasterized=True
        )  # fmt: skip
        place.set(xticks=[], yticks=[], aspect="equal")
        place.grid(visible=False)
        figure.colorbar(image, ax=place, shrink=0.7)


def _output_names(run: Run, evaluation: Evaluation) -> list[str]:
    named = getattr(run.experiment.problem, "recover", None)
    count = len(evaluation.median_sample.z)
    return list(named) if named else [f"output z{k + 1}" if count > 1 else "output z" for k in range(count)]


def _input_name(run: Run) -> str:
    return "input x" if hasattr(run.experiment.problem, "recover") else "input u"


def _percent_ticks(axes: Axes) -> None:
    """Errors as percentages on a logarithmic axis, also where it spans less than a decade."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 8)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.yaxis.set_minor_locator(NullLocator())


def _quantile(evaluation: Evaluation, q: float) -> float:
    return float(torch.tensor(evaluation.errors, dtype=torch.float64).quantile(q))
