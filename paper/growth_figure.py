"""How the error of a rollout grows."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from operformer.evaluation.rollout import Rollout
from operformer.runs.report.figures.style import REFERENCE, STYLE, looks, new_figure, percent_ticks, shared_legend


@mpl.rc_context(STYLE)
def growth_figure(rollouts: Sequence[tuple[str, Rollout]], note: str = "") -> Figure:
    """Median relative L2 errors by time, each operator applied to its own output, beside the forecast of no change."""
    figure = new_figure(6.4, 3.9, note)
    axes = figure.subplots()
    for (name, rollout), (colour, marker) in zip(rollouts, looks([name for name, _ in rollouts]), strict=True):
        axes.plot(rollout.times, rollout.medians, f"{marker}-", color=colour, ms=5, label=name)
    first = rollouts[0][1]
    axes.plot(first.times, first.persistence_medians, "--", color=REFERENCE, lw=1.6, label="no change")
    axes.set(yscale="log", xlabel="time after the start", ylabel="relative L2 error, median")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, steps=[1, 2, 5, 10]))
    percent_ticks(axes)
    shared_legend(figure)
    return figure
