"""A certificate of discretization invariance: is an operator the same map on every grid (Sections 1 and 6)?

An operator that discretises one map has outputs that converge as grids are refined, whatever the grids are made of. So
it is applied to the same functions on several grids, and its outputs are compared at the points that the grids share.
The difference between any two grids may be as large as the quadrature explains, and no larger.
"""

# DESIGN.md: The certificate bounds the difference between every two grids

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import log2
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor

from operformer.checking import checked
from operformer.domain import Grid
from operformer.domain.box import GivenBounds
from operformer.domain.interpolation import interpolate
from operformer.errors import OperformerWarning, UsageError
from operformer.evaluation.loss import relative_l2
from operformer.evaluation.nested_grids import GRADINGS, NestedGrids
from operformer.evaluation.probes import Probes, SmoothProbes, resolution_for, smooth_probes
from operformer.evaluation.source_error import sentence, source_error
from operformer.operators.last import Smoothing
from operformer.operators.operator import Operator, computes_in
from operformer.operators.wrappers import Resampled
from operformer.settings import named

AnyOperator = Callable[[Tensor, Grid], Tensor]
Verdict = Literal["passed", "failed", "skipped"]

# A rule that is wrong at the ends of D leaves order 1, the trapezoid has 2. On irregular grids a wrong measure leaves
# order 0, jumps between patches that are read by interpolation leave 1/2, Voronoi weights 1 and more.
LEAST_ORDER = 0.75
LARGEST_ORDER = 2.3  # that coarse grids are believed to have, if fine ones have more
LEAST_ORDER_IRREGULAR = 0.3
OWN = "own grid"  # the check on the grid that the user names
REFINED = 0.1  # the largest difference between n points and more
COARSENED = 0.3  # between n / 2 and more, three times that or more by the orders above, and on irregular grids
UNIFORM_MULTIPLE = 1.5  # times what the quadrature explains: 1.1 was observed with smooth probes
ROUGH_MULTIPLE = 10.0  # the same with others, whose errors on coarse grids follow no order; 6 was observed
GRADED_MULTIPLE = 6.0  # times that: errors elsewhere on D count more than on uniform grids, 6 times was observed
INTERPOLATED_MULTIPLE = 100.0  # the same where values are interpolated across jumps, times the uniform error
SCATTERED_MULTIPLE = 10.0  # times n: order 1 is worse than order 2 by that
ROUNDING = {torch.float64: 1e-10, torch.float32: 2e-5}  # what counts as zero
MESHES = {1: 32, 2: 8, 3: 4}  # scattered meshes of each resolution, whose errors are averaged


@dataclass(frozen=True)
class Check:
    """One question: a relative L2 error, the order at which it falls, what was asked for, why it was not answered.

    ``limit`` is the error that would have failed: the check does not see faults that are smaller.
    """

    name: str
    verdict: Verdict
    error: float | None
    order: float | None
    asked: str
    reason: str = ""
    limit: float | None = None

    def line(self) -> str:
        """The check for a terminal."""
        error = "" if self.error is None else f"{self.error:.2e}"
        order = "" if self.order is None else f"{self.order:.2f}"
        return f"{self.name:<12}{error:>10}{order:>8}  {self.verdict:<9}{self.reason or self.asked}"


@dataclass(frozen=True, repr=False)
class Certificate:
    """It is passed when no check failed. An operator may refuse irregular grids: that is skipped, not failed."""

    operator: str
    grid: str
    points: tuple[str, str]  # of the coarsest and the finest uniform grid
    checks: tuple[Check, ...]
    own: str | None = None  # the grid of the check "own grid"
    weights: str = ""  # the hash of the operator's, as `load_hashed` gives it; empty if it comes from no file
    sources: str = ""  # what attention to averages costs in accuracy on the finest grid, of operators that have any

    def __repr__(self) -> str:
        return f"Certificate({self.operator} on {self.grid}: {self.verdict().removeprefix('certificate ')})"

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.verdict != "failed" for check in self.checks)

    @property
    def difference(self) -> float:
        """The largest relative difference between any two grids that were compared."""
        return max(check.error or 0.0 for check in self.checks if check.name != OWN)

    def __getitem__(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == name)

    def lines(self) -> list[str]:
        """The certificate for a terminal."""
        return [
            f"{self.operator} on {self.grid} and its relatives{self.weights and f', weights {self.weights[:16]}'}",
            f"{'':12}{'error':>10}{'order':>8}",
            *(check.line() for check in self.checks),
            *([self.sources] if self.sources else []),
            self.verdict(),
        ]

    def verdict(self) -> str:
        """Passed or not, how far apart the grids are, between which numbers of points, and what was not tested."""
        verdicts = [check.verdict for check in self.checks]
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("passed", "failed", "skipped") if v in verdicts)
        there = ""
        if self.own is not None:
            error = self[OWN].error
            there = f"; on {self.own} " + ("no output" if error is None else f"it is off by {100 * error:.2g} %")
        if not self.passed:
            return f"certificate not passed: {counts}{there}"
        coarsest, finest = self.points
        return (
            f"certificate passed: {counts}; the same operator to {100 * self.difference:.2g} % from {coarsest} "
            f"to {finest} points; not tested below {coarsest} nor above {finest}{there}"
        )


