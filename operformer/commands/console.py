"""Where commands speak: one console, tables on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table as Grille

from operformer.terminal import Terminal, cell

if TYPE_CHECKING:
    from operformer.runs.report.tables import Table

WIDEST = 1000  # columns; a terminal that has fewer breaks lines, which is better than cells that are cut
console = Terminal()


def show(table: Table) -> None:
    """Print a table, each row on one line however wide it is; columns of numbers stand on the right."""
    # Two spaces between columns: those of an evaluation fit into 80.
    grille = Grille(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name, is_right in zip(table.header, table.is_right, strict=True):
        grille.add_column(cell(name), justify="right" if is_right else "left", no_wrap=True)
    for row in table.rows:
        grille.add_row(*map(cell, row))
    console.print(table.title, style="bold", soft_wrap=True)
    Terminal(width=WIDEST).print(grille, crop=False)
