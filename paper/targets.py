"""What results at the paper's scale are to reach, beside the best number that was known, and whether they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from operformer.runs.report.tables import Table
from paper.archive import Archive
from paper.protocol import PROTOCOLS
from paper.recipes import RECIPES
from paper.record import Record
from paper.scales import Protocol
from paper.stated import LI_ET_AL, STATED
from paper.tables import ABSENT, error_text, without_empty


@dataclass(frozen=True)
class Target:
    """Errors on the training grid, by "median", "mean" or "worst" of the test samples: at most so much, and the aim.

    Of several runs or protocols the better one counts; of several seeds their mean, of at least so many.
    """

    what: str
    runs: tuple[str, ...]
    known: str
    at_most: Mapping[str, float]
    aim: Mapping[str, float]
    protocols: tuple[Protocol, ...] = PROTOCOLS
    seeds: int = 1


@dataclass(frozen=True)
class Verdict:
    """The errors that count, of which run and protocol, and in words whether they are small enough."""

    errors: Mapping[str, float]
    source: str
    status: str


def _printed(name: str) -> str:
    stated = STATED[name]
    parts = [error_text(part) for part in (stated.median, stated.worst) if part is not None]
    return f"{', '.join(parts)} (paper)"


# Half to twice the training's, on which an L2 error is to stay within so many times that of the training grid.
RESOLUTIONS = ("0.5x", "0.75x", "1.5x", "2x")
STEADY, STEADY_AIM = 1.5, 1.2
_PATCHED = ("vitno", "fano", "spectral")
TARGETS = (
    Target(
        "Darcy flow, lognormal, 64 × 64: TNO, the paper's protocol",
        ("darcy-64-tno",),
        _printed("darcy-64-tno"),
        {"median": 7e-3},
        {"median": 5e-3},
        ("paper",),
    ),
    Target(
        "Darcy flow, lognormal, 64 × 64: the best recipe",
        ("darcy-64-tno", "darcy-64-spectral"),
        _printed("darcy-64-tno"),
        {"median": 4.7e-3},
        {"median": 2.5e-3},
        ("best",),
    ),
    Target(
        "Darcy flow, lognormal, 416 × 416: the better of ViTNO and FANO",
        tuple(f"darcy-416-{name}" for name in _PATCHED),
        _printed("darcy-416-vitno"),
        {"median": 6e-3},
        {"median": 3e-3},
    ),
    Target(
        "Darcy flow, piecewise, 416 × 416: the better of ViTNO and FANO",
        tuple(f"piecewise-416-{name}" for name in _PATCHED),
        _printed("piecewise-416-vitno"),
        {"median": 8e-3},
        {"median": 4e-3},
    ),
    Target(
        "Kolmogorov flow, 416 × 416: the better of ViTNO and FANO",
        tuple(f"kolmogorov-416-{name}" for name in _PATCHED),
        f"AFNO {_printed('kolmogorov-416-afno')}",
        {"median": 3.99e-3},
        {"median": 1.5e-3},
    ),
    Target(
        "Lorenz 63, x, y(0), z(0) to y and z: median and worst",
        ("lorenz-yz", "lorenz-yz-invariant"),
        _printed("lorenz-yz"),
        {"median": 5e-3, "worst": 5e-2},
        {"median": 2e-3, "worst": 2e-2},
    ),
    Target(
        "Darcy flow of Li et al., 85 × 85, 1000 pairs: mean error, mean of three seeds",
        ("darcy-li-85",),
        f"{error_text(LI_ET_AL['Transolver++'])} (Transolver++)",
        {"mean": 4.9e-3},
        {"mean": 4e-3},
        ("best",),
        seeds=3,
    ),
)


def judge(target: Target, archive: Archive) -> Verdict:
    """Whether a target is reached by the records there are."""
    found, fewer = [], 0
    for protocol in target.protocols:
        for name in target.runs:
            records = archive[protocol].get(name, [])
            if len(records) >= target.seeds:
                found.append(_measure(target, records))
            fewer = max(fewer, len(records))
    if not found:
        return Verdict({}, "", f"{fewer} of {target.seeds} seeds" if fewer else ABSENT)
    errors, source = min(found, key=lambda one: max(one[0][key] / most for key, most in target.at_most.items()))
    reached = (all(errors[key] <= most for key, most in bound.items()) for bound in (target.aim, target.at_most))
    return Verdict(errors, source, _status(*reached))


def target_table(archive: Archive) -> Table:
    """A row for each target."""
    header = ("target", "known before", "to reach", "aim", "here", "by", "")
    rows = []
    for target in TARGETS:
        verdict = judge(target, archive)
        bounds = (", ".join(map(error_text, bound.values())) for bound in (target.at_most, target.aim))
        here = ", ".join(error_text(error) for error in verdict.errors.values())
        rows.append((target.what, target.known, *bounds, here, verdict.source, verdict.status))
    return Table("Targets", header, tuple(rows))


def resolution_table(archive: Archive) -> Table:
    """By run and protocol the largest multiple of the training grid's median at `RESOLUTIONS`, and where it is.

    In L2 with a verdict, and in H1. Of several seeds the largest counts; an operator of one grid alone has no row.
    """
    rows = []
    for name in dict.fromkeys(name for protocol in PROTOCOLS for name in RECIPES[protocol]):
        row = [name]
        for protocol in PROTOCOLS:
            records = archive[protocol].get(name, [])
            l2, h1 = (_largest_multiple(records, norm) for norm in ("l2", "h1"))
            status = ABSENT if name in RECIPES[protocol] and not records else ""
            row += [f"{_multiple_text(l2)}: {_status(l2[0] <= STEADY_AIM, l2[0] <= STEADY)}" if l2 else status]
            row += [_multiple_text(h1) if h1 else ""]
        rows.append(tuple(row))
    header = ("run", *(f"{protocol}: {norm}" for protocol in PROTOCOLS for norm in ("L2", "H1")))
    measured = tuple(row for row in rows if any(cell not in ("", ABSENT) for cell in row[1:]))
    return without_empty(Table("Change of resolution", header, measured))


def _largest_multiple(records: Sequence[Record], norm: str) -> tuple[float, str] | None:
    """Of the training grid's median error, and the grid that has it; none where an error cannot be compared."""
    found = []
    for record in records:
        trained = getattr(record.trained, norm)
        there = ((getattr(m, norm), m.label) for m in record.measured if m.label in RESOLUTIONS)
        found += [(one.median / trained.median, label) for one, label in there if one and trained and trained.median]
    return max(found, default=None)


def _multiple_text(multiple: tuple[float, str]) -> str:
    return f"{multiple[0]:.2f} at {multiple[1]}"


def _status(is_aim: bool, is_enough: bool) -> str:
    return "aim reached" if is_aim else "reached" if is_enough else "not reached"


def _measure(target: Target, records: Sequence[Record]) -> tuple[dict[str, float], str]:
    errors = {key: fmean(getattr(record.trained.l2, key) for record in records) for key in target.at_most}
    seeds = f", {len(records)} seeds" if len(records) > 1 else ""
    return errors, f"{records[0].settings['name']}, {records[0].protocol}{seeds}"
