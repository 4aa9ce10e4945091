"""The tables of errors of RESULTS.md: the lowest of each problem, and every run beside what the paper prints of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from operformer.evaluation.errors import Summary
from operformer.runs.report.tables import Table
from paper.archive import Archive
from paper.catalogue import FLOW, LI, LI_ET_AL, LOGNORMAL, LOW, PIECEWISE, Recipe, Row, find_row, rows
from paper.recipes import RECORDED, train_as
from paper.record import Measured, Record, operator_name, problem_name
from paper.tables import ABSENT, error_text, grouped, without_empty

NOT_MEASURED = "not measured"
CONVERGED = 0.02  # a training whose validation error falls by less in the last tenth of its epochs has converged
ATTENTION = ("TNO", "Transformer", "ViTNO", "FANO", "GalerkinTransformer")
_PROBLEMS = (LOW, LOGNORMAL, PIECEWISE, FLOW)


def summary_table(archive: Archive) -> Table:
    """The lowest error of each problem: in print, of the paper's operators and of others here.

    Standardised errors, as the paper's code measures them, and in brackets physical ones; those of Li et al. are
    physical, as everyone prints them.
    """
    lines = [_summary_line(archive, "Lorenz 63, x to y and z: median; worst", rows("xtoyz"), ("median", "worst"))]
    lines += [_summary_line(archive, f"{title}: median", rows(problem=title), ("median",)) for title in _PROBLEMS]
    lines.append(_summary_line(archive, f"{LI}: mean", rows(problem=LI), ("mean",), is_physical=True))
    header = ("error", "in print", "the paper's operator", "best with attention", "best without attention")
    return Table("In print and here", header, tuple(lines))


def _summary_line(
    archive: Archive, title: str, shown: Sequence[Row], keys: Sequence[str], is_physical: bool = False
) -> tuple[str, ...]:
    """The paper's operators are those of Section 4, with attention; without it are FNO, AFNO and SpectralOperator."""
    with_attention = [row for row in shown if row.operator in ATTENTION]
    others = [row for row in shown if row.operator not in ATTENTION]
    cells = (
        _lowest(archive, ("same-operator",), with_attention, keys, is_physical),
        _lowest(archive, ("best",), with_attention, keys, is_physical),
        _lowest(archive, RECORDED, others, keys, is_physical),
    )
    if is_physical:
        name = min(LI_ET_AL, key=LI_ET_AL.__getitem__)
        return (title, f"{error_text(LI_ET_AL[name])} ({name})", *cells)
    return (title, _lowest_printed(shown), *cells)


def _lowest_printed(shown: Sequence[Row]) -> str:
    stated = [row for row in shown if row.printed.median]
    row = min(stated, key=lambda row: row.printed.median if isinstance(row.printed.median, float) else 0.0)
    errors = [error_text(error) for error in (row.printed.median, row.printed.worst) if error is not None]
    return f"{'; '.join(errors)} ({row_operator(row.name)}{'' if row.operator in ATTENTION else ', no attention'})"


def _lowest(
    archive: Archive, recipes: Sequence[Recipe], shown: Sequence[Row], keys: Sequence[str], is_physical: bool
) -> str:
    """Of the run that has the lowest first error in physical units, which all records have; of seeds the mean."""
    found: list[tuple[list[float], str]] = []
    for recipe in recipes:
        for records in (archive[recipe][row.name] for row in shown if row.name in archive[recipe]):
            errors = [fmean(getattr(record.trained.l2, key) for record in records) for key in keys]
            text = "; ".join(map(error_text, errors))
            if not is_physical:
                text = f"{_standardised(records, keys)} ({text})"
            seeds = f", {len(records)} seeds" if len(records) > 1 else ""
            found.append((errors, f"{text} {records[0].operator.removesuffix(', no attention')}{seeds}"))
    if not found:
        return ABSENT if any(recipe in row.recipes for row in shown for recipe in recipes) else ""
    return min(found)[1]