@checked
def certify(
    operator: AnyOperator,
    probes: Probes | None = None,
    resolution: Sequence[int] | None = None,
    bounds: GivenBounds | None = None,
    *,
    kind: Literal["nodes", "periodic"] | None = None,
    doublings: int | None = None,
    interpolates: bool | None = None,
    seed: int = 0,
    grid: Grid | None = None,
) -> Certificate:
    """Is an operator the same map on every grid? Refine, coarsen, permute, rename and irregularise the grid.

    Args:
        operator: an operator, or any callable ``operator(u, grid)``, which needs ``probes`` and ``resolution``. Use
            float64, ``operator.double()``: in float32 rounding hides small faults.
        probes: the input functions, as a function of the grid. Good values: `smooth_probes(operator)`, used if it is
            not given, and `problem_probes(problem)`.
        resolution: the number n of intervals along each axis; uniform grids have n / 2, n, ..., 2^doublings n. Good
            value: what resolves the operator's modes, used if it is not given.
        bounds: the box D; the operator's own if it is not given.
        kind: "nodes", with both ends, or "periodic", one period. Good value: what suits the operator.
        doublings: how often n is doubled. Good values: 4 on a line, 2 otherwise. Irregular grids are those of two
            sizes: the uniform grids 8 and 4 times coarser than the finest have the same number of points.
        interpolates: whether the operator reads irregular points by interpolation, which is another error than the
            quadrature's. Good value: not given, for an `Operator`; True for a callable that does so.
        seed: of the probes and of the scattered points.
        grid: the grid that the operator is to be used on; the verdict names the error there.

    Returns:
        The certificate; ``certificate.lines()`` are its lines of text, the verdict last.
    """
    if isinstance(operator, Operator):
        kind = kind or operator.usual_kind
        probes = probes or smooth_probes(operator, seed=seed, periodic=kind == "periodic")
        resolution = resolution or resolution_for(operator)
        bounds = operator.bounds if bounds is None else bounds
    if probes is None or resolution is None:
        raise UsageError("certify needs probes and resolution for what is not an Operator; see its documentation")
    doublings = doublings if doublings is not None else (4 if len(resolution) == 1 else 2)
    grids = NestedGrids(resolution, bounds, kind or "nodes", doublings)
    asked = _Asked(operator, probes, grids, isinstance(operator, Resampled) if interpolates is None else interpolates)
    generator = torch.Generator().manual_seed(seed)
    coarse, fine = doublings - 3, doublings - 2
    graded = [[grids.graded(level, a) for a in GRADINGS] for level in (coarse, fine)]
    scattered = [
        [grids.scattered(level, generator) for _ in range(MESHES[len(grids.resolution)])] for level in (coarse, fine)
    ]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", OperformerWarning)  # its own grids are coarse on purpose
        checks: tuple[Check, ...] = (
            *_uniform(asked),
            _permute(asked, grids.in_general_position(fine, generator), generator),
            _rename(asked, grids.graded(fine, GRADINGS[-1]), generator),
            _irregular(asked, "graded", graded),
            _irregular(asked, "scattered", scattered),
        )
    if grid is not None:
        with torch.no_grad():
            checks = (*checks, _on_own(asked, grid))
    shown = getattr(operator, "module", operator)  # another library's model in its wrapper
    points = (_sizes(grids.uniform(-1)), _sizes(grids.finest))
    own = None if grid is None else repr(grid)
    sources = _sources(asked) if asked.has_sources else ""
    return Certificate(type(shown).__name__, repr(grids.uniform(0)), points, checks, own, sources=sources)


def _sources(asked: _Asked) -> str:
    """The estimated error of sources on the finest grid."""
    operator: Any = asked.operator
    finest = asked.grids.finest
    u = asked.probes(finest).to(asked.like)
    return f"{sentence(operator, source_error(operator, u, finest.to(u.device)))} on {_sizes(finest)} points"


class _Refused(Exception):
    """What an operator said in place of an output; ``politely`` in an error of its own that it means."""

    def __init__(self, reason: str, politely: bool) -> None:
        super().__init__(reason)
        self.politely = politely


