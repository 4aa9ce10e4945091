"""The command about the paper's tables and figures: reproduce."""

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
    from paper.study import Study

LONGEST = 40  # letters of a cell on a console


def reproduce(
    *studies: str,
    scale: Literal["smoke", "paper"] = "smoke",
    out: Path = Path("runs/reproduction"),
    jobs: int | None = None,
    source: Annotated[Path | None, Parameter(name="--from")] = None,
) -> int:
    """Make the tables and figures of the paper's Section 6 and Appendix C again, the paper's column beside ours.

    What is done in the folder is not done again; the same command goes on after a stop. The exit code is that of the
    first run that failed, after all others were made.

    Parameters
    ----------
    studies
        all, or some of lorenz, time-resolution, irregular, low-resolution, high-resolution, cost, smoothing,
        periodic-extension, rollouts.
    scale
        smoke, which a laptop finishes, or the paper's.
    out
        The folder for runs, results.json, tables, figures and index.html.
    jobs
        Trainings at a time, which share the cores; one for each core (on a GPU: one) if not given.
    source
        A results.json to draw everything from again, without any run.
    """
    from operformer.errors import UsageError
    from paper.record import read_results
    from paper.reproduce import reproduce as carry_out
    from paper.runs import jobs_for
    from paper.section6 import EXPERIMENTS
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
        experiments = {name: scales[scale] for name, scales in EXPERIMENTS.items()}
        results = carry_out(chosen, experiments, scale, out, jobs or jobs_for(), _tell)
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
