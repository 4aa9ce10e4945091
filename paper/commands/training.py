"""The command that trains a run of the catalogue: train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from operformer.commands.console import console

Override = Annotated[str, Parameter(help="Changed settings, such as training.epochs=5 operator.n_heads=2.")]


def train(
    run: str,
    *overrides: Override,
    out: Path | None = None,
    scale: Literal["smoke", "paper"] | None = None,
    protocol: Literal["paper", "best"] | None = None,
) -> None:
    """Train a run of the catalogue; the same command again resumes where it stopped.

    Parameters
    ----------
    run
        A name, such as darcy-416-fano; python -m paper experiments lists them.
    out
        The folder of the run; runs/NAME if not given, with a protocol runs/NAME-PROTOCOL[-seed-K].
    scale
        smoke, which a laptop finishes (if not given), or the paper's sizes and its authors' training.
    protocol
        In place of a scale: our recipe at the paper's scale, for its protocol or the best there is; see record.
    """
    from operformer.runs import train_run
    from operformer.training.ranks import is_first
    from paper.lookup import find_run

    found = find_run(run, scale, overrides, protocol)
    seed = f"-seed-{found.training.seed}" if found.training.seed else ""
    folder = out or Path("runs") / (f"{found.name}-{protocol}{seed}" if protocol else found.name)
    train_run(found, folder)
    if is_first():
        console.print(f"trained: {folder}; next: operformer evaluate {folder}", soft_wrap=True)
