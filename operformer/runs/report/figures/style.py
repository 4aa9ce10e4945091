"""What all figures share: fonts, one colour and one marker for each operator, ticks in per cent, files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRUTH, PREDICTION, INPUT = "#1a1a1a", "#c2410c", "#475569"
REFERENCE = "#94a3b8"
Look = tuple[str, str]  # colour and marker of a line
# By the operator's name as readers see it. After Okabe and Ito and after Tol, told apart by those who do not see red
# and green; markers tell them, too.
OPERATORS: dict[str, Look] = {
    "TNO": ("#0072B2", "o"),
    "TNO, constant channels": ("#56B4E9", "p"),
    "UniversalTNO": ("#88CCEE", "<"),
    "ViTNO": ("#009E73", "s"),
    "FANO": ("#D55E00", "D"),
    "SpectralOperator, no attention": ("#117733", "*"),
    "CodomainNO": ("#999933", ">"),
    "FNO": ("#4d4d4d", "^"),
    "AFNO": ("#CC79A7", "v"),
    "Galerkin transformer": ("#E69F00", "P"),
    "Galerkin transformer, 6 layers": ("#DDCC77", "P"),
    "transformer": ("#E69F00", "X"),
    "ViTNO, overlapping patches": ("#44AA99", "s"),
    "FANO, overlapping patches": ("#CC6677", "D"),
    "FANO, smoothing": ("#882255", "d"),
    "FANO, periodic extension": ("#332288", "h"),
}
_TURN = (("#0072B2", "o"), ("#E69F00", "s"), ("#009E73", "D"), ("#CC79A7", "v"), ("#4d4d4d", "^"))
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e2e8f0",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "operformer",
}


def look_of(operator: str) -> Look:
    """Colour and marker of an operator, the same in all figures."""
    if operator not in OPERATORS:
        raise KeyError(f"no colour for the operator {operator!r}; add it to OPERATORS in {__name__}")
    return OPERATORS[operator]


def in_turn(count: int) -> list[Look]:
    """Colours and markers of lines that are not told apart by their operators, such as problems or seeds."""
    return [_TURN[number % len(_TURN)] for number in range(count)]


def looks_of(operators: Sequence[str]) -> list[Look]:
    """Those of runs: their operators', or in turn where several runs have one operator."""
    if len(set(operators)) < len(operators):
        return in_turn(len(operators))
    return [look_of(operator) for operator in operators]


def new_figure(width: float, height: float, note: str = "") -> Figure:
    """A figure of its own, outside of pyplot's list of open ones; the note stands above it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    if note:
        figure.suptitle(note, fontsize=8, color="#9a3412", x=0.01, ha="left")
    return figure


def percent_ticks(axes: Axes) -> None:
    """Errors as percentages on a logarithmic axis, also where it spans less than a decade."""
    low, high = axes.get_ylim()
    subs = (1, 1.5, 2, 3, 4, 5, 6, 8) if high / low < 12 else (1, 2, 5) if high / low < 300 else (1,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.yaxis.set_minor_locator(NullLocator())


def shared_legend(figure: Figure) -> None:
    """One legend below all panels, each name once; inside a panel it could lie on the lines."""
    found = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    columns = min(len(found), len(figure.axes) * (3 if any(len(label) > 12 for label in found) else 5))
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns, fontsize=9)


@mpl.rc_context(STYLE)
def to_svg(figure: Figure) -> str:
    """The figure as the text of an SVG picture, the same for the same figure."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    return buffer.getvalue()


@mpl.rc_context(STYLE)
def to_png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG picture, the same for the same figure."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, bbox_inches="tight", metadata={"Software": None})
    return buffer.getvalue()
