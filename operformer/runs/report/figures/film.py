"""A rollout over time: its error by step, and one trajectory, true and rolled out."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from operformer.evaluation.rollout import Film, Rollout
from operformer.runs.report.figures.style import PREDICTION, REFERENCE, STYLE, new_figure, percent_ticks

ROWS = ("truth", "rollout", "rollout - truth")


@mpl.rc_context(STYLE)
def rollout_figure(rollout: Rollout) -> Figure:
    """Errors by step; of the sample of median error its film, on a line time against x, in the plane some moments."""
    film = rollout.film
    figure = new_figure(9.0, 3.0 if film is None else 5.6 if not film.y else 8.4)
    if film is None:
        _errors(figure.subplots(), rollout)
        return figure
    parts: Any = figure.subfigures(2, 1, height_ratios=(1, 1) if not film.y else (1, 2))
    _errors(parts[0].subplots(), rollout)
    _film(parts[1], film)
    return figure


def _errors(axes: Any, rollout: Rollout) -> None:
    axes.plot(rollout.times, rollout.means, color=PREDICTION, label="mean of the rollouts (nRMSE)")
    axes.plot(rollout.times, rollout.worst, ":", color=PREDICTION, lw=1, label="worst")
    if rollout.variance_errors:
        axes.plot(rollout.times, rollout.variance_means, "--", color=PREDICTION, lw=1, label="mean, VRMSE")
    axes.plot(rollout.times, rollout.persistence_medians, color=REFERENCE, label="if nothing changed, median")
    axes.set(xlabel="time since the start", ylabel="relative error")
    axes.set_yscale("log")
    percent_ticks(axes)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _film(figure: Any, film: Film) -> None:
    truth, ours = np.asarray(film.truth), np.asarray(film.rollout)
    off = ours - truth
    most = float(np.abs(off).max()) or 1.0
    spans = [(float(truth.min()), float(truth.max()))] * 2 + [(-most, most)]
    for k, (name, values, (low, high)) in enumerate(zip(ROWS, (truth, ours, off), spans, strict=True)):
        how: dict[str, Any] = {"vmin": low, "vmax": high, "cmap": "RdBu_r" if k == 2 else "viridis"}
        how |= {"rasterized": True, "shading": "nearest"}
        if film.y:
            row = [figure.add_subplot(3, len(film.times), k * len(film.times) + j + 1) for j in range(len(film.times))]
            for place, moment, time in zip(row, values, film.times, strict=True):
                image = place.pcolormesh(film.x, film.y, moment.T, **how)
                place.set(xticks=[], yticks=[], aspect="equal", title=f"{time:g}" if k == 0 else "")
                place.grid(visible=False)
            row[0].set_ylabel(name)
            figure.colorbar(image, ax=row)
        else:
            place = figure.add_subplot(1, 3, k + 1)
            image = place.pcolormesh(film.times, film.x, values.T, **how)
            place.set(xlabel="time since the start", ylabel="x" if k == 0 else "")
            place.set_title(name, fontsize=10)
            place.grid(visible=False)
            figure.colorbar(image, ax=place)
