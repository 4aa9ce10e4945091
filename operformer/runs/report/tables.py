"""Tables of errors by grid and run, and of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operformer.evaluation.conformal import Coverage
from operformer.evaluation.errors import OTHER_SET, Evaluation
from operformer.evaluation.rollout import Rollout
from operformer.runs.folder import Run
from operformer.text import markdown, plain

UNKNOWN_WEIGHTS = "the evaluation is of an earlier version and does not say which weights it was made from"
_SPOKEN = {
    "Transformer": "transformer",
    "GalerkinTransformer": "Galerkin transformer",
    "SpectralOperator": "SpectralOperator, no attention",
}


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def without(self, column: str) -> Table:
        """The table without a column that says the same in every row."""
        k = self.header.index(column)
        return Table(self.title, self.header[:k] + self.header[k + 1 :], tuple(r[:k] + r[k + 1 :] for r in self.rows))

    def markdown(self) -> str:
        """The table in Markdown."""
        rules = tuple("---:" if is_right else "---" for is_right in self.is_right)
        lines = [list(map(markdown, line)) for line in (self.header, *self.rows)]
        return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], rules, *lines[1:]))

    def latex(self, label: str) -> str:
        """The table as a float of LaTeX, which needs no package; its title is the caption."""
        columns = "".join("r" if is_right else "l" for is_right in self.is_right)
        lines = [" & ".join(map(latex_text, line)) + r" \\" for line in (self.header, *self.rows)]
        body = [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
            lines[0],
            r"\hline",
            *lines[1:],
            r"\hline",
            r"\end{tabular}",
        ]
        ends = [rf"\caption{{{latex_text(self.title)}}}", rf"\label{{{label}}}", r"\end{table}"]
        return "\n".join([r"\begin{table}[htbp]", r"\centering", *body, *ends])

    @property
    def is_right(self) -> tuple[bool, ...]:
        """Whether each column is one of numbers, which stand on the right."""
        columns = zip(*self.rows, strict=True) if self.rows else [() for _ in self.header]
        return tuple(any(cell[:1].isdigit() for cell in column) for column in columns)


def latex_text(text: str) -> str:
    """Plain text as LaTeX has it, in ASCII."""
    return "".join(_LATEX.get(letter, letter) for letter in plain(text))


def error_table(runs: Sequence[Run]) -> Table:
    """Median, mean and worst relative L2 error on each grid, and the median as a multiple of the training grid's.

    The median of standardised outputs and the median relative H1 error beside them, where they are known.
    """
    has_h1 = any(evaluation.h1 for run in runs for evaluation in run.evaluations)
    has_standardised = any(evaluation.standardised for run in runs for evaluation in run.evaluations)
    more = ("standardised median",) * has_standardised + ("H1 median",) * has_h1
    header = ("grid", "points", "operator", "median", "mean", "worst", "ratio", *more)
    rows = []
    for evaluation in runs[0].evaluations:
        for number, (run, name) in enumerate(zip(runs, run_names(runs), strict=True)):
            if evaluation.label not in {one.label for one in run.evaluations} and evaluation.label.endswith(OTHER_SET):
                continue
            there = run.evaluation(evaluation.label)
            ratio = multiple(there.median, run.evaluation("1x").median)
            figures = [percent(there.median), percent(there.mean), percent(there.worst), ratio]
            for summary, is_shown in ((there.standardised, has_standardised), (there.h1, has_h1)):
                figures += [percent(summary.median) if summary else ""] * is_shown
            where = (grid_name(evaluation.label), str(evaluation.points)) if number == 0 else ("", "")
            rows.append((*where, name, *figures))
    return Table(f"Relative L2 {'and H1 ' * has_h1}error on test samples", header, tuple(rows))


def set_table(found: Evaluation) -> Table:
    """The errors on one set."""
    rows = [("L2", found.l2), ("L2, standardised", found.standardised), ("H1", found.h1)]
    cells = [(name, *(percent(e) for e in (s.median, s.mean, s.worst))) for name, s in rows if s is not None]
    title = f"Relative errors on {found.label}: {len(found.errors)} samples, {found.points} points"
    return Table(title, ("norm", "median", "mean", "worst"), tuple(cells))


def rollout_table(found: Rollout, where: str) -> Table:
    """How errors grow along trajectories: at the first and the last step, and at round numbers between."""
    steps, last = len(found.times), len(found.times) - 1
    chosen = sorted({0, last, *(n - 1 for n in (2, 5, 10, 20, 50, 100, 200, 500, 1000) if n < steps)})
    rows = [
        (
            f"{found.times[k]:g}",
            percent(found.means[k]),
            percent(found.medians[k]),
            percent(found.worst[k]),
            percent(found.variance_means[k]) if found.variance_errors else "",
            percent(found.persistence_medians[k]),
        )
        for k in chosen
    ]
    title = f"Rollout along {len(found.errors[0])} trajectories {where}: relative errors by step"
    columns = ("step", "mean (nRMSE)", "median", "worst", "mean to deviation (VRMSE)", "median if nothing changed")
    return Table(title, columns, tuple(rows))


def coverage_table(coverages: Mapping[str, Coverage]) -> Table:
    """How often a calibration holds on test samples, by grid."""
    rows = []
    for label, c in coverages.items():
        shares = (f"{share:.1%}" for share in (c.functions, c.volume, c.relative_errors))
        rows.append((grid_name(label), str(c.count), *shares, f"{c.width:.2g}"))
    columns = (
        "grid",
        "samples",
        "inside the band",
        "volume inside",
        "error below its bound",
        "half width / deviation of z",
    )
    return Table("Share of test samples that the calibration holds for", columns, tuple(rows))


def remarks(run: Run) -> list[str]:
    """One line about the faces between patches and one about the rollout, where there are any."""
    lines = []
    jumps = run.evaluation("1x").jumps
    if jumps is not None and jumps.face_ratio is not None:
        truth = "" if jumps.truth_ratio is None else f" (the truth: {jumps.truth_ratio:.2f})"
        lines.append(
            f"face ratio {jumps.face_ratio:.2f}: differences of the error across faces / inside patches{truth}"
        )
    if run.rollout is not None:
        steps, rolled = len(run.rollout.times), run.rollout
        figures = f"median {percent(rolled.medians[-1])}, worst {percent(rolled.worst[-1])}"
        persistence = percent(rolled.persistence_medians[-1])
        lines.append(f"rollout of {steps} steps: {figures}; if nothing changed {persistence}")
    return lines


def settings_table(runs: Sequence[Run]) -> Table:
    """Every setting that made each run."""
    columns = [_flatten(run) for run in runs]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    rows = tuple((key, *(column.get(key, "") for column in columns)) for key in keys)
    return Table("Settings", ("setting", *run_names(runs)), rows)


def spoken_operator(name: str) -> str:
    """What a reader calls an operator of this name."""
    return _SPOKEN.get(name, name)


def run_names(runs: Sequence[Run]) -> list[str]:
    """What a reader calls each run: its operator and, where that is not enough, its folder, or its place."""
    names = [spoken_operator(run.experiment.operator["name"]) for run in runs]
    if len(set(names)) < len(names):
        names = [f"{name} {run.folder or run.experiment.name}" for name, run in zip(names, runs, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} {number}" for number, name in enumerate(names, 1)]
    return names


def percent(error: float) -> str:
    """An error in per cent: two decimals, or two digits where that would be zero."""
    return f"{error:.2%}" if error >= 1e-3 or error == 0 else f"{100 * error:#.2g}%"


def multiple(error: float, trained: float) -> str:
    """An error as a multiple of that on the training grid; a dash where that is zero."""
    return f"{error / trained:.2f}" if trained else "-"


def grid_name(label: str) -> str:
    """What a reader calls a grid: "2x" is uniform, "irregular" has longer time steps in its second half."""
    if label.endswith("x"):
        return "training grid" if label == "1x" else f"{label.removesuffix('x')} × resolution"
    return label if label.endswith(OTHER_SET) else f"{label} grid"


_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "²": "$^2$",
    "√": r"$\surd$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": "$-$",
    "–": "--",
}


# What says which pairs are drawn; of an imported set there is nothing to draw.
_OF_DRAWS = ("data.resolution", "data.seed", "data.coarser", "data.folder")


def _flatten(run: Run) -> dict[str, str]:
    flat = {"parameters": f"{run.parameters:,}"}
    for section, values in run.experiment.to_mapping().items():
        if isinstance(values, dict):
            flat |= {f"{section}.{key}": _text(value) for key, value in values.items()}
    if not run.experiment.problem.has_law:
        flat = {key: text for key, text in flat.items() if key not in _OF_DRAWS}
    return flat


def _text(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text or "none"
