"""Cost against accuracy (Figures parameter_accuracy and evaluation_cost_accuracy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from operformer.runs.report.figures.style import STYLE, looks, new_figure, percent_ticks, shared_legend


@dataclass(frozen=True)
class Widths:
    """One operator at several widths: what it costs and its median error."""

    name: str
    widths: tuple[int, ...]
    costs: tuple[float, ...]
    errors: tuple[float, ...]


@mpl.rc_context(STYLE)
def tradeoff_figure(panels: Sequence[tuple[str, Sequence[Widths]]], axis: str, note: str = "") -> Figure:
    """Median errors over costs, both logarithmic, the widths of an operator joined; a panel for each problem."""
    figure = new_figure(5.0 * len(panels) + 0.4, 3.9, note)
    for place, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for line, (colour, marker) in zip(lines, looks([line.name for line in lines]), strict=True):
            place.plot(line.costs, line.errors, f"{marker}-", color=colour, ms=6, label=line.name)
            for end in {0, len(line.widths) - 1}:
                at = (line.costs[end], line.errors[end])
                text = place.annotate(str(line.widths[end]), at, (0, 8), textcoords="offset points", ha="center")
                text.set(fontsize=8, color=colour, path_effects=[withStroke(linewidth=3, foreground="white")])
        place.set(xscale="log", yscale="log", xlabel=axis, ylabel="median relative L2 error")
        place.margins(x=0.12, y=0.15)
        percent_ticks(place)
        place.set_title(title, fontsize=10)
    shared_legend(figure)
    return figure
