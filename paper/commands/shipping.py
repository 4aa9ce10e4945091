"""The command that makes a run a model of the library: ship."""

from __future__ import annotations

from pathlib import Path

from operformer.commands.console import console


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
