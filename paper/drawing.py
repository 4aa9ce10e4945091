"""Tables, figures and the page, made of results alone: the same results give the same bytes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from operformer.files import write_bytes
from operformer.runs.report.explorer import Exhibit
from operformer.runs.report.figures import to_png, to_svg
from operformer.runs.report.page import Picture
from operformer.runs.report.tables import Table
from paper.catalogue import PAPER
from paper.page import Section, write_reproduction
from paper.record import Results, operator_name, problem_name
from paper.studies import FigureOf, Study
from paper.tables import note_of


def draw(results: Results, studies: Sequence[Study], folder: Path) -> list[Table]:
    """Write folder/tables, folder/figures and folder/index.html; the tables, for a console."""
    tables: dict[str, Table] = {}
    sections = []
    for study in studies:
        for made in study.tables:
            tables[made.name] = table = made.make(results)
            write_bytes(folder / "tables" / f"{made.name}.md", f"{table.title}\n\n{table.markdown()}\n".encode())
            write_bytes(folder / "tables" / f"{made.name}.tex", f"{table.latex(made.label)}\n".encode("ascii"))
        pictures = [picture for figure in study.figures if (picture := _picture(results, figure, folder / "figures"))]
        own = [tables[made.name] for made in study.tables]
        sections.append(Section(study.name, study.title, _text(results, study), own, pictures))
    write_reproduction("Section 6, made again", _lead(results), sections, _exhibits(results), folder / "index.html")
    return list(tables.values())


def _picture(results: Results, figure: FigureOf, folder: Path) -> Picture | None:
    drawn = figure.draw(results)
    if drawn is None:
        return None
    svg = to_svg(drawn).encode()
    write_bytes(folder / f"{figure.name}.svg", svg)
    write_bytes(folder / f"{figure.name}.png", to_png(drawn))
    address = "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
    note = note_of(results)
    return Picture(address, f"{figure.caption} ({figure.label}{'; ' + note if note else ''})")


def _lead(results: Results) -> str:
    made = results.made
    machine = f"{made['device']}, Python {made['python']}, torch {made['torch']}, operformer {made['operformer']}"
    commit = f", commit {made['commit']}" if made.get("commit") else ""
    commit += " with changes" if made.get("is_clean") is False else ""
    seconds = sum(record.seconds for record in results.runs.values())
    facts = f"{len(results.runs)} runs, {seconds / 60:.0f} minutes of training in all; gathered on {machine}{commit}."
    mixed = [n for n in ("torch", "device", "commit") if len({str(r.made.get(n)) for r in results.runs.values()}) > 1]
    if mixed:
        facts += f" The runs differ in {' and '.join(mixed)}; results.json has those of each."
    banner = f"{note_of(results)[:1].upper()}{note_of(results)[1:]}.\n\n" if note_of(results) else ""
    return f"{banner}The tables and figures of Section 6 and Appendix C of {PAPER}.\n\n{facts}"


def _text(results: Results, study: Study) -> str:
    missing: dict[str, list[str]] = {}
    for failure in results.failures:
        if failure.name in study.runs:
            missing.setdefault(failure.reason, []).append(failure.name)
    return study.text + "".join(f"\n\nNot run: {', '.join(names)} ({reason})." for reason, names in missing.items())


def _exhibits(results: Results) -> list[Exhibit]:
    """What the page's explorer shows, in the order of the runs; an operator appears once for each problem."""
    found: dict[tuple[str, str], Exhibit] = {}
    for name, views in results.views.items():
        record = results.runs[name]
        names = (problem_name(record.settings), operator_name(record.settings))
        points = {there.label: there.points for there in record.measured}
        channels = (record.problem.input_names, record.problem.output_names)
        found.setdefault(names, Exhibit(*names, *channels, views, points))
    return list(found.values())
