"""The figures of the documentation, as SVG in two schemes: docs/pictures/NAME.svg, written by `make pictures`.

Colours are variables of a style sheet inside the file, which follows the reader's scheme. So one file serves a code
host and the site, in the light and in the dark.
"""

import io
import json
from pathlib import Path

import diagrams
import matplotlib as mpl
import measurements
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from operformer import Grid, Overlap
from operformer.domain.blending import make_cover
from operformer.problems import ControlledODE, Darcy, Kolmogorov, Lorenz63

BLENDING = Path(__file__).parents[1] / "blending.json"  # by benchmarks/blended_patches.py

# Ink, lines of grids, then colours after Okabe and Ito: in the light scheme, in the dark one.
INK, FAINT = ("#333333", "#d8dbe2"), ("#dddddd", "#474c58")
COLOURS = (("#0072b2", "#56b4e9"), ("#d55e00", "#e69f00"), ("#009e73", "#2bc59a"), ("#b3559a", "#e29acb"))


def picture(draw, data):
    """A figure on no background, as SVG that follows the scheme of its reader."""
    ink = INK[0]
    style = {
        "font.size": 10.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.prop_cycle": mpl.cycler(color=[light for light, _ in COLOURS]),
        "grid.color": FAINT[0],
        "legend.frameon": False,
        "svg.hashsalt": "operformer",
    }
    style |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink)
    with mpl.rc_context(style):
        figure = Figure(figsize=(6.2, 3.9), layout="constrained")
        draw(figure, data, ink)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return in_both_schemes(buffer.getvalue())


def in_both_schemes(svg):
    """The colours of the light scheme become variables, which have other values in the dark."""
    light, dark = "", ""
    for k, (day, night) in enumerate((INK, FAINT, *COLOURS)):
        svg = svg.replace(to_hex(day), f"var(--c{k})")
        light += f"--c{k}: {day};"
        dark += f"--c{k}: {night};"
    # Without a colour of its own, text is black.
    sheet = f":root {{{light} fill: var(--c0)}} @media (prefers-color-scheme: dark) {{:root {{{dark}}}}}"
    head, end, body = svg.partition("<defs>")
    return f"{head}<style>{sheet}</style>\n {end}{body}"


def draw_orders(figure, data, ink):
    """The error of attention against the number of points, and the orders at which it falls."""
    errors, sizes = data
    axes = figure.subplots()
    for (name, row), marker in zip(errors.items(), "osDX", strict=True):
        points = [n if name.startswith("random") else n - 1 for n in sizes]
        order = measurements.observed_order(points, row)
        axes.loglog(sizes, row, marker=marker, label=f"{name}: order {order:.2f}")
    axes.set(xlabel="number of points N", ylabel="largest error of A(u)")
    axes.set_xticks(sizes, sizes)
    axes.xaxis.set_minor_formatter(NullFormatter())
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)


def draw_graded(figure, _, ink):
    """A(u) in the continuum, and by 17 points that crowd at 0 with and without their weights."""
    axes, grid = figure.subplots(), measurements.graded(17)
    x = measurements.X
    axes.plot(x, measurements.continuum(x), color=ink, lw=3, alpha=0.35, label="the integral")
    axes.plot(x, measurements.attend(x, grid.points, grid.weights), label="17 points, trapezoidal weights")
    axes.plot(x, measurements.attend(x, grid.points), ls="--", label="17 points, equal weights")
    axes.plot(grid.points, torch.full_like(grid.points, axes.get_ylim()[0]), "|", color=ink, ms=9, clip_on=False)
    axes.set(xlabel="x (ticks: where u is known)", ylabel="A(u)(x)")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)


def draw_rounding(figure, data, ink):
    """What rounding every value costs in L2 and in H1."""
    found, sizes = data
    axes = figure.subplots()
    for number, ((dtype, norm), row) in enumerate(found.items()):
        axes.loglog(
            sizes, row, color=f"C{number // 2}", ls="-" if norm == "H1" else ":", marker="o", label=f"{dtype}, {norm}"
        )
    axes.set(xlabel="nodes along each axis", ylabel="relative error of the rounded function")
    axes.set_xticks(sizes, sizes)
    axes.xaxis.set_minor_formatter(NullFormatter())
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)


