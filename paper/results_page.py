"""RESULTS.md: what the records of results/ say, beside the paper's numbers; made of the records alone."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from pathlib import Path
from statistics import fmean, stdev

from operformer.files import write_bytes
from operformer.runs.report.figures import to_svg
from operformer.runs.report.tables import Table
from paper import studies
from paper.archive import Archive, file_name, read_archive
from paper.figures import headed
from paper.protocol import PROTOCOLS
from paper.recipes import RECIPES, reference
from paper.record import Record, Results, operator_name, problem_name
from paper.scales import Protocol
from paper.stated import LI_ET_AL, PAPER, STATED, Stated
from paper.tables import (
    ABSENT,
    error_text,
    grid_table,
    grouped,
    jump_table,
    rollout_table,
    without_empty,
)
from paper.targets import STEADY, STEADY_AIM, resolution_table, target_table

LI, WIDTHS = "Darcy flow of Li et al., 85 × 85", "Other widths"
SECTIONS: dict[str, tuple[str, ...]] = {
    "Lorenz 63 and a controlled ODE": (*studies.LORENZ, *studies.IRREGULAR, "controlled-ode"),
    "Darcy flow, lognormal, 64 × 64": (*studies.LOW, studies.DEEPER, studies.LOW_SPECTRAL),
    "Darcy flow, lognormal, 416 × 416": (*studies.LOGNORMAL, studies.SPECTRAL["darcy"]),
    "Darcy flow, piecewise, 416 × 416": (*studies.PIECEWISE, studies.SPECTRAL["piecewise"]),
    "Kolmogorov flow, 416 × 416": (
        *studies.KOLMOGOROV,
        studies.SPECTRAL["kolmogorov"],
        studies.SMOOTHED,
        studies.EXTENDED,
        studies.PATCHED,
    ),
    LI: ("darcy-li-85",),
    WIDTHS: tuple(name for names in studies.WIDTHS for name in names if "-width-" in name),
}
_OF_WIDTHS, _OF_EXTENSIONS = ("parameter_accuracy", "evaluation_cost_accuracy"), "superresolution_KF_patching"
_BEYOND = ("rollouts", "rollout_spectra", "error_spectra", "smoothing_spectra")  # the paper
_FIGURES = tuple(figure for study in studies.STUDIES.values() for figure in study.figures if figure.name not in _BEYOND)
_LEAD = f"""# Results at the paper's scale

Made by `operformer report results` from the records in [results/](results); a test compares them. Relative L2 errors of
test samples on the grid of the training. "In print" is {PAPER}.

- **paper** is the paper's protocol: its data and operators, no augmentation, our training. In the plane the authors
  train for at most 80 epochs, on a line for 100; where "epochs" has far fewer, an error above that in print says how
  far so short a training gets.
- **best** is our best recipe: the same number of training pairs and the same tests; operator and training are free.

Several seeds are given as mean ± standard deviation. Times are the clock's; runs may have shared their GPU."""
_STEADINESS = f"""At half to twice the resolution of the training a median L2 error is to stay within {STEADY} times
that on the training grid; the aim is {STEADY_AIM}. The largest multiple of each run, of several seeds the largest,
and the same in H1, of which nothing is asked:"""


def write_results_page(folder: Path, path: Path) -> Archive:
    """RESULTS.md at the path, from a folder's records; its figures go to folder/figures. What was read."""
    archive = read_archive(folder)
    figures = _draw(archive, folder / "figures")
    write_bytes(path, results_page(archive, figures, Path(os.path.relpath(folder, path.parent))).encode())
    return archive


