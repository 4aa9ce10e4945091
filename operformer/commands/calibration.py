"""The command about uncertainty: calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from operformer.commands.console import console, show

if TYPE_CHECKING:
    from operformer.evaluation.conformal import Coverage
    from operformer.runs.report.tables import Table


def calibrate(
    run: Path,
    *,
    alpha: float = 0.1,
    delta: float = 0.05,
    spread: Literal["rms", "constant"] = "rms",
    draws: int | None = None,
) -> None:
    """How far off may a prediction be? A conformal band around it, and a bound of its relative L2 error.

    With probability 1 - alpha the truth lies in the band on at least 1 - delta of the domain, by volume. What is found
    goes to calibration.json, with how often it holds on the test pairs.

    Parameters
    ----------
    run
        The folder of the run.
    alpha
        The probability that a function leaves the band, or that an error exceeds the bound.
    delta
        The share of the domain that may lie outside; 0 is none.
    spread
        The form of the band: the errors' root mean square at each point, which half of the pairs are needed for, or
        the same width everywhere.
    draws
        So many fresh pairs of the problem's law to calibrate with; the validation pairs, which also chose the epoch
        that is kept, if not given.
    """
    from operformer.runs import calibrate_run
    from operformer.runs.report.tables import percent

    found, coverages = calibrate_run(run, alpha, delta, spread, draws)
    half = found.half_width(found.grid)
    inside = "everywhere" if delta == 0 else f"on at least {1 - delta:.6g} of the domain"
    console.print(f"with probability {1 - alpha:.6g}, from the scores of {found.count} pairs:", soft_wrap=True)
    widths = f"{float(half.min()):.3g} to {float(half.max()):.3g}"
    console.print(f"  the truth is within {widths} of the prediction {inside}", soft_wrap=True)
    console.print(f"  its relative L2 error is at most {percent(found.relative_error)}", soft_wrap=True)
    show(_coverage_table(coverages))
    console.print(f"calibrated: {run / 'calibration.json'}", soft_wrap=True)


def _coverage_table(coverages: dict[str, Coverage]) -> Table:
    from operformer.runs.report.tables import Table, grid_name

    rows = tuple(
        (grid_name(label), str(c.count), f"{c.functions:.1%}", f"{c.volume:.1%}", f"{c.relative_errors:.1%}")
        for label, c in coverages.items()
    )
    return Table("Test pairs that it holds for", ("grid", "pairs", "band", "volume inside", "error"), rows)
