"""The pictures of README and docs: `make pictures` draws them by the library, from its models and from the records.

    python docs/making/pictures.py [NAME ...] [--folder docs/pictures]

prediction.png: a test sample of lognormal Darcy flow on a grid that the model never saw, and the model's error there.
grids.png: median errors of records on other grids than that of the training.
NAME.svg: the figures and diagrams of the pages (figures.py, diagrams.py).
They are kept in the repository, so that pages read the same on a code host and on the site.
"""

import argparse
from pathlib import Path

import figures
import matplotlib as mpl
import torch

from operformer import load
from operformer.evaluation.loss import relative_l2
from operformer.problems import Darcy
from operformer.runs.report.figures.style import STYLE, look_of, new_figure, percent_ticks
from paper.archive import read_archive

RESULTS = Path(__file__).parents[2] / "results"
MODEL, RESOLUTION, SAMPLE = "darcy-vitno", 312, 3803  # trained at 416 points on samples 0 to 3599
GRIDS = {
    "0.5x": "half as\nmany points",
    "1x": "as in the\ntraining",
    "2x": "twice as\nmany points",
    "irregular": "second half\ntwice as coarse",
    "graded": "crowded at\nthe start",
}


def prediction():
    """Input, truth, prediction and error of one sample that was not trained on."""
    sample = Darcy("lognormal").sample(1, RESOLUTION, first=SAMPLE).to(dtype=torch.float32)
    with torch.no_grad():
        found = load(MODEL)(sample.u, sample.grid)
    error = float(relative_l2(found, sample.z, sample.grid))
    panels = {
        "input: coefficient (log)": (sample.u.log(), "cividis"),
        "truth: pressure": (sample.z, "viridis"),
        "prediction": (found, "viridis"),
        f"error, {100 * error:.2f} % in L2": (found - sample.z, "RdBu_r"),
    }
    figure = new_figure(12, 2.8)
    for axes, (title, (values, colours)) in zip(figure.subplots(1, 4), panels.items(), strict=True):
        values = values[0, 0].T.numpy()
        symmetric = abs(values).max() if "error" in title else None
        limits = {"vmin": -symmetric, "vmax": symmetric} if symmetric else {}
        drawn = axes.imshow(values, origin="lower", cmap=colours, extent=(0, 1, 0, 1), **limits)
        axes.set(title=title, xticks=[], yticks=[])
        axes.grid(visible=False)
        figure.colorbar(drawn, ax=axes, shrink=0.85)
    return figure


def grids():
    """Errors on other grids: in the plane over the resolution, on a line over the kind of grid."""
    records = read_archive(RESULTS)
    figure = new_figure(12, 3.6)
    plane, line = figure.subplots(1, 2)
    for recipe, run, name in (
        ("best", "darcy-416-vitno-blended", "ViTNO, overlapping patches"),
        ("same-operator", "darcy-416-fno", "FNO"),
        ("best", "darcy-416-spectral", "SpectralOperator, no attention"),
    ):
        (record, *_) = records[recipe][run]
        measured = [there for there in record.measured if there.label.endswith("x")]
        colour, marker = look_of(name)
        label = f"{name}, {record.settings['training']['epochs']} epochs"
        sides = [round(there.points**0.5) for there in measured]
        plane.loglog(sides, [there.l2.median for there in measured], color=colour, marker=marker, label=label)
    plane.set(
        title="Lognormal Darcy flow, trained at 416 x 416 and coarser",
        xlabel="points along an axis",
        ylabel="median relative L2 error",
    )
    plane.set_xticks(sides, [str(side) for side in sides])
    plane.minorticks_off()
    for run, name, label in (
        ("lorenz-y", "TNO", "TNO, weighted attention"),
        ("lorenz-y-transformer", "transformer", "the same without weights"),
    ):
        (record, *_) = records["same-operator"][run]
        colour, marker = look_of(name)
        errors = [record.on(grid).l2.median for grid in GRIDS]
        line.semilogy(range(len(GRIDS)), errors, color=colour, marker=marker, linestyle="", markersize=9, label=label)
    line.set(title="Lorenz 63, trained on 201 equispaced points", xlim=(-0.5, len(GRIDS) - 0.5))
    line.set_xticks(range(len(GRIDS)), GRIDS.values())
    for axes in (plane, line):
        percent_ticks(axes)
        axes.legend(loc="best")
    return figure


def main():
    """Draw all, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "pictures")
    arguments = parser.parse_args()
    folder, names = arguments.folder, arguments.names
    folder.mkdir(exist_ok=True)
    for draw in (prediction, grids):
        if not names or draw.__name__ in names:
            with mpl.rc_context(STYLE):
                picture = folder / f"{draw.__name__}.png"
                draw().savefig(picture, dpi=100, bbox_inches="tight", metadata={"Software": None})
    for name, (measure, draw) in figures.FIGURES.items():
        if not names or name in names:
            (folder / f"{name}.svg").write_text(figures.picture(draw, measure()))


if __name__ == "__main__":
    main()
