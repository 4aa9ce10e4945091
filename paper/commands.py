"""The paper's commands: train, queue, sweep, record, standardise, report, reproduce, ship."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from operformer.commands.console import console, show

if TYPE_CHECKING:
    from paper.record import Results
    from paper.runs import Failure
    from paper.studies import Study

LONGEST = 40  # letters of a cell on a console
Override = Annotated[str, Parameter(help="Changed settings, such as training.epochs=5 operator.n_heads=2.")]


def train(
    run: str,
    *overrides: Override,
    recipe: Literal["smoke", "authors", "same-operator", "best"] = "smoke",
    out: Path | None = None,
) -> None:
    """Train a run of the catalogue; the same command again resumes where it stopped.

    Parameters
    ----------
    run
        A name, such as darcy-416-fano; python -m paper experiments lists them.
    recipe
        smoke: minutes on a laptop. authors: the paper's own training at its size. same-operator: the paper's data and
        operator with our training. best: our best recipe. The last two give records.
    out
        The folder of the run; runs/NAME-RECIPE[-seed-K] if not given, runs/NAME for smoke.
    """
    from operformer.runs import train_run
    from operformer.training.ranks import is_first
    from paper.recipes import find_run

    found = find_run(run, recipe, overrides)
    seed = f"-seed-{found.training.seed}" if found.training.seed else ""
    folder = out or Path("runs") / (found.name if recipe == "smoke" else f"{found.name}-{recipe}{seed}")
    train_run(found, folder)
    if is_first():
        console.print(f"trained: {folder}; next: operformer evaluate {folder}", soft_wrap=True)


def record(
    run: Path,
    *,
    recipe: Literal["same-operator", "best"],
    out: Path = Path("results"),
    fresh: Annotated[bool, Parameter(negative="")] = False,
    replace: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Keep what a trained and evaluated run at the paper's size gave, as results/RECIPE/NAME[-seed-K].json.

    Parameters
    ----------
    run
        The folder of the run.
    recipe
        same-operator: the paper's data and operator, no augmentation, any training. best: the same samples, all else
        free.
    out
        The folder of records.
    fresh
        Draw 500 samples of another seed, which nothing was chosen by, and keep the errors on them, too.
    replace
        Replace another run's record of the same name.
    """
    from paper.archive import FRESH, keep, record_run

    path = keep(record_run(run, recipe, FRESH if fresh else 0), out, replace)
    console.print(f"recorded: {path}; next: python -m paper report {out}", soft_wrap=True)


def queue(
    *runs: str,
    minutes: float = 0.0,
    left: float = 0.0,
    records: Path = Path("results"),
    folder: Path = Path("runs/queue"),
) -> None:
    """List what is still to be trained for RESULTS.md, with minutes of one H200; run what fits into a time.

    A training that the time is too short for is stopped with a checkpoint. The same command resumes it, also on another
    machine that has its folder. Every run ends in a record, fresh samples included.

    Parameters
    ----------
    runs
        Names as the list has them, or of runs with all their recipes and seeds; all if none is given.
    minutes
        The time there is; nothing is run without it.
    left
        How long the machine stays after that, with its folders: trainings whose checkpoints are large may begin.
    records
        The folder of records.
    folder
        Where runs are trained, one folder each.
    """
    from operformer.runs.report.tables import Table
    from paper import queue as waiting

    chosen = waiting.find_entries(runs)
    if minutes > 0:
        made = waiting.work(chosen, records, folder, minutes, _tell, left)
        _tell(f"{made} records made; next: python -m paper report {records}")
        return
    found = waiting.states(chosen, records, folder)
    lines = tuple((s.entry.name, s.text, f"{s.minutes:.0f}") for s in found if not s.is_recorded)
    show(Table("To run", ("run", "state", "minutes"), lines))
    total = sum(state.minutes for state in found)
    done = sum(state.is_recorded for state in found)
    _tell(f"{done} of {len(found)} recorded; {total / 60:.1f} hours left; next: python -m paper queue --minutes 25")


def sweep(
    *runs: str,
    recipe: Literal["smoke", "same-operator"] = "smoke",
    rates: tuple[float, ...] = (),
    settings: tuple[str, ...] = (),
    out: Path | None = None,
) -> None:
    """Choose optimiser, rate and schedule of operators on validation samples, each by the same short trainings.

    A sweep by the recipe same-operator is kept as results/sweeps/OPERATOR.json, and that recipe then follows it at 416
    points. The same command resumes.

    Parameters
    ----------
    runs
        One run of each operator; the four of Section 6.2 on lognormal Darcy flow if none is given.
    recipe
        smoke, minutes on a laptop, or same-operator: the paper's operator and grid, 400 samples, 4 epochs.
    rates
        Learning rates; 5e-4, 1e-3, 2e-3, 4e-3 and 8e-3 if none is given.
    settings
        Changed settings, such as training.epochs=2.
    out
        The folder of the sweeps; results/sweeps, of smoke runs/sweeps if not given.
    """
    from paper import sweep as choosing
    from paper.catalogue import LOGNORMAL, rows
    from paper.recipes import SWEEPS, find_run

    names = runs or tuple(row.name for row in rows("2d_median_errors_high", LOGNORMAL))
    place = out or (SWEEPS if recipe == "same-operator" else Path("runs/sweeps"))
    for name in names:
        short = choosing.SHORT if recipe == "same-operator" else ()
        experiment = find_run(name, recipe, (*short, *settings))
        path = place / f"{experiment.operator['name']}.json"
        best = choosing.sweep(experiment, recipe, choosing.ways(rates or choosing.RATES), path, _tell)
        _tell(f"{name}: {best.optimizer}, {best.learning_rate:g}, {best.schedule}; kept: {path}")


