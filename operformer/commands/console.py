"""Where commands speak: one console, tables on it."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grille

from operformer.report.tables import Table

console = Console(highlight=False, markup=False)


def show(table: Table) -> None:
    """Print a table; columns of numbers stand on the right."""
    grille = Grille(title=table.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name, is_right in zip(table.header, table.is_right, strict=True):
        grille.add_column(name, justify="right" if is_right else "left")
    for row in table.rows:
        grille.add_row(*row)
    console.print(grille)
