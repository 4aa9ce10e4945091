"""One self-contained HTML page about one or more runs of the same problem: nothing is fetched."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, select_autoescape
from markupsafe import Markup
from matplotlib.figure import Figure

from operformer import __version__
from operformer.errors import UsageError
from operformer.evaluation.conformal import sentences as promises
from operformer.files import write_bytes
from operformer.runs.folder import Run
from operformer.runs.report.explorer import Exhibit, explorer_data
from operformer.runs.report.figures import (
    FACES,
    faces_figure,
    resolution_figure,
    rollout_figure,
    samples_figure,
    to_svg,
    training_figure,
)
from operformer.runs.report.tables import (
    UNKNOWN_WEIGHTS,
    coverage_table,
    error_table,
    grid_name,
    multiple,
    percent,
    run_names,
    settings_table,
)
from operformer.text import plain

DESCRIPTIONS = {
    "1x": "",
    "irregular": " (time steps twice as long in the second half)",
    "graded": " (points crowd at the start, t = T (n / N)²)",
}
GRADED_PLANE = " (points crowd at the lower ends, x = s - s (1 - s) / 2)"


@dataclass(frozen=True)
class Picture:
    """A figure, as an address that holds it whole, and what it shows."""

    address: str
    caption: str


def write_page(runs: Sequence[Run], path: Path, exhibits: Sequence[Exhibit] = ()) -> None:
    """Write the page for runs of one problem, the first of which sets the tone; with exhibits it has an explorer."""
    if len({(run.experiment.problem, run.experiment.data) for run in runs}) != 1:
        raise UsageError("a report compares runs of one problem and one data set; report on the others by themselves")
    values = {
        "title": runs[0].folder or runs[0].experiment.name,
        "lead": _lead(runs),
        "summary": summary(runs),
        "errors": error_table(runs) if len(runs) > 1 else error_table(runs).without("operator"),
        "settings": settings_table(runs),
        "coverages": [
            (name, coverage_table(run.coverages))
            for run, name in zip(runs, run_names(runs), strict=True)
            if run.coverages
        ],
        "pictures": _pictures(runs),
    }
    write_bytes(path, render("page.html", values, exhibits).encode())


def render(
    template: str, values: Mapping[str, Any], exhibits: Sequence[Exhibit] = (), folder: Path | None = None
) -> str:
    """The text of a page; values are escaped, styles and scripts of this package go in as they are.

    ``folder`` holds templates of a page of one's own, which may extend those of this package.
    """
    loader = ChoiceLoader([FileSystemLoader(folder or ()), PackageLoader("operformer.runs.report")])
    environment = Environment(loader=loader, autoescape=select_autoescape(["html"]), finalize=_harmless)
    environment.globals["verbatim"] = lambda name: Markup(loader.get_source(environment, name)[0])
    explorer = explorer_data(exhibits) if any(exhibit.views for exhibit in exhibits) else None
    return environment.get_template(template).render(**values, explorer=explorer, version=__version__)


def picture(figure: Figure, caption: str) -> Picture:
    """A figure as an SVG picture inside the page."""
    return Picture("data:image/svg+xml;base64," + base64.b64encode(to_svg(figure).encode()).decode(), caption)


def summary(runs: Sequence[Run]) -> list[str]:
    """What came out: one sentence for each run, and what its calibration promises."""
    sentences = []
    for run, name in zip(runs, run_names(runs), strict=True):
        trained = run.evaluation("1x").median
        sentence = f"{_capitalised(name)}: median error {percent(trained)} on the grid it was trained on"
        uniform = {float(e.label[:-1]): e.median for e in run.evaluations if e.label.endswith("x")}
        if len(uniform) > 1 and trained:
            ends = min(uniform), max(uniform)  # an imported set is known on its own grid and on coarser ones
            where = "half to double" if ends == (0.5, 2.0) else f"{ends[0]:g} to {ends[1]:g} times"
            sentence += f"; at {where} that resolution at most {multiple(max(uniform.values()), trained)} times as much"
        elif len(run.evaluations) == 1:
            grids = run.experiment.problem.evaluation_grids(run.experiment.data.resolution)
            reason = "the operator takes no other" if len(grids) > 1 else "the truth is known on no other"
            sentence += f"; one grid only, because {reason}"
        irregular = [e for e in run.evaluations if trained and not e.label.endswith("x")]
        rest = "; ".join(f"{multiple(e.median, trained)} times on the {e.label} grid" for e in irregular)
        sentences.append(f"{sentence}; {rest}." if rest else f"{sentence}.")
        if run.calibration is not None:
            sentences += [f"{_capitalised(promise)}." for promise in promises(run.calibration)]
        if not run.is_hashed:
            sentences.append(f"{_capitalised(name)}: {UNKNOWN_WEIGHTS}.")
    return sentences


def _lead(runs: Sequence[Run]) -> str:
    """What was learned, by which operators, and where it is tested."""
    problem, names = runs[0].experiment.problem, " and ".join(dict.fromkeys(run_names(runs)))
    maps = " to ".join(", ".join(labels) for labels in problem.labels)
    law = "" if runs[0].experiment.name == runs[0].folder else f"{runs[0].experiment.name}: "
    return f"{law}{maps}, learned by {names}. Errors are those of test samples, which no training has seen."


def _pictures(runs: Sequence[Run]) -> list[Picture]:
    pictures = [
        picture(
            resolution_figure(runs), "Error against resolution, without retraining. Bands hold 80 % of the samples."
        )
    ]
    for label in ("1x", "irregular", "graded"):
        for run, name in zip(runs, run_names(runs), strict=True):
            if (label == "1x" and run is not runs[0]) or label not in {e.label for e in run.evaluations}:
                continue
            is_plane = label == "graded" and len(run.experiment.problem.bounds) > 1
            where = f"{_capitalised(name)} on the {grid_name(label)}{GRADED_PLANE if is_plane else DESCRIPTIONS[label]}"
            caption = f"{where}: the test samples of median and of worst error."
            pictures.append(picture(samples_figure(run, label), caption))
    for run, name in zip(runs, run_names(runs), strict=True):
        jumps = run.evaluation("1x").jumps
        if jumps is not None and jumps.face_ratio is not None:
            pictures.append(picture(faces_figure(run), f"{_capitalised(name)} at the faces of its patches: {FACES}."))
        if run.rollout is not None:
            caption = "an operator applied to its own output. Below, one trajectory over time: that of median error"
            pictures.append(picture(rollout_figure(run.rollout), f"{_capitalised(name)} rolled out: {caption}."))
    pictures.append(picture(training_figure(runs), "Training: loss and validation error by epoch."))
    return pictures


def _harmless(value: Any) -> Any:
    """What goes into a page: texts as `plain` makes them, before they are escaped."""
    return plain(value) if type(value) is str else value


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]
