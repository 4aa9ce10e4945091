"""The figures of Section 6 from the records of runs; None where no run that belongs into one was made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from operformer.evaluation.spectra import ErrorSpectrum
from operformer.runs.report.figures.curves import Line, Panel, resolution_panels
from operformer.runs.report.figures.samples import pair_figure
from operformer.runs.report.figures.style import Look, in_turn, look_of
from paper.plots import Widths, growth_figure, spectra_figure, tradeoff_figure
from paper.record import Record, Results, operator_name, problem_name
from paper.tables import note_of


def headed(figure: Figure, text: str) -> Figure:
    """The figure with a small text above it, before the one that is there."""
    figure.suptitle("; ".join(filter(None, (text, figure.get_suptitle()))), fontsize=8, x=0.01, ha="left")
    return figure


def sample_pair(results: Results, names: Sequence[str], label: str = "1x") -> Figure | None:
    """The median and the worst test sample on a grid, of the first of these runs that has pictures of it."""
    for record in _made(results, names):
        if label in record.looks:
            figure = pair_figure(*record.looks[label], record.problem, label, note_of(results))
            return headed(figure, f"{problem_name(record.settings)}, {record.operator}")
    return None


def resolutions(
    results: Results, groups: Sequence[Sequence[str]], called: Callable[..., str] = operator_name
) -> Figure | None:
    """Error against resolution, a panel for each group of runs; the lines are called by operator or by problem."""
    panels = []
    for names in groups:
        records = _made(results, names)
        if records:
            is_by_operator = called is operator_name
            title = problem_name(records[0].settings) if is_by_operator else operator_name(records[0].settings)
            looks = [_look(record) for record in records] if is_by_operator else in_turn(len(records))
            lines = tuple(_line(r, called(r.settings), look) for r, look in zip(records, looks, strict=True))
            axis = "time steps" if records[0].problem.grid(records[0].resolution).dim == 1 else "points along each axis"
            panels.append(Panel(title, lines, records[0].resolution, axis))
    return resolution_panels(panels, note_of(results)) if panels else None


def tradeoff(results: Results, groups: Sequence[Sequence[str]], cost: str) -> Figure | None:
    """Median error over "parameters" or "operations", the widths of an operator joined; a panel for each group of runs.

    One run alone is no comparison and makes none.
    """
    panels = []
    for names in groups:
        records = _made(results, names)
        lines = []
        for operator in dict.fromkeys(record.operator for record in records):
            found = sorted((r for r in records if r.operator == operator), key=lambda r: r.parameters)
            widths = tuple(int(r.settings["operator"]["hidden_channels"]) for r in found)
            errors = tuple(r.trained.l2.median for r in found)
            costs = tuple(float(getattr(r, cost)) for r in found)
            lines.append(Widths(operator, _look(found[0]), widths, costs, errors))
        if len(records) > 1:
            panels.append((problem_name(records[0].settings), lines))
    axis = {"parameters": "parameters", "operations": "operations of one evaluation"}[cost]
    return tradeoff_figure(panels, axis, note_of(results)) if panels else None


def spectra(
    results: Results, groups: Sequence[Sequence[str]], of: Callable[[Record], ErrorSpectrum | None]
) -> Figure | None:
    """Spectra of errors, a panel for each group of runs."""
    panels = []
    for names in groups:
        records = _made(results, names)
        drawn = [(r.operator, _look(r), spectrum) for r in records if (spectrum := of(r)) is not None]
        if drawn:
            panels.append((problem_name(records[0].settings), drawn))
    return spectra_figure(panels, note_of(results)) if panels else None


def trained_spectrum(record: Record) -> ErrorSpectrum | None:
    """On the training grid."""
    return record.trained.spectrum


def last_spectrum(record: Record) -> ErrorSpectrum | None:
    """After the last step of a rollout."""
    return record.rollout.spectrum if record.rollout else None


def growth(results: Results, names: Sequence[str]) -> Figure | None:
    """Errors of rollouts."""
    rollouts = [(r.operator, _look(r), r.rollout) for r in _made(results, names) if r.rollout is not None]
    return growth_figure(rollouts, note_of(results)) if rollouts else None


def _made(results: Results, names: Sequence[str]) -> list[Record]:
    return [results.runs[name] for name in names if name in results.runs]


def _look(record: Record) -> Look:
    """That of the record's operator, on however many patches."""
    return look_of(operator_name(record.settings, with_patches=False))


def _line(record: Record, name: str, look: Look) -> Line:
    places, there = zip(*record.uniform, strict=True)
    return Line(name, look, places, tuple(one.errors for one in there))
