"""RESULTS.md: what the records of results/ say, beside the paper's numbers; made of the records alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from operformer.files import write_bytes
from operformer.runs.report.figures import to_svg
from operformer.runs.report.tables import Table
from operformer.text import Marked
from paper.archive import Archive, file_name, read_archive
from paper.catalogue import CATALOGUE, LI, LI_ET_AL, LI_REMARK, PAPER, Recipe, rows
from paper.figures import headed
from paper.recipes import RECORDED
from paper.record import Record, Results
from paper.studies import PICTURED, STUDIES, runs_of
from paper.summary import problem_table, summary_table
from paper.tables import error_text, grid_table, jump_table, rollout_table, without_empty

WIDTHS = "Other widths"
_OF_WIDTHS, _OF_EXTENSIONS = ("parameter_accuracy", "evaluation_cost_accuracy"), "superresolution_KF_patching"
_BEYOND = ("rollouts", "rollout_spectra", "error_spectra", "smoothing_spectra")  # the paper
_FIGURES = tuple(figure for study in STUDIES.values() for figure in study.figures if figure.name not in _BEYOND)
_LEAD = f"""# Results at the paper's size

Made by `python -m paper report results` from the records in [results/](results); a test compares them. Errors are
relative L2 errors of test samples on the grid of the training. "In print" is {PAPER}.

**Units.** The paper's code standardises outputs by one mean and one deviation of all training samples, and measures its
errors on them. Compare what is in print with **standardised** errors. **Physical** errors are relative to the output
itself, as the library gives them; means, worst and H1 errors are physical. Where a record does not tell a standardised
error, it says "not measured". Numbers of others on the problem of Li et al. are physical.

**Recipes.**

- **same-operator**: the paper's data and operator with our training, no augmentation. In the plane the authors train
  for at most 80 epochs, on a line for 100.
- **best**: our best recipe. The same number of training samples and the same tests; operator and training are free. A
  SpectralOperator has no attention.

"Last tenth" is the change of the validation error in the last tenth of the epochs; a training has converged if it falls
by less than 2 %. "Fresh samples" are 500 of another seed, looked at once. Several seeds are given as mean ± standard
deviation. Times are the clock's; runs may have shared their GPU."""
_RESOLUTIONS = ("0.5x", "0.75x", "1.5x", "2x")
_STEADINESS = """The largest median error at half to twice the resolution of the training, as a multiple of that on the
training grid, and the grid that has it; of several seeds the largest:"""


def write_results_page(folder: Path, path: Path) -> Archive:
    """RESULTS.md at the path, from a folder's records; its figures go to folder/figures. What was read."""
    archive = read_archive(folder)
    figures = _draw(archive, folder / "figures")
    write_bytes(path, results_page(archive, figures, Path(os.path.relpath(folder, path.parent))).encode())
    return archive


def results_page(archive: Archive, figures: Sequence[str], folder: Path) -> str:
    """The page; figures are names of files in folder/figures."""
    summary = "The lowest error of each problem, standardised, in brackets physical, and the operator that has it:"
    parts = [_LEAD, "## In print and here", summary, summary_table(archive).markdown()]
    parts += ["## Change of resolution", _STEADINESS, resolution_table(archive).markdown()]
    for title, names in _sections(archive).items():
        parts += [f"## {title}", problem_table(archive, title, names).markdown()]
        if title == LI:
            means = ", ".join(f"{who} {error_text(error)}" for who, error in LI_ET_AL.items())
            parts += [f"Mean errors that others have printed, physical: {means}. {LI_REMARK}"]
        for recipe in RECORDED:
            made = [name for name in names if name in archive[recipe]]
            if made:
                table = grid_table(_results(archive, recipe), "", made)
                said = "Median error by grid, in brackets as a multiple of that on the training grid"
                parts += [f"{said} ({recipe}{_of_several(archive, recipe, made)}):", table.markdown()]
                parts += [*_jumps(archive, recipe, made), *_rollouts(archive, recipe, made)]
    if figures:
        parts += ["## Figures of Section 6 from these records"]
        parts += [line for name in figures for line in _figure(archive, name, folder / "figures")]
    parts += ["## Records", _record_table(archive, folder).markdown() if any(archive.values()) else "None yet."]
    return "\n\n".join(parts) + "\n"


def _figure(archive: Archive, name: str, folder: Path) -> tuple[str, str]:
    """What a file RECIPE-NAME.svg shows, and the file."""
    recipe = next(known for known in RECORDED if name.startswith(known))
    figure = name.removeprefix(f"{recipe}-").removesuffix(".svg")
    caption = next(known.caption for known in _FIGURES if known.name == figure)
    if figure in PICTURED:
        made = (archive[recipe][name][0] for name in runs_of(figure) if name in archive[recipe])
        caption = f"{next(record for record in made if PICTURED[figure] in record.looks).operator}. {caption}"
    if figure in _OF_WIDTHS and len(_widths(archive, recipe)) == 1:
        caption += " One width alone: the others have not been trained."
    return f"Figure **{figure}**, recipe {recipe}. {caption}", f"![{figure}]({(folder / name).as_posix()})"


