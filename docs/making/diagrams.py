"""Block diagrams of the operators: boxes from left to right, each in the colour of what it does.

What acts at each point by itself has the first colour, what integrates over D or over patches the second, what changes
coefficients the third. The pages about operators show them.
"""

from dataclasses import dataclass
from itertools import pairwise

from matplotlib.patches import FancyBboxPatch, Rectangle

POINT, INTEGRAL, MODES, PLAIN = "C0", "C1", "C2", None
MEANING = {
    POINT: "at each point by itself",
    INTEGRAL: "an integral, by the grid's weights",
    MODES: "on coefficients of modes",
}


@dataclass(frozen=True)
class Box:
    """A step: its words, its kind and its width in parts of the row."""

    words: str
    kind: str | None = PLAIN
    width: float = 1.0


@dataclass(frozen=True)
class Diagram:
    """Rows of boxes; ``layer`` is the row inside a frame, which is repeated, and ``note`` stands in that frame."""

    rows: tuple[tuple[Box, ...], ...]
    layer: int
    note: str


def draw(figure, diagram, ink):
    """Rows below each other, arrows between the boxes, a legend of the colours that occur."""
    height, gap, count = 1.0, 0.75, len(diagram.rows)
    figure.set_size_inches(6.2, 0.45 + 0.98 * count)
    axes = figure.subplots()
    axes.set(xlim=(0, 10), ylim=(-0.75, count * (height + gap) - gap + 0.2))
    axes.axis("off")
    ends = []
    for number, row in enumerate(diagram.rows):
        bottom = (count - 1 - number) * (height + gap)
        if number == diagram.layer:
            frame = Rectangle((0.02, bottom - 0.3), 9.96, height + 0.6, fill=False, ec=ink, lw=0.9, ls=(0, (4, 3)))
            axes.add_patch(frame)
            axes.text(9.85, bottom + height + 0.14, diagram.note, ha="right", va="center", fontsize=8, color=ink)
        ends.append(_row(axes, row, bottom, height, ink))
    for number, ((_, start), (stop, _)) in enumerate(pairwise(ends)):
        depth = gap * (0.68 if number == diagram.layer else 0.24)  # below the frame, above the next one
        _turn(axes, start, stop, height, depth, ink)
    kinds = [kind for kind in MEANING if any(box.kind == kind for row in diagram.rows for box in row)]
    for k, kind in enumerate(kinds):
        left = (0.1, 2.9, 6.9)[k]
        axes.add_patch(Rectangle((left, -0.68), 0.22, 0.22, fc=kind, alpha=0.35, ec=kind))
        axes.text(left + 0.32, -0.57, MEANING[kind], va="center", fontsize=8, color=ink)


def _row(axes, row, bottom, height, ink):
    """Boxes and the arrows between them; the middle of the first one and of the last one."""
    space, left = 0.34, 0.25
    unit = (10 - 2 * left - space * (len(row) - 1)) / sum(box.width for box in row)
    middles = []
    for number, box in enumerate(row):
        wide = unit * box.width
        colour = box.kind or ink
        shape = FancyBboxPatch(
            (left, bottom), wide, height, boxstyle="round,pad=0,rounding_size=0.12", fc="none", ec=colour, lw=1.3
        )
        axes.add_patch(shape)
        if box.kind:
            filled = FancyBboxPatch((left, bottom), wide, height, boxstyle="round,pad=0,rounding_size=0.12", fc=colour)
            filled.set(alpha=0.2, lw=0)
            axes.add_patch(filled)
        axes.text(left + wide / 2, bottom + height / 2, box.words, ha="center", va="center", fontsize=8.2, color=ink)
        middles.append((left + wide / 2, bottom + height / 2))
        if number < len(row) - 1:
            _arrow(
                axes, (left + wide + 0.02, bottom + height / 2), (left + wide + space - 0.02, bottom + height / 2), ink
            )
        left += wide + space
    return middles[0], middles[-1]