def standardise(records: Path = Path("results")) -> None:
    """Add errors of standardised outputs to records that have none; test samples are drawn again.

    Parameters
    ----------
    records
        The folder that record wrote to.
    """
    from paper.units import standardise_records

    done, left = standardise_records(records, _tell)
    _tell(f"{done} records standardised, {left} not; next: python -m paper report {records}")


def report(records: Path = Path("results"), *, out: Path | None = None) -> None:
    """Write RESULTS.md and its figures from the records of a folder.

    Parameters
    ----------
    records
        The folder that record wrote to.
    out
        The page; RESULTS.md beside the folder if not given.
    """
    from operformer.errors import UsageError
    from paper.archive import is_archive

    if not is_archive(records):
        raise UsageError(f"{records} holds no records; make one with: python -m paper record RUN")
    path = out or records.resolve().parent / "RESULTS.md"
    from paper.results_page import resolution_table, write_results_page
    from paper.summary import summary_table

    archive = write_results_page(records, path)
    show(summary_table(archive))
    show(resolution_table(archive))
    count = sum(len(kept) for runs in archive.values() for kept in runs.values())
    console.print(f"{count} records; results: {path}", soft_wrap=True)


def reproduce(
    *studies: str,
    recipe: Literal["smoke", "authors"] = "smoke",
    out: Path = Path("runs/reproduction"),
    jobs: int | None = None,
    source: Annotated[Path | None, Parameter(name="--from")] = None,
) -> int:
    """Make the tables and figures of the paper's Section 6 and Appendix C again, the paper's column beside ours.

    What is done in the folder is not done again; the same command resumes after a stop. The exit code is that of the
    first run that failed, after all others were made.

    Parameters
    ----------
    studies
        all, or some of lorenz, time-resolution, irregular, low-resolution, high-resolution, cost, smoothing,
        periodic-extension, rollouts.
    recipe
        smoke, which a laptop finishes, or authors, the paper's own training at its size.
    out
        The folder for runs, results.json, tables, figures and index.html.
    jobs
        Trainings at a time, which share the cores; one for each core (on a GPU: one) if not given.
    source
        A results.json to draw everything from again, without any run.
    """
    from operformer.errors import UsageError
    from paper.catalogue import rows
    from paper.recipes import train_as
    from paper.record import read_results
    from paper.reproduce import reproduce as carry_out
    from paper.runs import jobs_for
    from paper.studies import choose_studies

    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs must be at least 1: got {jobs}")
    if source is not None:
        results = read_results(source)
        chosen = choose_studies(studies or results.studies)
        missing = [study.name for study in chosen if study.name not in results.studies]
        if missing and "all" not in studies:
            raise UsageError(f"{source} holds no study {missing[0]}; it has {', '.join(results.studies)}")
        chosen = tuple(study for study in chosen if study.name in results.studies)
    else:
        chosen = choose_studies(studies)
        experiments = {row.name: train_as(row, recipe) for row in rows(recipe=recipe)}
        results = carry_out(chosen, experiments, recipe, out, jobs or jobs_for(), _tell)
    return finish(results, chosen, out)


def finish(results: Results, studies: Sequence[Study], out: Path) -> int:
    """Draw everything, show the tables, name what is missing; the exit code."""
    from paper.drawing import draw

    started = time.monotonic()
    for table in draw(results, studies, out):
        if max(len(cell) for row in table.rows for cell in row) < LONGEST:  # the others are for reading in their files
            show(table)
    _tell(f"tables, figures and page in {time.monotonic() - started:.0f} s: {(out / 'index.html').resolve().as_uri()}")
    sys.stdout.flush()
    failed = [failure for failure in results.failures if not failure.is_missing_package]
    for line in _complaints(results.failures):
        print(f"operformer: {line}", file=sys.stderr)
    return failed[0].exit_code if failed else 0


def ship(run: Path, *, name: str, into: Path | None = None) -> None:
    """Make an evaluated run a small model with its card: half-precision weights, where that changes no error.

    Parameters
    ----------
    run
        The folder of the run.
    name
        What it is called; a model of that name is replaced.
    into
        The folder that gets a folder of that name; if not given, the models that come with the library, which
        operformer.load knows by name.
    """
    from operformer.operators.pretrained import SHIPPED
    from paper.shipping import ship as put

    place = put(run, name, into or SHIPPED)
    known = name if into is None else place
    console.print(f'shipped: {place}; next: operformer.load("{known}")', soft_wrap=True)


def _complaints(failures: Sequence[Failure]) -> list[str]:
    """A line for each failure; runs that lack the same package share one."""
    lines = [f"{failure.name} failed: {failure.reason}" for failure in failures if not failure.is_missing_package]
    for reason in dict.fromkeys(failure.reason for failure in failures if failure.is_missing_package):
        names = [failure.name for failure in failures if failure.reason == reason]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(f"not run: {shown}: {reason}")
    return lines


def _tell(line: str) -> None:
    console.print(line, soft_wrap=True)