def _standardised(records: Sequence[Record], keys: Sequence[str]) -> str:
    summaries = [record.trained.standardised for record in records]
    if not all(summaries):
        return NOT_MEASURED
    return "; ".join(error_text(fmean(getattr(one, key) for one in summaries)) for key in keys)


def problem_table(archive: Archive, title: str, names: Sequence[str]) -> Table:
    """A line for each run and recipe: what the paper prints of it, and what came out here."""
    header = (
        "problem", "operator", "recipe", "in print", "standardised", "physical", "mean", "worst", "H1", "fresh samples",
        "last tenth", "seeds", "parameters", "epochs", "training",
    )  # fmt: skip
    lines = [line for name in names for line in _run_lines(archive, find_row(name))]
    if len({line[0] for line in lines}) == 1:
        lines = [("", *line[1:]) for line in lines]
    return without_empty(Table(title, header, grouped(lines)))


def _run_lines(archive: Archive, row: Row) -> list[tuple[str, ...]]:
    problem = problem_name(row.authors.to_mapping())
    printed = "; ".join(error_text(error) for error in (row.printed.median, row.printed.worst) if error)
    lines = []
    for recipe in (recipe for recipe in RECORDED if recipe in row.recipes):
        records = archive[recipe].get(row.name, [])
        operator = records[0].operator if records else row_operator(row.name)
        width = f", width {row.width}" if records and row.variant.startswith("width-") else ""
        lines.append((problem, operator + width, recipe, printed, *_cells(records)))
    return lines


def row_operator(name: str) -> str:
    """The operator of the paper's run; of a run that the paper has not, that of its recipe."""
    row = find_row(name)
    operator = operator_name(train_as(row, row.recipes[-1] if row.recipes == ("best",) else "authors").to_mapping())
    return operator + (f", width {row.width}" if row.variant.startswith("width-") else "")


def _cells(records: Sequence[Record]) -> tuple[str, ...]:
    if not records:
        return (ABSENT, *[""] * 10)
    trained = [record.trained for record in records]
    fresh = [record.fresh for record in records if record.fresh]
    seeds = str(len(records)) if len(records) > 1 else ""
    return (
        _spread(trained, _in_standard, "median") or NOT_MEASURED,
        *(_spread(trained, _in_l2, key) for key in ("median", "mean", "worst")),
        _spread(trained, _in_h1, "median"),
        _fresh_text(fresh) if len(fresh) == len(records) else "",
        ", ".join(filter(None, map(last_tenth, records))),
        seeds,
        f"{records[0].parameters:,}",
        str(records[0].settings["training"]["epochs"]),
        f"{fmean(record.seconds for record in records):.0f} s",
    )


def _in_standard(there: Measured) -> Summary | None:
    return there.standardised


def _in_l2(there: Measured) -> Summary | None:
    return there.l2


def _in_h1(there: Measured) -> Summary | None:
    return there.h1


def _spread(measured: Sequence[Measured], norm: Callable[[Measured], Summary | None], key: str) -> str:
    """The error, or of several seeds mean and standard deviation; empty where one of them has none."""
    errors = [getattr(found, key) for found in map(norm, measured) if found]
    return spread_text(errors) if errors and len(errors) == len(measured) else ""


def _fresh_text(fresh: Sequence[Measured]) -> str:
    """Medians on samples of another seed: standardised, and in brackets physical."""
    return f"{_spread(fresh, _in_standard, 'median') or NOT_MEASURED} ({_spread(fresh, _in_l2, 'median')})"


def spread_text(errors: Sequence[float]) -> str:
    """The error, or of several seeds mean and standard deviation."""
    if len(errors) == 1:
        return error_text(errors[0])
    return f"{error_text(fmean(errors))} ± {error_text(stdev(errors)) if stdev(errors) else '0 %'}"


def last_tenth(record: Record) -> str:
    """By how much the validation error fell in the last tenth of the epochs, where the record has its curve."""
    curve = record.curve
    if len(curve) < 2:
        return ""
    before = min(curve[: -max(1, len(curve) // 10)])
    fall = 1 - min(curve) / before
    return f"{-fall:.1%}, {'converged' if fall < CONVERGED else 'not converged'}"
