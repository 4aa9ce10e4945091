"""The tables of Section 6.2 and Appendix C, the paper's columns beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from operformer.runs.report.tables import Table
from paper.catalogue import find_row
from paper.complexity import COMPLEXITY
from paper.cost import SIZES, Cost
from paper.record import Record, Results, operator_name, problem_name

ABSENT = "not run"
SMOKE = "smoke scale: small operators and data; not comparable with the paper's column"


def note_of(results: Results) -> str:
    """What every table, figure and page says at smoke scale."""
    return SMOKE if results.recipe == "smoke" else ""


def accuracy_table(results: Results, title: str, names: Sequence[str]) -> Table:
    """One row for each run: parameters and errors of test samples on the training grid, ours and the paper's."""
    header = (
        "problem", "operator", "channels", "parameters", "parameters (paper)", "median", "median (paper)", "mean",
        "worst", "worst (paper)", "H1 median", "training, s",
    )  # fmt: skip
    return without_empty(Table(_title(results, title), header, grouped([_accuracy_row(results, n) for n in names])))


def _accuracy_row(results: Results, name: str) -> tuple[str, ...]:
    record, stated = results.runs.get(name), find_row(name).printed
    channels = str(results.settings(name)["operator"].get("hidden_channels", ""))
    paper = "" if stated.parameters is None else f"{stated.parameters:.2e}"
    parameters = ABSENT if record is None else f"{record.parameters:,}"
    median = mean = worst = h1 = seconds = ""
    if record is not None:
        l2 = record.trained.l2
        median, mean, worst = error_text(l2.median), error_text(l2.mean), error_text(l2.worst)
        h1 = error_text(record.trained.h1.median) if record.trained.h1 else ""
        seconds = f"{record.seconds:.0f}"
    return (
        *_who(results, name), channels, parameters, paper, median, error_text(stated.median), mean,
        worst, error_text(stated.worst), h1, seconds,
    )  # fmt: skip


def grid_table(results: Results, title: str, names: Sequence[str]) -> Table:
    """Median errors on every grid, and as multiples of the training grid's: what figures of resolution show."""
    labels = list(dict.fromkeys(there.label for name in names if name in results.runs
                                for there in results.runs[name].measured))  # fmt: skip
    rows = []
    for name in names:
        record = results.runs.get(name)
        cells = [ABSENT if record is None else _on_grid(record, label) for label in labels or ["1x"]]
        rows.append((*_who(results, name), *cells))
    return Table(_title(results, title), ("problem", "operator", *(labels or ["1x"])), grouped(rows))


def jump_table(results: Results, title: str, names: Sequence[str]) -> Table:
    """Differences of the error between neighbours across faces of patches and inside them, as their ratio."""
    header = ("problem", "operator", "median", "across faces", "inside patches", "ratio", "ratio of the truth")
    rows: list[tuple[str, ...]] = []
    for name in names:
        record = results.runs.get(name)
        if record is None or record.trained.jumps is None:
            rows.append((*_who(results, name), ABSENT if record is None else "no faces", "", "", "", ""))
            continue
        there, jumps = record.trained, record.trained.jumps
        across, inside = (
            sum(getattr(axis, f"error_{where}") ** 2 for axis in jumps.along) ** 0.5 for where in ("across", "inside")
        )
        ratios = [f"{ratio:.2f}" if ratio is not None else "" for ratio in (jumps.face_ratio, jumps.truth_ratio)]
        found = (error_text(there.l2.median), f"{across:.2e}", f"{inside:.2e}", *ratios)
        rows.append((*_who(results, name), *found))
    return Table(_title(results, title), header, grouped(rows))


def rollout_table(results: Results, title: str, names: Sequence[str]) -> Table:
    """Median errors of rollouts at a few times, and of the forecast that nothing changes."""
    rollouts = {name: results.runs[name].rollout for name in names if name in results.runs}
    first = next((rollout for rollout in rollouts.values() if rollout is not None), None)
    if first is None:
        return Table(
            _title(results, title), ("operator", "rollout"), tuple((_who(results, n)[1], ABSENT) for n in names)
        )
    steps = sorted({0, *(step for step in (1, 4, 9, 19) if step < len(first.times)), len(first.times) - 1})
    rows = []
    for name in names:
        rollout = rollouts.get(name)
        medians = [ABSENT] * len(steps) if rollout is None else [error_text(rollout.medians[step]) for step in steps]
        rows.append((_who(results, name)[1], *medians))
    rows.append(("no change", *(error_text(first.persistence_medians[step]) for step in steps)))
    header = ("operator", *(f"t = {first.times[step]:.3g}" for step in steps))
    return Table(_title(results, title), header, tuple(rows))