class _Asked:
    """The operator and the functions that it is asked about."""

    def __init__(self, operator: AnyOperator, probes: Probes, grids: NestedGrids, interpolates: bool) -> None:
        self.operator, self.probes, self.grids, self.interpolates = operator, probes, grids, interpolates
        self.is_patched = max(getattr(operator, "partition", (1,))) > 1
        last = getattr(operator, "last", ()) if isinstance(operator, Operator) else ()
        self.is_smoothed = any(isinstance(layer, Smoothing) for layer in last)
        self.has_sources = isinstance(operator, Operator) and getattr(operator, "sources", None) is not None
        self.like = computes_in(operator)
        self.rounding = ROUNDING.get(self.like.dtype, 1e-2)
        self._finest: Tensor | None = None
        self.explained: Callable[[Grid], float] | None = None  # what the quadrature explains, once it is known

    @property
    def finest(self) -> Tensor:
        """The outputs on the finest grid, which all others are compared with."""
        if self._finest is None:
            self._finest = self.output(self.grids.finest)
        return self._finest

    def output(self, grid: Grid) -> Tensor:
        """The operator's outputs on a grid, float64 on the CPU."""
        u = self.probes(grid)
        if not isinstance(u, Tensor):
            raise UsageError(f"probes must give functions (count, channels, *shape) on a grid: got {named(u)}")
        u = u.to(self.like)
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


def _uniform(asked: _Asked) -> tuple[Check, Check]:
    """Refine and coarsen: the differences between uniform grids, how fast they fall, and what explains them.

    A rule of order p has errors A h^p. A and p are those of this operator, from its grids of n points and more; h is
    that of `NestedGrids.spacing`. What exceeds a multiple of that on any grid is no quadrature error.
    """
    grids = asked.grids
    half, first = grids.uniform(-1), grids.uniform(0)
    sizes = f"from {_sizes(first)} to {_sizes(grids.finest)} points"
    try:
        outputs = [asked.output(grids.uniform(level)) for level in range(grids.doublings)]
        outputs.append(asked.finest)
    except _Refused as refusal:
        refine = Check("refine", "failed", None, None, f"order at least {LEAST_ORDER}, {sizes}", str(refusal))
        return refine, Check("coarsen", "failed", None, None, "the same", str(refusal))
    levels = [grids.uniform(level) for level in range(grids.doublings)]
    errors = [asked.error([grid]) for grid in levels]
    explained = asked.explained = _explained(asked, levels, errors)
    limits = [explained(grid) for grid in levels]
    largest = max([*errors, *(_between(grids, one, other) for one, other in combinations(outputs, 2))])
    changes = [_between(grids, one, other) for one, other in pairwise(outputs)]
    order = log2(changes[-2] / changes[-1]) if min(changes[-2:]) > asked.rounding else None
    is_explained = all(error <= limit for error, limit in zip(errors, limits, strict=True))
    is_converging = changes[-1] <= asked.rounding or (order is not None and order >= LEAST_ORDER)
    verdict = _verdict(is_explained and is_converging and largest <= REFINED)
    limit = min(REFINED, max(limits))
    wanted = f"order at least {LEAST_ORDER}, at most {limit:.1e}, {sizes}"
    refine = Check("refine", verdict, largest, order, wanted, limit=limit)
    limit = min(COARSENED, explained(half))
    wanted = f"at most {limit:.1e} on {_sizes(half)} points"
    try:
        error = asked.error([half])
    except _Refused as refusal:
        return refine, Check("coarsen", "failed", None, None, wanted, str(refusal))
    return refine, Check("coarsen", _verdict(error <= limit), error, None, wanted, limit=limit)


def _explained(asked: _Asked, levels: Sequence[Grid], errors: Sequence[float]) -> Callable[[Grid], float]:
    """The largest error on a grid that the quadrature explains, from the errors on uniform ones."""
    grids = asked.grids
    spacings = [grids.spacing(grid) for grid in levels]
    known = [(log2(h), log2(e)) for h, e in zip(spacings, errors, strict=True) if e > asked.rounding]
    slopes = [(e - f) / (h - g) for (h, e), (g, f) in combinations(known, 2)]
    order = min(max(median(slopes), LEAST_ORDER), LARGEST_ORDER) if slopes else 2.0
    factor = min(e / h**order for h, e in zip(spacings, errors, strict=True))
    multiple = UNIFORM_MULTIPLE if isinstance(asked.probes, SmoothProbes) else ROUGH_MULTIPLE
    # On one period smooth functions have geometric order: errors of half the points are the roots of those.
    fastest = errors[0] ** 0.5 if grids.kind == "periodic" else 0.0

    def explained(grid: Grid) -> float:
        faster = fastest if grid.kind == "periodic" else 0.0
        return max(multiple * factor * grids.spacing(grid) ** order, faster) + 10 * asked.rounding

    return explained


