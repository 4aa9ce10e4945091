"""The figures of Section 6, drawn from numbers: samples, error against resolution and cost, spectra, rollouts."""

from operformer.runs.report.figures.curves import resolution_figure, training_figure
from operformer.runs.report.figures.faces import FACES, faces_figure
from operformer.runs.report.figures.film import rollout_figure
from operformer.runs.report.figures.samples import ERRORS, samples_figure
from operformer.runs.report.figures.style import INPUT, PREDICTION, STYLE, TRUTH, to_png, to_svg

__all__ = [
    "ERRORS",
    "FACES",
    "INPUT",
    "PREDICTION",
    "STYLE",
    "TRUTH",
    "faces_figure",
    "resolution_figure",
    "rollout_figure",
    "samples_figure",
    "to_png",
    "to_svg",
    "training_figure",
]
