"""Tables of errors by grid, one column group for each run (the numbers behind Figure superresolution_1d)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operformer.run import Run


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [self.header, tuple("---" for _ in self.header), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def error_table(runs: Sequence[Run]) -> Table:
    """Median, mean and worst relative L2 error on each grid, and the median as a multiple of the training grid's."""
    header = ("grid", "points", "operator", "median", "mean", "worst", "ratio")
    rows = []
    for evaluation in runs[0].evaluations:
        for number, run in enumerate(runs):
            there = run.evaluation(evaluation.label)
            ratio = there.median / run.evaluation("1x").median
            figures = (f"{there.median:.2%}", f"{there.mean:.2%}", f"{there.worst:.2%}", f"{ratio:.2f}")
            where = (grid_name(evaluation.label), str(evaluation.points)) if number == 0 else ("", "")
            rows.append((*where, operator_name(run), *figures))
    return Table("Relative L2 error on test pairs", header, tuple(rows))


def settings_table(runs: Sequence[Run]) -> Table:
    """Every setting of each run."""
    columns = [_flatten(run) for run in runs]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    header = ("setting", *(operator_name(run) for run in runs))
    return Table("Settings", header, tuple((key, *(column.get(key, "") for column in columns)) for key in keys))


def operator_name(run: Run) -> str:
    """What a reader calls the operator of a run."""
    name = str(run.experiment.operator["name"])
    return "transformer" if name == "Transformer" else name


def grid_name(label: str) -> str:
    """What a reader calls a grid: "2x" is uniform, "irregular" that of equation irregular_set."""
    if label.endswith("x"):
        return "training grid" if label == "1x" else f"{label.removesuffix('x')} × resolution"
    return f"{label} grid"


def _flatten(run: Run) -> dict[str, str]:
    flat = {"parameters": f"{run.parameters:,}"}
    for section, values in run.experiment.to_mapping().items():
        if isinstance(values, dict):
            flat |= {f"{section}.{key}": _text(value) for key, value in values.items()}
    return flat


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