def _between(grids: NestedGrids, one: Tensor, other: Tensor) -> float:
    """The relative difference of two outputs on uniform grids, at the points of the coarser one."""
    level = next(k for k in range(grids.doublings + 1) if grids.uniform(k).shape == one.shape[2:])
    step = (other.shape[2] - 1) // (one.shape[2] - 1) if grids.kind == "nodes" else other.shape[2] // one.shape[2]
    read = (slice(None), slice(None), *[slice(None, None, step)] * len(grids.resolution))
    return float(relative_l2(one, other[read], grids.uniform(level)).max())


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


def _rename(asked: _Asked, graded: Grid, generator: torch.Generator) -> Check:
    """The same points and weights as another kind of grid: what is computed on the points does not notice."""
    wanted = f"at most {asked.rounding:g}, the rounding, on the same points as rectilinear and scattered ones"
    if asked.interpolates or asked.grids.kind == "periodic":
        reason = "values are interpolated" if asked.interpolates else "one period has no other name"
        return Check("rename", "skipped", None, None, wanted, reason)
    uniform = asked.grids.uniform(0)
    pairs = [(uniform, Grid.rectilinear(*(uniform.axes or ()), bounds=uniform.bounds))]
    order = torch.arange(graded.weights.numel())
    # Scattered points on a face belong to one patch, those of a rectilinear grid to both; so it is with the cells of
    # sources. `Smoothing` has as many modes as points resolve, which are fewer where they are scattered.
    if not asked.is_patched and not asked.is_smoothed and not asked.has_sources:
        order = torch.randperm(len(order), generator=generator)
        points, weights = graded.points.flatten(0, -2)[order], graded.weights.flatten()[order]
        pairs.append((graded, Grid.scattered(points, weights, graded.bounds)))
    error = 0.0
    try:
        for grid, renamed in pairs:
            z, other = asked.output(grid).flatten(2), asked.output(renamed).flatten(2)
            z = z[..., order] if renamed.kind == "scattered" else z
            error = max(error, float((other - z).norm() / z.norm().clamp(min=1e-300)))
    except _Refused as refusal:
        return Check("rename", "skipped" if refusal.politely else "failed", None, None, wanted, str(refusal))
    return Check("rename", _verdict(error <= asked.rounding), error, None, wanted, limit=asked.rounding)


def _irregular(asked: _Asked, name: str, meshes: list[list[Grid]]) -> Check:
    """Errors on coarse and fine irregular grids, whose order and size are compared with the uniform ones."""
    grids = asked.grids
    uniform = grids.uniform(grids.doublings - 2)
    wanted = f"order at least {LEAST_ORDER_IRREGULAR}"
    try:
        coarse, fine = (asked.error(several) for several in meshes)
        at_uniform = asked.error([uniform])
    except _Refused as refusal:
        return Check(name, "skipped" if refusal.politely else "failed", None, None, wanted, str(refusal))
    if name == "scattered" or asked.is_smoothed:  # which on uniform grids takes the modes that it keeps exactly
        limit = SCATTERED_MULTIPLE * max(uniform.shape) * at_uniform
    elif asked.interpolates or asked.explained is None:
        limit = INTERPOLATED_MULTIPLE * at_uniform
    else:
        limit = GRADED_MULTIPLE * max(asked.explained(grid) for grid in meshes[1])
    limit = min(COARSENED, max(limit, asked.rounding))
    wanted = f"{wanted}, at most {limit:.1e}"
    if fine <= asked.rounding:
        return Check(name, "passed", fine, None, wanted, limit=limit)
    order = log2(coarse / fine)
    return Check(name, _verdict(order >= LEAST_ORDER_IRREGULAR and fine <= limit), fine, order, wanted, limit=limit)


def _on_own(asked: _Asked, grid: Grid) -> Check:
    """The difference on a grid of the user's from the finest one, or from one that is finer still, read there."""
    wanted = f"at most {REFINED:.0%}, on {grid}"
    finest = asked.grids.finest
    if grid.axes is not None:
        sizes = [max(n, m) for n, m in zip(finest.shape, grid.shape, strict=True)]
        finest = Grid.uniform(sizes, finest.bounds, asked.grids.kind)
    try:
        found, fine = asked.output(grid), asked.output(finest)
        if isinstance(asked.operator, Operator) and asked.operator.takes_query and asked.operator.takes(finest):
            u = asked.probes(finest).to(asked.like)
            there = asked.operator(u, finest.to(u.device), grid.to(u.device)).double().cpu()
        else:
            there = interpolate(fine, finest, grid)
    except _Refused as refusal:
        return Check(OWN, "failed", None, None, wanted, str(refusal))
    error = float(relative_l2(found, there, grid).max())
    return Check(OWN, _verdict(error <= REFINED), error, None, wanted, limit=REFINED)


def _verdict(has_passed: bool) -> Verdict:
    return "passed" if has_passed else "failed"


def _sizes(grid: Grid) -> str:
    return " x ".join(map(str, grid.shape))