def draw_partition(figure, _, ink):
    """The same 3 x 3 patches of D under three grids."""
    s = torch.linspace(0, 1, 12, dtype=torch.float64)
    draws = torch.Generator().manual_seed(0)
    grids = {
        "12 x 12 cells": Grid.uniform((12, 12), kind="cells"),
        "graded nodes": Grid.rectilinear(s.square(), s),
        "140 random points": Grid.scattered(torch.rand(140, 2, generator=draws)),
    }
    figure.set_size_inches(6.2, 2.5)
    for axes, (name, grid) in zip(figure.subplots(1, 3), grids.items(), strict=True):
        x, y = grid.points.reshape(-1, 2).T
        axes.plot(x, y, ".", ms=3.5)
        for line in range(4):
            axes.axhline(line / 3, color=ink, lw=0.9)
            axes.axvline(line / 3, color=ink, lw=0.9)
        axes.set_title(name, fontsize=9.5)
        axes.set(aspect="equal", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        axes.axis("off")


def windows():
    """Points of an interval, and the windows of four patches there."""
    grid = Grid.uniform(480, kind="cells")
    return grid.points[:, 0], make_cover(grid, (4,), Overlap(0.25)).axis(0).window[:, 480:960]


def draw_windows(figure, data, ink):
    """chi_j of four patches, the widest reach of one of them, and their sum."""
    x, found = data
    figure.set_size_inches(6.2, 2.6)
    axes = figure.subplots()
    for j, window in enumerate(found):
        axes.plot(x, window.where(window > 0, torch.nan), lw=2)
        axes.text((j + 0.5) / 4, 0.85, f"$\\chi_{j + 1}$", ha="center", color=f"C{j}")
    for face in range(5):
        axes.axvline(face / 4, color=ink, lw=0.8, ls=":")
    axes.annotate("", (3 / 16, -0.08), (9 / 16, -0.08), arrowprops={"arrowstyle": "<->", "color": "C1"})
    axes.text(0.375, -0.06, "$D_2^+$", ha="center", va="bottom", color="C1")
    axes.set(xlabel="x, faces of the patches dotted", xlim=(0, 1), ylim=(-0.15, 1.08), yticks=[0, 0.5, 1])


def seam():
    """Errors of one sample by hard patches and by blended ones, in percent of the solution's largest value."""
    errors = json.loads(BLENDING.read_text())["errors"][:2]
    return [torch.tensor(error, dtype=torch.float64) / 1e3 for error in errors]


def draw_seam(figure, data, ink):
    """Both errors in one scale of colours, and below how steep they are."""
    figure.set_size_inches(6.2, 5.4)
    steep = [torch.hypot(e.diff(dim=0)[:, :-1], e.diff(dim=1)[:-1]) * len(e) / 100 for e in data]
    rows = ((data, "RdBu_r", "error, % of max |z|"), (steep, "magma", "its slope, max |z| to a side of D"))
    for panels, (values, colours, label) in zip(figure.subplots(2, 2), rows, strict=True):
        most = float(max(value.abs().quantile(0.995) for value in values))
        for axes, value, name in zip(panels, values, ("FANO, hard patches", "FANO, overlap=0.25"), strict=True):
            least = -most if colours == "RdBu_r" else 0
            shown = axes.imshow(value.T, origin="lower", extent=(0, 1, 0, 1), cmap=colours, vmin=least, vmax=most)
            axes.set_title(name, fontsize=10)
            axes.grid(False)
            axes.set(xticks=[0, 0.25, 0.5, 0.75, 1], yticks=[0, 0.25, 0.5, 0.75, 1])
        bar = figure.colorbar(shown, ax=panels, fraction=0.046, pad=0.02)
        bar.set_label(label, fontsize=9)
        bar.outline.set_visible(False)


def draw_curves(figure, data, ink):
    """Input and output of two draws on an interval."""
    samples, names = data
    figure.set_size_inches(6.2, 3.4)
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    t = samples.grid.points[:, 0]
    for row, (values, name) in enumerate(zip((samples.u, samples.z), names, strict=True)):
        for column in range(2):
            panels[row, column].plot(t, values[column, 0], color=f"C{row}")
        panels[row, 0].set_ylabel(name)
    for axes in panels[1]:
        axes.set_xlabel("t")


def draw_images(figure, data, ink):
    """Input and output of draws on a square, side by side."""
    figure.set_size_inches(6.2, 2.9 * len(data))
    panels = figure.subplots(len(data), 2, squeeze=False)
    for row, (samples, names) in zip(panels, data, strict=True):
        (left, right), (bottom, top) = samples.grid.bounds
        for axes, values, name in zip(row, (samples.u, samples.z), names, strict=True):
            shown = axes.imshow(
                values[0, 0].T, origin="lower", extent=(left, right, bottom, top), cmap="viridis", rasterized=True
            )
            axes.set_title(name, fontsize=10)
            axes.grid(False)
            axes.set_xticks([left, right], [f"{left:g}", f"{right:.3g}"])
            axes.set_yticks([bottom, top], [f"{bottom:g}", f"{top:.3g}"])
            bar = figure.colorbar(shown, ax=axes, fraction=0.046, pad=0.04)
            bar.ax.yaxis.set_major_formatter(ScalarFormatter(useMathText=True))
            bar.outline.set_visible(False)


def lorenz():
    """Two draws of Lorenz 63."""
    return Lorenz63().sample(2, 200), ("input x(t)", "output y(t)")


def controlled():
    """Two draws of the controlled ODE."""
    return ControlledODE().sample(2, 400), ("input u(t)", "output z(t)")


def darcy():
    """One draw of each coefficient of Darcy flow."""
    return [(Darcy(law).sample(1, 64), (f"{law} coefficient a", "pressure z")) for law in ("lognormal", "piecewise")]


def kolmogorov():
    """One draw of Kolmogorov flow, a moment later."""
    return [(Kolmogorov().sample(1, 96), ("vorticity at T = 11", "vorticity at T + 0.1"))]


FIGURES = {
    "orders": (measurements.attention_errors, draw_orders),
    "graded": (lambda: None, draw_graded),
    "rounding": (measurements.rounding_errors, draw_rounding),
    "partition": (lambda: None, draw_partition),
    "windows": (windows, draw_windows),
    "seam": (seam, draw_seam),
    "lorenz": (lorenz, draw_curves),
    "controlled": (controlled, draw_curves),
    "darcy": (darcy, draw_images),
    "kolmogorov": (kolmogorov, draw_images),
    **{name: (lambda diagram=diagram: diagram, diagrams.draw) for name, diagram in diagrams.DIAGRAMS.items()},
}