def results_page(archive: Archive, figures: Sequence[str], folder: Path) -> str:
    """The page; figures are names of files in folder/figures."""
    lead = "Medians of the test samples if nothing else is said."
    parts = [_LEAD, "## Targets", lead, target_table(archive).markdown(), _STEADINESS]
    parts += [resolution_table(archive).markdown()]
    for title, names in _sections(archive).items():
        parts += [f"## {title}", problem_table(archive, title, names).markdown(), *_other_operators(archive, names)]
        if title == LI:
            means = ", ".join(f"{who} {error_text(error)}" for who, error in LI_ET_AL.items())
            parts += [f"Mean errors that others have printed: {means}."]
        for protocol in PROTOCOLS:
            made = [name for name in names if name in archive[protocol]]
            if made:
                table = grid_table(_results(archive, protocol), "", made)
                said = "Median error by grid, in brackets as a multiple of that on the training grid"
                parts += [f"{said} ({protocol}{_of_several(archive, protocol, made)}):", table.markdown()]
                parts += [*_jumps(archive, protocol, made), *_rollouts(archive, protocol, made)]
    if figures:
        parts += ["## Figures of Section 6 from these records"]
        parts += [line for name in figures for line in _figure(archive, name, folder / "figures")]
    parts += ["## Records", _record_table(archive, folder).markdown() if any(archive.values()) else "None yet."]
    return "\n\n".join(parts) + "\n"


def _figure(archive: Archive, name: str, folder: Path) -> tuple[str, str]:
    """What a file PROTOCOL-NAME.svg shows, and the file."""
    protocol = next(known for known in PROTOCOLS if name.startswith(known))
    figure = name.removeprefix(f"{protocol}-").removesuffix(".svg")
    caption = next(known.caption for known in _FIGURES if known.name == figure)
    if figure in _OF_WIDTHS and len(_widths(archive, protocol)) == 1:
        caption += " One width alone: the others have not been trained."
    return f"Figure **{figure}**, protocol {protocol}. {caption}", f"![{figure}]({(folder / name).as_posix()})"


def _widths(archive: Archive, protocol: Protocol) -> set[int]:
    """Those of the runs that figures of costs show."""
    shown = (record for names in studies.WIDTHS for name in names for record in archive[protocol].get(name, [])[:1])
    return {record.settings["operator"]["hidden_channels"] for record in shown}


def _sections(archive: Archive) -> dict[str, tuple[str, ...]]:
    """Runs by problem; those of other widths only as far as there are any."""
    made = tuple(name for name in SECTIONS[WIDTHS] if any(name in archive[protocol] for protocol in PROTOCOLS))
    return {title: names for title, names in (SECTIONS | {WIDTHS: made}).items() if names}


def problem_table(archive: Archive, title: str, names: Sequence[str]) -> Table:
    """One row for each run: what the paper prints, then what each protocol gave."""
    header = ["problem", "operator", "in print: parameters", "in print: median", "in print: worst"]
    for protocol in PROTOCOLS:
        named = ("median", "mean", "worst", "H1 median", "seeds", "parameters", "epochs", "training")
        header += [f"{protocol}: {column}" for column in named]
    rows = []
    for name in names:
        settings, stated = reference(name).to_mapping(), STATED.get(name, Stated("", ""))
        printed = "" if stated.parameters is None else f"{stated.parameters:.2e}"
        row = [problem_name(settings), _operator(settings["name"]), printed]
        row += [error_text(stated.median), error_text(stated.worst)]
        for protocol in PROTOCOLS:
            row += _cells(archive[protocol].get(name, []), name in RECIPES[protocol])
        rows.append(tuple(row))
    return without_empty(Table(title, tuple(header), grouped(rows)))


def _other_operators(archive: Archive, names: Sequence[str]) -> list[str]:
    """A sentence about the operators of the best recipe that the row does not name as they are."""
    best = {name: archive["best"][name][0].operator for name in names if name in archive["best"]}
    said = [f"that of {name} is {operator}" for name, operator in best.items() if operator != _operator(name)]
    return [f"Operators of the best recipe: {'; '.join(said)}."] if said else []


def _jumps(archive: Archive, protocol: Protocol, names: Sequence[str]) -> list[str]:
    """How much more an error jumps at the faces of patches than inside them, where there are any."""
    results = _results(archive, protocol)
    found = {name: results.runs[name].trained.jumps for name in names}
    patched = [name for name, jumps in found.items() if jumps is not None and jumps.face_ratio is not None]
    if not patched:
        return []
    said = "Jumps of the error between neighbouring points, root mean square in units of the truth's"
    table = jump_table(results, "", patched).markdown()
    return [f"{said} ({protocol}{_of_several(archive, protocol, patched)}):", table]


