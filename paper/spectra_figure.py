"""Where in wave number operators err."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from operformer.evaluation.spectra import ErrorSpectrum
from operformer.runs.report.figures.style import REFERENCE, STYLE, looks, new_figure, shared_legend

Panel = tuple[str, Sequence[tuple[str, ErrorSpectrum]]]  # a title, and the spectrum of each operator
LEAST = 1e-14  # energies below are rounding


@mpl.rc_context(STYLE)
def spectra_figure(panels: Sequence[Panel], note: str = "") -> Figure:
    """The energy of the error by wave number, beside that of the truth; a panel for each problem."""
    figure = new_figure(5.0 * len(panels) + 0.4, 3.9, note)
    for axes, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.set(xscale="log", yscale="log", xlabel="wave number, radians per unit of length")
        axes.set_ylabel("energy, as a share of the truth's")
        axes.plot(*_drawn(lines[0][1].wave_numbers, lines[0][1].truth), color=REFERENCE, lw=3, label="truth")
        for (name, spectrum), (colour, _) in zip(lines, looks([name for name, _ in lines]), strict=True):
            axes.plot(*_drawn(spectrum.wave_numbers, spectrum.error), color=colour, lw=1.6, label=f"error of {name}")
        axes.set_title(title, fontsize=10)
    shared_legend(figure)
    return figure


def _drawn(wave_numbers: Sequence[float], energies: Sequence[float]) -> tuple[list[float], list[float]]:
    """What a logarithmic axis can show."""
    kept = [(k, energy) for k, energy in zip(wave_numbers, energies, strict=True) if k > 0 and energy > LEAST]
    return [k for k, _ in kept], [energy for _, energy in kept]
