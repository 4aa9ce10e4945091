"""What a study is: experiments, and the tables and figures that are made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from operformer.runs.report.tables import Table
from paper.record import Results


@dataclass(frozen=True)
class TableOf:
    """A table; ``label`` is the paper's where it has one."""

    name: str  # of its files
    label: str
    make: Callable[[Results], Table]


@dataclass(frozen=True)
class FigureOf:
    """A figure and what it shows; None is drawn where none of its runs was made."""

    name: str
    label: str
    caption: str
    draw: Callable[[Results], Figure | None]


@dataclass(frozen=True)
class Study:
    """A part of Section 6, or of what goes beyond it."""

    name: str
    title: str
    text: str
    experiments: tuple[str, ...]
    tables: tuple[TableOf, ...] = ()
    figures: tuple[FigureOf, ...] = ()
