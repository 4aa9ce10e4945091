"""The figures of Section 6, drawn from numbers: samples, error against resolution and cost, spectra, rollouts."""

from operformer.report.figures.resolution import resolution_figure
from operformer.report.figures.samples import samples_figure
from operformer.report.figures.style import STYLE, to_png, to_svg
from operformer.report.figures.training import training_figure

__all__ = ["STYLE", "resolution_figure", "samples_figure", "to_png", "to_svg", "training_figure"]
