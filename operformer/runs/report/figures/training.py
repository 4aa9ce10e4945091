"""How trainings went."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from operformer.runs.folder import Run
from operformer.runs.report.figures.style import STYLE, looks_of, new_figure, percent_ticks
from operformer.runs.report.tables import run_names, spoken_operator


@mpl.rc_context(STYLE)
def training_figure(runs: Sequence[Run]) -> Figure:
    """Loss and validation error by epoch."""
    figure = new_figure(7.2, 3.2)
    axes = figure.subplots()
    looks = looks_of([spoken_operator(run.experiment.operator["name"]) for run in runs])
    for run, name, (colour, _) in zip(runs, run_names(runs), looks, strict=True):
        epochs = [record["epoch"] for record in run.metrics]
        axes.plot(epochs, [r["loss"] for r in run.metrics], "-", color=colour, label=f"{name}, loss")
        axes.plot(
            epochs, [r["validation_error"] for r in run.metrics], "o", color=colour, ms=4,
            label=f"{name}, validation",
        )  # fmt: skip
    axes.set(yscale="log", xlabel="epoch", ylabel="relative error")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    percent_ticks(axes)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
