"""A certificate of discretization invariance: is an operator the same map on every grid (Sections 1 and 6)?

An operator that discretises one map has outputs that converge as grids are refined, whatever the grids are made of. So
it is applied to the same functions on several grids, and its outputs are compared at the points that the grids share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import Literal

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.domain.box import GivenBounds
from operformer.errors import UsageError
from operformer.evaluation.loss import relative_l2
from operformer.evaluation.nested_grids import GRADINGS, NestedGrids
from operformer.evaluation.probes import Probes, resolution_for, smooth_probes
from operformer.operators.operator import Operator, computes_in

AnyOperator = Callable[[Tensor, Grid], Tensor]
Verdict = Literal["passed", "failed", "skipped"]

# A rule that is wrong at the ends of D leaves order 1, the trapezoid has 2. On irregular grids a wrong measure leaves
# order 0, jumps between patches that are read by interpolation leave 1/2, Voronoi weights 1 and more.
LEAST_ORDER = 0.75
LEAST_ORDER_IRREGULAR = 0.3
REFINED = 0.1  # what twice the resolution may change
COARSENED = 0.3  # what half of it may change, three times that or more by the orders above, and irregular grids
GRADED_MULTIPLE = 100.0  # spacings of 8/5 make order 2 worse by 5/2, the luck of a uniform grid by 10; then the jumps
SCATTERED_MULTIPLE = 10.0  # times n: order 1 is worse than order 2 by that
ROUNDING = {torch.float64: 1e-10, torch.float32: 2e-5}  # what counts as zero
MESHES = {1: 32, 2: 8, 3: 4}  # scattered meshes of each resolution, whose errors are averaged


@dataclass(frozen=True)
class Check:
    """One question: a relative L2 error, the order at which it falls, what was asked for, why it was not answered."""

    name: str
    verdict: Verdict
    error: float | None
    order: float | None
    asked: str
    reason: str = ""

    def line(self) -> str:
        """The check for a terminal."""
        error = "" if self.error is None else f"{self.error:.2e}"
        order = "" if self.order is None else f"{self.order:.2f}"
        return f"{self.name:<12}{error:>10}{order:>8}  {self.verdict:<9}{self.reason or self.asked}"


@dataclass(frozen=True)
class Certificate:
    """It is passed when no check failed. An operator may refuse irregular grids: that is skipped, not failed."""

    operator: str
    grid: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.verdict != "failed" for check in self.checks)

    def __getitem__(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == name)

    def lines(self) -> list[str]:
        """The certificate for a terminal."""
        verdicts = [check.verdict for check in self.checks]
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("passed", "failed", "skipped") if v in verdicts)
        conclusion = "passed" if self.passed else "not passed"
        return [
            f"{self.operator} on {self.grid} and its relatives",
            f"{'':12}{'error':>10}{'order':>8}",
            *(check.line() for check in self.checks),
            f"certificate {conclusion}: {counts}",
        ]


def certify(
    operator: AnyOperator,
    probes: Probes | None = None,
    resolution: Sequence[int] | None = None,
    bounds: GivenBounds | None = None,
    *,
    kind: Literal["nodes", "periodic"] | None = None,
    doublings: int | None = None,
    seed: int = 0,
) -> Certificate:
    """Is an operator the same map on every grid? Refine, coarsen, permute and irregularise the grid.

    Args:
        operator: an operator, or any callable ``operator(u, grid)``, which needs ``probes`` and ``resolution``. Use
            float64, ``operator.double()``: in float32 rounding hides small faults.
        probes: the input functions, as a function of the grid. Good values: `smooth_probes(operator)`, used if it is
            not given, and `problem_probes(problem)`.
        resolution: the number n of intervals along each axis; uniform grids have n / 2, n, ..., 2^doublings n. Good
            value: what resolves the operator's modes, used if it is not given.
        bounds: the box D; the operator's own if it is not given.
        kind: "nodes", with both ends, or "periodic", one period. Good value: what suits the operator.
        doublings: how often n is doubled. Good values: 4 on a line, 2 otherwise. Irregular grids have as many points
            as the uniform ones that are 8 and 4 times coarser than the finest.
        seed: of the probes and of the scattered points.

    Returns:
        The certificate; ``print("\n".join(certificate.lines()))`` shows it.
    """
    if isinstance(operator, Operator):
        kind = kind or operator.usual_kind
        probes = probes or smooth_probes(operator, seed=seed, periodic=kind == "periodic")
        resolution, bounds = resolution or resolution_for(operator), bounds or operator.bounds
    if probes is None or resolution is None:
        raise UsageError("certify needs probes and resolution for what is not an Operator; see its documentation")
    doublings = doublings if doublings is not None else (4 if len(resolution) == 1 else 2)
    grids = NestedGrids(resolution, bounds, kind or "nodes", doublings)
    asked = _Asked(operator, probes, grids)
    generator = torch.Generator().manual_seed(seed)
    coarse, fine = doublings - 3, doublings - 2
    graded = [[grids.graded(level, a) for a in GRADINGS] for level in (coarse, fine)]
    scattered = [
        [grids.scattered(level, generator) for _ in range(MESHES[len(grids.resolution)])] for level in (coarse, fine)
    ]
    with torch.no_grad():
        checks = (
            _refine(asked),
            _coarsen(asked),
            _permute(asked, grids.in_general_position(fine, generator), generator),
            _irregular(asked, "graded", graded, GRADED_MULTIPLE),
            _irregular(asked, "scattered", scattered, SCATTERED_MULTIPLE * max(grids.uniform(fine).shape)),
        )
    shown = getattr(operator, "module", operator)  # another library's model in its wrapper
    return Certificate(type(shown).__name__, repr(grids.uniform(0)), checks)


class _Refused(Exception):
    """What an operator said in place of an output; ``politely`` in an error of its own that it means."""

    def __init__(self, reason: str, politely: bool) -> None:
        super().__init__(reason)
        self.politely = politely


class _Asked:
    """The operator and the functions that it is asked about."""

    def __init__(self, operator: AnyOperator, probes: Probes, grids: NestedGrids) -> None:
        self.operator, self.probes, self.grids = operator, probes, grids
        self.like = computes_in(operator)
        self.rounding = ROUNDING.get(self.like.dtype, 1e-2)
        self._finest: Tensor | None = None

    @property
    def finest(self) -> Tensor:
        """The outputs on the finest grid, which all others are compared with."""
        if self._finest is None:
            self._finest = self.output(self.grids.finest)
        return self._finest

    def output(self, grid: Grid) -> Tensor:
        """The operator's outputs on a grid, float64 on the CPU."""
        u = self.probes(grid).to(self.like)
        try:
            z = self.operator(u, grid.to(self.like.device)).double().cpu()
        except UsageError as error:
            prefix = f"does not take {grid.kind} points: " if grid.kind in ("rectilinear", "scattered") else ""
            raise _Refused(f"{prefix}{error}", politely=True) from None
        except (ValueError, RuntimeError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise _Refused(f"{type(error).__name__}: {' '.join(str(error).split())}", politely=False) from None
        if not bool(torch.isfinite(z).all()):
            raise _Refused(f"the output on {grid} is not finite", politely=False)
        return z

    def error(self, grids: Sequence[Grid]) -> float:
        """The relative L2 error against the finest grid, of the worst function; its mean square over several grids."""
        finest = self.finest
        squares = [
            relative_l2(self.output(grid), self.grids.restrict(finest, grid), grid).max().square() for grid in grids
        ]
        return float(torch.stack(squares).mean().sqrt())


def _refine(asked: _Asked) -> Check:
    """What twice the resolution changes, at the points of the first grid, and how fast such changes fall."""
    grids = asked.grids
    sizes = f"from {_sizes(grids.uniform(0))} to {_sizes(grids.finest)} points"
    wanted = f"order at least {LEAST_ORDER}, at most {REFINED:g}, {sizes}"
    try:
        outputs = [asked.output(grids.uniform(level)) for level in range(grids.doublings)]
        outputs.append(asked.finest)
    except _Refused as refusal:
        return Check("refine", "failed", None, None, wanted, str(refusal))
    steps = [(slice(None, None, 2**level),) * len(grids.resolution) for level in range(len(outputs))]
    at_first = [z[(slice(None), slice(None), *step)] for z, step in zip(outputs, steps, strict=True)]
    changes = [float(relative_l2(one, other, grids.uniform(0)).max()) for one, other in pairwise(at_first)]
    if changes[-1] <= asked.rounding:
        return Check("refine", _verdict(changes[0] <= REFINED), changes[0], None, wanted)
    order = log2(changes[-2] / changes[-1])
    return Check("refine", _verdict(order >= LEAST_ORDER and changes[0] <= REFINED), changes[0], order, wanted)


def _coarsen(asked: _Asked) -> Check:
    """The error of half the resolution."""
    half = asked.grids.uniform(-1)
    wanted = f"at most {COARSENED:g} on {_sizes(half)} points"
    try:
        error = asked.error([half])
    except _Refused as refusal:
        return Check("coarsen", "failed", None, None, wanted, str(refusal))
    return Check("coarsen", _verdict(error <= COARSENED), error, None, wanted)


def _permute(asked: _Asked, grid: Grid, generator: torch.Generator) -> Check:
    """The same scattered points in another order: the output must be in that order."""
    wanted = f"at most {asked.rounding:g}, the rounding, on {_sizes(grid)} points in another order"
    order = torch.randperm(len(grid.points), generator=generator)
    shuffled = Grid.scattered(grid.points[order], grid.weights[order], grid.bounds)
    try:
        error = float(relative_l2(asked.output(shuffled), asked.output(grid)[..., order], shuffled).max())
    except _Refused as refusal:
        return Check("permute", "skipped" if refusal.politely else "failed", None, None, wanted, str(refusal))
    return Check("permute", _verdict(error <= asked.rounding), error, None, wanted)


def _irregular(asked: _Asked, name: str, meshes: list[list[Grid]], multiple: float) -> Check:
    """Errors on coarse and fine irregular grids, whose order and size are compared with the uniform ones."""
    grids = asked.grids
    wanted = f"order at least {LEAST_ORDER_IRREGULAR}, at most {COARSENED:g} and {multiple:g} times the uniform error"
    try:
        coarse, fine = (asked.error(several) for several in meshes)
        uniform = asked.error([grids.uniform(grids.doublings - 2)])
    except _Refused as refusal:
        return Check(name, "skipped" if refusal.politely else "failed", None, None, wanted, str(refusal))
    wanted = f"{wanted}, {uniform:.2e}"
    if fine <= asked.rounding:
        return Check(name, "passed", fine, None, wanted)
    order, limit = log2(coarse / fine), min(COARSENED, multiple * uniform)
    return Check(name, _verdict(order >= LEAST_ORDER_IRREGULAR and fine <= limit), fine, order, wanted)


def _verdict(has_passed: bool) -> Verdict:
    return "passed" if has_passed else "failed"


def _sizes(grid: Grid) -> str:
    return " x ".join(map(str, grid.shape))