def _turn(axes, start, stop, height, depth, ink):
    """From the last box of a row down and back to the first one of the next."""
    between = start[1] - height / 2 - depth
    axes.plot([start[0], start[0], stop[0]], [start[1] - height / 2, between, between], color=ink, lw=1.1)
    _arrow(axes, (stop[0], between), (stop[0], stop[1] + height / 2 + 0.02), ink)


def _arrow(axes, start, stop, ink):
    axes.annotate(
        "", stop, start, arrowprops={"arrowstyle": "-|>", "color": ink, "lw": 1.1, "shrinkA": 0, "shrinkB": 0}
    )


SCORE = "w_j e^{\\langle q_i, k_j\\rangle}"
ATTENTION = f"attention over $D$\n$\\sum_j {SCORE} v_j\\, /\\, \\sum_j {SCORE}$"
NORM = Box("add,\nnorm", PLAIN, 0.55)
FEED = Box("feed-\nforward", POINT, 0.8)
JOINED = (  # the last row of a patched operator
    Box("join or blend\nthe patches", PLAIN),
    Box("head", POINT, 0.7),
    Box("last layer on $D$\n(optional)", INTEGRAL, 1.1),
    Box("$z(x)$", PLAIN, 0.6),
)
DIAGRAMS = {
    "tno": Diagram(
        (
            (Box("$u(x),\\ x$\nat $N$ points of $D$", PLAIN, 1.2), Box("lift to\n$d_{model}$ channels", POINT)),
            (
                Box(
                    ATTENTION,
                    INTEGRAL,
                    2.6,
                ),
                NORM,
                FEED,
                NORM,
            ),
            (Box("head", POINT), Box("$z(x)$ at the same points,\nor at any others", PLAIN, 1.6)),
        ),
        1,
        "$L$ layers",
    ),
    "vitno": Diagram(
        (
            (
                Box("$u(x),\\ x$\non $D$", PLAIN, 0.8),
                Box("$P$ patches\nof $D$", PLAIN, 0.8),
                Box("lift: a Fourier integral\noperator on each patch", INTEGRAL, 1.6),
            ),
            (
                Box("scores of two patches\n$\\int_{D'} Qv(j) \\cdot Kv(k)\\, dx$", INTEGRAL, 1.7),
                Box("average of\n$V v(k)$", POINT, 0.8),
                NORM,
                FEED,
                NORM,
            ),
            JOINED,
        ),
        1,
        "$L$ layers",
    ),
    "fano": Diagram(
        (
            (
                Box("$u(x),\\ x$\non $D$", PLAIN, 0.8),
                Box("lift to\n$d_{model}$ channels", POINT),
                Box("$P$ patches\nof $D$", PLAIN, 0.8),
            ),
            (
                Box("analysis\non each\npatch", INTEGRAL, 0.85),
                Box("$Q, K, V$:\na matrix\na mode", MODES, 0.9),
                Box(
                    "attention between\npatches' coefficients\n$\\langle R_Q\\hat v(j), R_K\\hat v(k)\\rangle$",
                    MODES,
                    1.9,
                ),
                Box("syn-\nthesis", POINT, 0.7),
                NORM,
                FEED,
                NORM,
            ),
            JOINED,
        ),
        1,
        "$L$ layers",
    ),
    "spectral": Diagram(
        (
            (Box("$u(x),\\ x$\non $D$", PLAIN), Box("lift to\n$d_{model}$ channels", POINT)),
            (
                Box("coefficients\n$\\mathcal{F}v$ on all of $D$", INTEGRAL, 1.4),
                Box("$R(k)$:\na matrix a mode", MODES, 1.2),
                Box("$\\mathcal{F}^{-1}$,\nthen $W$", POINT, 0.8),
                NORM,
                FEED,
                NORM,
            ),
            (Box("head", POINT, 0.7), Box("last layer on $D$\n(optional)", INTEGRAL, 1.1), Box("$z(x)$", PLAIN, 0.6)),
        ),
        1,
        "$L$ layers, no attention",
    ),
}
