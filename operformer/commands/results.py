"""The commands about results at the paper's scale: record, and report of a folder of records."""

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
    from operformer.reproduction.archive import keep, record_run

    path = keep(record_run(run, protocol), out, replace)
    console.print(f"recorded: {path}; next: operformer report {out}", soft_wrap=True)


def report_records(folder: Path, path: Path) -> None:
    """Write RESULTS.md and its figures from the records of a folder."""
    from operformer.reproduction.results_page import write_results_page
    from operformer.reproduction.targets import resolution_table, target_table

    archive = write_results_page(folder, path)
    show(target_table(archive))
    show(resolution_table(archive))
    count = sum(len(records) for runs in archive.values() for records in runs.values())
    console.print(f"{count} records; results: {path}", soft_wrap=True)