def _widths(archive: Archive, recipe: Recipe) -> set[int]:
    """Those of the runs that figures of costs show."""
    shown = (record for row in rows(_OF_WIDTHS[0]) for record in archive[recipe].get(row.name, [])[:1])
    return {record.settings["operator"]["hidden_channels"] for record in shown}


def _sections(archive: Archive) -> dict[str, list[str]]:
    """Runs by problem; those of other widths only as far as there are any."""
    found: dict[str, list[str]] = {}
    for row in CATALOGUE.values():
        is_other_width = row.variant.startswith("width-")
        if not is_other_width or any(row.name in archive[recipe] for recipe in RECORDED):
            found.setdefault(WIDTHS if is_other_width else row.problem, []).append(row.name)
    return found


def resolution_table(archive: Archive) -> Table:
    """By run and recipe the largest multiple of the training grid's median at `_RESOLUTIONS`, in L2 and in H1.

    Of several seeds the largest counts; an operator of one grid alone has no line.
    """
    lines = []
    for name in CATALOGUE:
        cells = [_largest_multiple(archive[recipe].get(name, []), norm) for recipe in RECORDED for norm in ("l2", "h1")]
        if any(cells):
            lines.append((name, *cells))
    header = ("run", *(f"{recipe}: {norm}" for recipe in RECORDED for norm in ("L2", "H1")))
    return without_empty(Table("Change of resolution", header, tuple(lines)))


def _largest_multiple(records: Sequence[Record], norm: str) -> str:
    """Of the training grid's median error, and the grid that has it; empty where an error cannot be compared."""
    found = []
    for record in records:
        trained = getattr(record.trained, norm)
        there = ((getattr(m, norm), m.label) for m in record.measured if m.label in _RESOLUTIONS)
        found += [(one.median / trained.median, label) for one, label in there if one and trained and trained.median]
    return "{:.2f} at {}".format(*max(found)) if found else ""


def _jumps(archive: Archive, recipe: Recipe, names: Sequence[str]) -> list[str]:
    """How much more an error jumps at the faces of patches than inside them, where there are any."""
    results = _results(archive, recipe)
    found = {name: results.runs[name].trained.jumps for name in names}
    patched = [name for name, jumps in found.items() if jumps is not None and jumps.face_ratio is not None]
    if not patched:
        return []
    said = "Jumps of the error between neighbouring points, root mean square in units of the truth's"
    table = jump_table(results, "", patched).markdown()
    return [f"{said} ({recipe}{_of_several(archive, recipe, patched)}):", table]


def _rollouts(archive: Archive, recipe: Recipe, names: Sequence[str]) -> list[str]:
    """How errors grow where an operator is applied to its own output, and what no change would give."""
    results = _results(archive, recipe)
    found = {name: results.runs[name].rollout for name in names}
    counts = {name: len(rollout.errors[0]) for name, rollout in found.items() if rollout is not None}
    if not counts:
        return []
    said = f"Median error of {max(counts.values())} test samples, each output the next input"
    table = rollout_table(results, "", list(counts)).markdown()
    return [f"{said} ({recipe}{_of_several(archive, recipe, list(counts))}):", table]


def _record_table(archive: Archive, folder: Path) -> Table:
    header = ("record", "commit", "device", "torch", "data", "training", "evaluation", "other than the authors' run")
    rows = []
    for recipe in RECORDED:
        for record in (record for records in archive[recipe].values() for record in records):
            made, name = record.made, f"{recipe}/{file_name(record)}"
            commit = f"{made['commit'] or 'unknown'}{', changed' if made['is_clean'] is False else ''}"
            clock = (record.clock["data"], record.seconds, record.clock["evaluation"])
            times = (f"{seconds:.0f} s" for seconds in clock)
            changes = ", ".join(f"{key}={here}" for key, (_, here) in record.changes.items() if here is not None)
            link = Marked(f"[{name}]({(folder / name).as_posix()}.json)")
            rows.append((link, commit, str(made["device"]), str(made["torch"]), *times, changes))
    return Table("Records", header, tuple(rows))


def _draw(archive: Archive, folder: Path) -> list[str]:
    """The figures that there are runs for, as files; those of runs that are no longer there are removed."""
    made = {}
    for recipe in RECORDED:
        for figure in _FIGURES if archive[recipe] else ():
            if figure.name == _OF_EXTENSIONS and not any(
                row.name in archive[recipe] for row in rows(_OF_EXTENSIONS, variants=("extension",))
            ):
                continue  # nothing is extended: a FANO alone is no comparison
            drawn = figure.draw(_results(archive, recipe))
            if drawn is not None:
                made[f"{recipe}-{figure.name}.svg"] = to_svg(headed(drawn, f"recipe: {recipe}"))
    for name, text in made.items():
        write_bytes(folder / name, text.encode())
    for path in folder.glob("*.svg"):
        if path.name not in made:
            path.unlink()
    return list(made)


def _results(archive: Archive, recipe: Recipe) -> Results:
    """The first seed of each run, as figures and tables of a reproduction take them."""
    runs = {name: records[0] for name, records in archive[recipe].items()}
    return Results(studies=(), recipe=recipe, made={}, costs={}, runs=runs)


def _of_several(archive: Archive, recipe: Recipe, names: Sequence[str]) -> str:
    return ", of several seeds the first" if any(len(archive[recipe][name]) > 1 for name in names) else ""