def _rollouts(archive: Archive, protocol: Protocol, names: Sequence[str]) -> list[str]:
    """How errors grow where an operator is applied to its own output, and what no change would give."""
    results = _results(archive, protocol)
    found = {name: results.runs[name].rollout for name in names}
    counts = {name: len(rollout.errors[0]) for name, rollout in found.items() if rollout is not None}
    if not counts:
        return []
    said = f"Median error of {max(counts.values())} test draws, each output the next input"
    table = rollout_table(results, "", list(counts)).markdown()
    return [f"{said} ({protocol}{_of_several(archive, protocol, list(counts))}):", table]


def spread_text(errors: Sequence[float]) -> str:
    """The error, or of several seeds mean and standard deviation."""
    if len(errors) == 1:
        return error_text(errors[0])
    return f"{error_text(fmean(errors))} ± {error_text(stdev(errors)) if stdev(errors) else '0 %'}"


def _operator(name: str) -> str:
    """That of the paper's run, of a run that the paper has not that of its recipe."""
    settings = (reference(name) if name in RECIPES["paper"] else RECIPES["best"][name]).to_mapping()
    width = f", width {settings['operator']['hidden_channels']}" if "-width-" in name else ""
    return operator_name(settings) + width


def _cells(records: Sequence[Record], is_planned: bool) -> list[str]:
    if not records:
        return [ABSENT if is_planned else "", *[""] * 7]
    l2, h1 = [r.trained.l2 for r in records], [r.trained.h1 for r in records]
    errors = [spread_text([getattr(one, key) for one in l2]) for key in ("median", "mean", "worst")]
    in_h1 = spread_text([one.median for one in h1 if one]) if all(h1) else ""
    seeds = str(len(records)) if len(records) > 1 else ""
    epochs = str(records[0].settings["training"]["epochs"])
    return [*errors, in_h1, seeds, f"{records[0].parameters:,}", epochs, f"{fmean(r.seconds for r in records):.0f} s"]


def _record_table(archive: Archive, folder: Path) -> Table:
    header = ("record", "commit", "device", "torch", "data", "training", "evaluation", "other than in the catalogue")
    rows = []
    for protocol in PROTOCOLS:
        for record in (record for records in archive[protocol].values() for record in records):
            made, name = record.made, f"{protocol}/{file_name(record)}"
            commit = f"{made['commit'] or 'unknown'}{', changed' if made['is_clean'] is False else ''}"
            clock = (record.clock["data"], record.seconds, record.clock["evaluation"])
            times = (f"{seconds:.0f} s" for seconds in clock)
            changes = ", ".join(f"{key}={here}" for key, (_, here) in record.changes.items())
            link = f"[{name}]({(folder / name).as_posix()}.json)"
            rows.append((link, commit, str(made["device"]), str(made["torch"]), *times, changes))
    return Table("Records", header, tuple(rows))


def _compares(figure: str, names: Container[str]) -> bool:
    """Whether the runs that a figure is there to compare with are among these."""
    return figure != _OF_EXTENSIONS or studies.EXTENDED in names


def _draw(archive: Archive, folder: Path) -> list[str]:
    """The figures that there are runs for, as files; those of runs that are no longer there are removed."""
    made = {}
    for protocol in PROTOCOLS:
        for figure in _FIGURES if archive[protocol] else ():
            if not _compares(figure.name, archive[protocol]):
                continue
            drawn = figure.draw(_results(archive, protocol))
            if drawn is not None:
                made[f"{protocol}-{figure.name}.svg"] = to_svg(headed(drawn, f"protocol: {protocol}"))
    for name, text in made.items():
        write_bytes(folder / name, text.encode())
    for path in folder.glob("*.svg"):
        if path.name not in made:
            path.unlink()
    return list(made)


def _results(archive: Archive, protocol: Protocol) -> Results:
    """The first seed of each run, as figures and tables of a reproduction take them."""
    runs = {name: records[0] for name, records in archive[protocol].items()}
    return Results(studies=(), scale="paper", made={}, costs={}, runs=runs)


def _of_several(archive: Archive, protocol: Protocol, names: Sequence[str]) -> str:
    return ", of several seeds the first" if any(len(archive[protocol][name]) > 1 for name in names) else ""
