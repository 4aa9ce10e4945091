"""The commands that hand an operator on: card, models, export."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from operformer.commands.console import console, show
from operformer.errors import UsageError


def card(run: Path, *, name: str = "owner/name", licence: str | None = None) -> None:
    """Write the card of an evaluated run, README.md, beside its operator's weights, for the Hub.

    Parameters
    ----------
    run
        The folder of the run.
    name
        What the operator is, or will be, called on the Hub.
    licence
        Of the weights, as the Hub spells it, such as mit; the card names none if it is not given.
    """
    from operformer.runs import read_run
    from operformer.sharing.card import write_card

    path = run / "operator" / "README.md"
    write_card(read_run(run), path, name, licence)
    console.print(f'card: {path}; next: operformer.push_to_hub("{run / "operator"}", "{name}")', soft_wrap=True)


def models() -> None:
    """List the models that come with the library: what they map, where they were trained, their errors and sizes."""
    from operformer.sharing.card import model_table

    show(model_table())


def export(run: Path, out: Path, *, kind: Literal["nodes", "cells", "periodic", "left"] | None = None) -> None:
    """Write a trained operator as one graph for uniform grids of any resolution: .pt2 (torch.export) or .onnx.

    Where z had points of its own in the training samples, the graph gives z there.

    Parameters
    ----------
    run
        The folder of a run, or of a saved operator.
    out
        The file.
    kind
        Where the values lie; on the run's own kind of grid if not given, on nodes without a run.
    """
    from operformer.domain.grid import UNIFORM_KINDS
    from operformer.operators import load
    from operformer.runs import read_experiment
    from operformer.sharing.exporting import export as write

    is_run, names, units, query = (run / "operator").is_dir(), (), None, None
    if is_run:
        experiment = read_experiment(run)
        problem = experiment.problem
        names, units = (problem.input_names, problem.output_names), problem.units  # type: ignore[assignment]
        query = problem.query
        own = problem.grid(experiment.data.resolution).kind
        if kind is None and own not in UNIFORM_KINDS:
            kinds = ", ".join(UNIFORM_KINDS)
            raise UsageError(f"{run} was trained on {own} points; give the --kind of the graph's grid: one of {kinds}")
        kind = kind or own  # type: ignore[assignment]  # one of them
    path = write(load(run / "operator" if is_run else run), out, kind or "nodes", names, query, units=units)
    console.print(f"exported: {path}", soft_wrap=True)
