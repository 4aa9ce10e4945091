"""Figures of many runs from numbers: cost against accuracy, spectra of errors, how errors of rollouts grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from operformer.evaluation.rollout import Rollout
from operformer.evaluation.spectra import ErrorSpectrum
from operformer.runs.report.figures.style import (
    REFERENCE,
    STYLE,
    Look,
    new_figure,
    percent_ticks,
    shared_legend,
)  # fmt: skip

Panel = tuple[str, Sequence[tuple[str, Look, ErrorSpectrum]]]  # a title, and the spectrum of each operator
LEAST = 1e-14  # energies below are rounding


@dataclass(frozen=True)
class Widths:
    """One operator at several widths: what it costs and its median error."""

    name: str
    look: Look
    widths: tuple[int, ...]
    costs: tuple[float, ...]
    errors: tuple[float, ...]


@mpl.rc_context(STYLE)
def tradeoff_figure(panels: Sequence[tuple[str, Sequence[Widths]]], axis: str, note: str = "") -> Figure:
    """Median errors over costs, both logarithmic, the widths of an operator joined; a panel for each problem."""
    figure = new_figure(5.0 * len(panels) + 0.4, 3.9, note)
    for place, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for line in lines:
            colour, marker = line.look
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


@mpl.rc_context(STYLE)
def spectra_figure(panels: Sequence[Panel], note: str = "") -> Figure:
    """The energy of the error by wave number, beside that of the truth; a panel for each problem."""
    figure = new_figure(5.0 * len(panels) + 0.4, 3.9, note)
    for axes, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.set(xscale="log", yscale="log", xlabel="wave number, radians per unit of length")
        axes.set_ylabel("energy, as a share of the truth's")
        axes.plot(*_drawn(lines[0][2].wave_numbers, lines[0][2].truth), color=REFERENCE, lw=3, label="truth")
        for name, (colour, _), spectrum in lines:
            axes.plot(*_drawn(spectrum.wave_numbers, spectrum.error), color=colour, lw=1.6, label=f"error of {name}")
        axes.set_title(title, fontsize=10)
    shared_legend(figure)
    return figure


def _drawn(wave_numbers: Sequence[float], energies: Sequence[float]) -> tuple[list[float], list[float]]:
    """What a logarithmic axis can show."""
    kept = [(k, energy) for k, energy in zip(wave_numbers, energies, strict=True) if k > 0 and energy > LEAST]
    return [k for k, _ in kept], [energy for _, energy in kept]


@mpl.rc_context(STYLE)
def growth_figure(rollouts: Sequence[tuple[str, Look, Rollout]], note: str = "") -> Figure:
    """Median relative L2 errors by time, each operator applied to its own output, beside the forecast of no change."""
    figure = new_figure(6.4, 3.9, note)
    axes = figure.subplots()
    for name, (colour, marker), rollout in rollouts:
        axes.plot(rollout.times, rollout.medians, f"{marker}-", color=colour, ms=5, label=name)
    first = rollouts[0][2]
    axes.plot(first.times, first.persistence_medians, "--", color=REFERENCE, lw=1.6, label="no change")
    axes.set(yscale="log", xlabel="time after the start", ylabel="relative L2 error, median")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, steps=[1, 2, 5, 10]))
    percent_ticks(axes)
    shared_legend(figure)
    return figure