def parameter_table(results: Results) -> Table:
    """Table parameter_complexity1 at the paper's sizes, beside the parameters of our modules."""
    header = ("operator", "formula of Appendix C", "points", "formula", "ours", "more", "which are")
    rows = []
    for name, cost in results.costs.items():
        found = (ABSENT, "") if cost.parameters is None else (
            f"{cost.parameters:,}", f"{cost.parameters - cost.formula_parameters:,}"
        )  # fmt: skip
        formula = (COMPLEXITY[name].parameters, _points(cost), f"{cost.formula_parameters:,}")
        rows.append((name, *formula, *found, SIZES[name].parameters_differ))
    title = "Parameters at d_model = 128, d_u = d_z = 1; c = d_u + 2, d = d_model (paper sizes, nothing is trained)"
    return Table(title, header, tuple(rows))


def cost_table(results: Results) -> Table:
    """Table evaluation_cost1 at the paper's sizes, beside the operations counted on our modules."""
    header = ("operator", "formula of Appendix C", "points", "formula", "counted", "counted / formula", "because")
    rows = []
    for name, cost in results.costs.items():
        found = (ABSENT, "") if cost.operations is None else (
            f"{cost.operations:.3e}", f"{cost.operations / cost.formula_operations:.2f}"
        )  # fmt: skip
        formula = (COMPLEXITY[name].cost, _points(cost), f"{cost.formula_operations:.3e}")
        rows.append((name, *formula, *found, SIZES[name].cost_differs))
    title = "Operations of one evaluation at d_model = 128; c = d_u + 2, d = d_model (paper sizes, nothing is trained)"
    return Table(title, header, tuple(rows))


def scaling_table(results: Results) -> Table:
    """Table evaluation_cost: the scaling, and by how much four times as many points cost more."""
    header = ("operator", "scaling", "points", "4 N / N by the formula", "4 N / N counted")
    rows = []
    for name, cost in results.costs.items():
        counted = (
            ABSENT
            if cost.operations is None or cost.operations_at_double is None
            else f"{cost.operations_at_double / cost.operations:.2f}"
        )
        formula = f"{cost.formula_at_double / cost.formula_operations:.2f}"
        rows.append((name, COMPLEXITY[name].scaling, _points(cost), formula, counted))
    return Table("How operations grow with the number of points N, at a fixed number of patches P", header, tuple(rows))


def error_text(error: float | str | None) -> str:
    """A relative error in per cent, to three digits as in the paper; words as they are."""
    if error is None or isinstance(error, str):
        return error or ""
    if not 1e-5 < error < 10:
        return f"{100 * error:.2e} %"
    return f"{100 * error:.{max(0, 2 - floor(log10(100 * error)))}f} %"


def _on_grid(record: Record, label: str) -> str:
    there = record.on(label)
    if there is None:
        return "-"
    ratio = there.l2.median / record.trained.l2.median if record.trained.l2.median else 1.0
    return error_text(there.l2.median) + ("" if label == "1x" else f" ({ratio:.2f})")


def _who(results: Results, name: str) -> tuple[str, str]:
    return problem_name(results.settings(name)), operator_name(results.settings(name))


def without_empty(table: Table) -> Table:
    """The table without columns of which the paper says nothing."""
    kept = [column for column in range(len(table.header)) if any(row[column] for row in table.rows)]
    rows = tuple(tuple(row[column] for column in kept) for row in table.rows)
    return Table(table.title, tuple(table.header[column] for column in kept), rows)


def grouped(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The rows, the problem named in the first of its rows only."""
    before = ["", *(row[0] for row in rows)]
    return tuple(("" if row[0] == above else row[0], *row[1:]) for row, above in zip(rows, before, strict=False))


def _points(cost: Cost) -> str:
    return f"{cost.resolution} × {cost.resolution}"


def _title(results: Results, title: str) -> str:
    note = note_of(results)
    return f"{title} ({note})" if note else title
