"""The commands about results at the paper's scale: record, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from operformer.commands.console import console, show


def record(
    run: Path,
    *,
    protocol: Literal["paper", "best"],
    out: Path = Path("results"),
    replace: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Keep what a trained and evaluated run at the paper's scale gave, as results/PROTOCOL/NAME[-seed-K].json.

    Parameters
    ----------
    run
        The folder of the run.
    protocol
        paper: its data and operator, no augmentation, any training; best: the same pairs, all else free.
    out
        The folder of records.
    replace
        Replace another run's record of the same name.
    """
    from paper.archive import keep, record_run

    path = keep(record_run(run, protocol), out, replace)
    console.print(f"recorded: {path}; next: python -m paper report {out}", soft_wrap=True)


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
    from paper.results_page import write_results_page
    from paper.targets import resolution_table, target_table

    archive = write_results_page(records, path)
    show(target_table(archive))
    show(resolution_table(archive))
    count = sum(len(kept) for runs in archive.values() for kept in runs.values())
    console.print(f"{count} records; results: {path}", soft_wrap=True)
