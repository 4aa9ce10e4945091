"""What the faces between patches leave in the error: a picture, its spectrum, and norms and jumps by resolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from operformer.evaluation.errors import Curves, Evaluation, Images
from operformer.runs.folder import Run
from operformer.runs.report.figures.style import INPUT, PREDICTION, REFERENCE, STYLE, TRUTH, new_figure, percent_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FACES = (
    "the error of its median sample, faces of patches dotted; the energy of truth and error by wave number; median "
    "errors in L2 and H1, and the error's differences across faces over those inside patches, by resolution"
)


@mpl.rc_context(STYLE)
def faces_figure(run: Run) -> Figure:
    """Four panels about a run whose patches have faces; `FACES` says what they show."""
    figure = new_figure(12.4, 3.0)
    picture, spectrum, norms, jumps = figure.subplots(1, 4)
    _draw_error(figure, picture, run)
    _draw_spectrum(spectrum, run.evaluation("1x"))
    uniform = [e for e in run.evaluations if e.label.endswith("x")]
    norms.plot([e.points for e in uniform], [e.median for e in uniform], "o-", color=INPUT, ms=5, label="L2")
    with_h1 = [(e.points, e.h1.median) for e in uniform if e.h1]
    norms.plot(*_columns(with_h1), "s-", color=PREDICTION, ms=5, label="H1")
    norms.set(xscale="log", yscale="log", title="median relative errors", xlabel="number of points")
    norms.legend(fontsize=8)
    percent_ticks(norms)
    ratios = [(e.points, e.jumps.face_ratio) for e in uniform if e.jumps and e.jumps.face_ratio]
    jumps.plot(*_columns(ratios), "D-", color=PREDICTION, ms=5, label="faces over inside")
    jumps.axhline(1.0, color=REFERENCE, lw=1, ls="--", zorder=0)
    jumps.set(xscale="log", title="jumps of the error, faces / inside", xlabel="number of points")
    for axes in (norms, jumps):
        axes.set_xticks([e.points for e in uniform], [str(e.points) for e in uniform])
        axes.xaxis.set_minor_locator(NullLocator())
    for axes in (picture, spectrum, norms, jumps):
        axes.title.set_fontsize(9)
    return figure


def _draw_error(figure: Figure, axes: Axes, run: Run) -> None:
    """Prediction minus truth of the first output, and where patches meet."""
    evaluation = run.evaluation("1x")
    sample, counts = evaluation.median_sample, evaluation.jumps.n_patches if evaluation.jumps else ()
    prediction, truth = (torch.tensor(values[0], dtype=torch.float64) for values in (sample.prediction, sample.z))
    error = prediction - truth
    if isinstance(sample, Images):
        most = float(error.abs().max()) or 1.0
        image = axes.pcolormesh(sample.x, sample.y, error.T, vmin=-most, vmax=most, cmap="RdBu_r", rasterized=True)
        figure.colorbar(image, ax=axes, shrink=0.8)
        axes.set(xticks=[], yticks=[], aspect="equal")
        axes.grid(visible=False)
    elif isinstance(sample, Curves):
        axes.plot(sample.x, error, color=PREDICTION, lw=1.2)
    draw = (axes.axvline, axes.axhline)
    for k, (count, (lower, upper)) in enumerate(zip(counts, run.experiment.problem.bounds, strict=False)):
        for face in range(1, count) if k < (2 if isinstance(sample, Images) else 1) else ():
            draw[k](lower + (upper - lower) * face / count, color=TRUTH, lw=0.6, ls=":")
    axes.set_title("error of the median sample")


def _draw_spectrum(axes: Axes, evaluation: Evaluation) -> None:
    """Energies of truth and error by wave number, where points are equispaced."""
    spectrum = evaluation.spectrum
    if spectrum is not None:
        for name, energies, colour in (("truth", spectrum.truth, TRUTH), ("error", spectrum.error, PREDICTION)):
            found = [(k, e) for k, e in zip(spectrum.wave_numbers, energies, strict=True) if k > 0 and e > 0]
            axes.plot(*_columns(found), color=colour, lw=1.3, label=name)
        axes.legend(fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="wave number", title="energy by wave number")


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]
