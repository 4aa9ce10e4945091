"""The certificate: known errors of operators made by hand; TNO, ViTNO, FANO pass, attention without weights fails."""

import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from operformer import FANO, TNO, Grid, Resampled, SpectralOperator, Transformer, UniversalTNO, ViTNO
from operformer.domain.interpolation import interpolate
from operformer.errors import UsageError
from operformer.evaluation.certificate import certify
from operformer.evaluation.probes import problem_probes, resolution_for, smooth_probes
from operformer.operators.baselines import AFNO, GalerkinTransformer
from operformer.operators.codomain import CodomainNO
from operformer.problems import ControlledODE
from operformer.sharing.neuralop import UniformOnly
from operformer.training.loop import Training, train

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import certificate_power

NAMES = ["refine", "coarsen", "permute", "rename", "graded", "scattered"]


def squares(grid):
    """x_1^2, as one sample of one channel."""
    return grid.points[..., 0].square()[None, None]


def mean(u, grid):
    """The integral over D = [0, 1]^d at every point."""
    return (u * grid.weights).sum().expand_as(u)


def verdicts(certificate):
    return {check.name: check.verdict for check in certificate.checks}


def asked(operator, seed=0, **options):
    probes = smooth_probes(operator, seed=seed, periodic=options.get("kind") == "periodic")
    doublings = 4 if operator.dim == 1 else 2
    resolution = (4, 4, 4) if operator.dim == 3 else resolution_for(operator)
    return certify(operator, probes, resolution, operator.bounds, doublings=doublings, seed=seed, **options)


def show(label, certificate):
    print(label, *certificate.lines(), sep="\n")


# Operators whose errors are known


def test_the_numbers_of_the_trapezoid():
    """The trapezoid of x^2 with step h is 1/3 + h^2 / 6."""
    found = certify(mean, squares, (16,), doublings=3)
    assert verdicts(found) == dict.fromkeys(NAMES, "passed")
    rule = {n: 1 / 3 + 1 / n**2 / 6 for n in (8, 16, 32, 64, 128)}
    assert found["refine"].error == pytest.approx((rule[16] - rule[128]) / rule[128], rel=1e-9)
    assert found["refine"].order == pytest.approx(2, abs=1e-3)
    assert found["coarsen"].error == pytest.approx((rule[8] - rule[128]) / rule[128], rel=1e-9)
    assert found["permute"].error < 1e-14
    assert 1.9 < found["graded"].order < 2.2
    assert 1.5 < found["scattered"].order < 2.7


def test_a_map_at_each_point_has_no_error_and_no_order():
    found = certify(lambda u, grid: u.square(), squares, (8, 4))
    assert found.passed
    assert [check.error for check in found.checks] == [0.0] * 6
    assert [check.order for check in found.checks] == [None] * 6


@pytest.mark.parametrize("sizes", [(32,), (12, 12), (6, 6, 4)])
def test_equal_weights_fail_on_irregular_grids_alone(sizes):
    """Where every point counts the same, nodes have order 1 and irregular grids the measure of their points."""
    found = certify(lambda u, grid: u.mean().expand_as(u), squares, sizes, doublings=4 if len(sizes) == 1 else 2)
    show("equal weights", found)
    failed = {"graded", "scattered"}
    assert verdicts(found) == dict.fromkeys(NAMES, "passed") | dict.fromkeys(failed, "failed")
    assert 0.8 < found["refine"].order < 1.1
    assert all(found[name].order < 0.3 for name in failed)


@pytest.mark.parametrize(
    ("operator", "failed"),
    [
        (lambda u, grid: u.sum().expand_as(u), {"refine", "coarsen", "graded", "scattered"}),
        (lambda u, grid: u * grid.shape[0] ** -0.5, {"refine", "coarsen", "graded", "scattered"}),
        (lambda u, grid: u + grid.weights.numel() ** -0.5, {"refine", "coarsen"}),
        (lambda u, grid: (u * grid.weights).cumsum(-1), {"permute", "rename", "scattered"}),
    ],
    ids=["sum", "scale", "slow", "order"],
)
def test_what_is_not_invariant_fails(operator, failed):
    """Sums without weights, scales with the resolution, an order of 1/2, values that depend on the points' order."""
    found = certify(operator, squares, (32,), doublings=4)
    show("not invariant", found)
    assert not found.passed
    assert {name for name, verdict in verdicts(found).items() if verdict == "failed"} == failed


def test_breaking_is_not_refusing():
    """An output that is not finite or an error nobody meant is failed; a UsageError on an irregular grid is skipped."""
    broken = certify(lambda u, grid: u / 0, squares, (8,))
    assert set(verdicts(broken).values()) == {"failed"}
    assert "not finite" in broken["refine"].reason

    def crashing(u, grid):
        if grid.kind == "scattered":
            raise RuntimeError("shapes\ndo not match")
        return u

    crashed = certify(crashing, squares, (8,))
    assert crashed["scattered"].verdict == crashed["permute"].verdict == "failed"
    assert crashed["scattered"].reason == "RuntimeError: shapes do not match"
    assert crashed["graded"].verdict == "passed"

    def refusing(u, grid):
        if grid.kind in ("rectilinear", "scattered"):
            raise UsageError("no")
        return mean(u, grid)

    refused = certify(refusing, squares, (8,))
    assert refused.passed
    assert verdicts(refused) == dict.fromkeys(NAMES, "skipped") | {"refine": "passed", "coarsen": "passed"}
    assert refused["permute"].reason == "does not take scattered points: no"


def test_a_defect_is_not_swallowed():
    def defective(u, grid):
        raise KeyError("weights")

    with pytest.raises(KeyError):
        certify(defective, squares, (8,))


def test_lines():
    lines = certify(mean, squares, (16,), doublings=3).lines()
    assert lines[0] == "function on Grid(nodes, 17 points in [0, 1]) and its relatives"
    assert lines[1].split() == ["error", "order"]
    assert [line.split()[0] for line in lines[2:8]] == NAMES
    assert lines[2].split()[1:4] == ["1.92e-03", "2.00", "passed"]
    assert lines[-1] == (
        "certificate passed: 6 passed; the same operator to 0.78 % from 9 to 129 points; "
        "not tested below 9 nor above 129"
    )
    assert "\n" not in "".join(lines)


def above(points, factor):
    """The mean over D, and on grids of more points a multiple of it."""
    return lambda u, grid: mean(u, grid) * (factor if grid.weights.numel() > points else 1.0)


@pytest.mark.parametrize("factor", [1.3, 1.2, 1.09, 1.01])
@pytest.mark.parametrize("points", [33, 65, 129, 257, 513])
def test_another_scale_on_finer_grids_fails(points, factor):
    """Errors of the mean of x^2 are 5e-4 on 33 points and fall by 4 with each doubling."""
    found = certify(above(points, factor), squares, (64,), doublings=4)
    show(f"{factor} above {points} points", found)
    assert not found.passed


@pytest.mark.parametrize("points", [33, 65, 129, 257, 513, 1025])
def test_one_grid_that_differs_fails(points):
    def broken(u, grid):
        return mean(u, grid) * (1.01 if grid.weights.numel() == points else 1.0)

    certificate = certify(broken, squares, (64,), doublings=4)
    show(f"1.01 at {points} points", certificate)
    assert not certificate.passed


def test_smoothing_that_keeps_the_modes_of_each_grid_passes():
    """Exact on uniform grids, a quadrature elsewhere: errors on graded ones are no multiple of the uniform ones."""
    torch.manual_seed(1)
    operator = SpectralOperator((6, 6), 1, 1, 8, n_layers=1, basis="cosine", last="neumann")
    found = certify(operator.double(), seed=1)
    show("neumann", found)
    assert found.passed
    assert found["graded"].order > 1


def test_a_thousandth_on_scattered_points_fails():
    broken = certify(lambda u, grid: u * (1.001 if grid.kind == "scattered" else 1.0), squares, (32,), doublings=4)
    assert broken["rename"].verdict == "failed"
    assert broken["rename"].error == pytest.approx(1e-3, rel=1e-6)


def test_interpolation_is_no_fault():
    """A callable that reads irregular points from a grid of its own has another error than the quadrature's."""

    def interpolating(u, grid):
        own = Grid.uniform(max(2, round(grid.weights.numel() ** (1 / grid.dim))), grid.bounds)
        return interpolate(interpolate(u, grid, own), own, grid) if grid.kind != "nodes" else u

    probes = smooth_probes(TNO(1, 1, 1, **SMALL))
    assert not certify(interpolating, probes, (64,), doublings=4).passed
    found = certify(interpolating, probes, (64,), doublings=4, interpolates=True)
    assert found["rename"].reason == "values are interpolated"


SLICE = list(certificate_power.faults())[::9]


@pytest.mark.parametrize("name", SLICE)
def test_a_slice_of_the_power(name):
    """Every ninth kind of fault of benchmarks/certificate_power.py, at 1 %."""
    fault = certificate_power.faults()[name]
    assert all(certificate_power.is_found(name, fault, 0.01, seed) for seed in (0, 4))


def test_a_slice_of_the_right_ones():
    assert certificate_power.right(6) == []


# Networks

SMALL = {"hidden_channels": 16, "n_layers": 2, "n_heads": 2}
INVARIANT = {
    "TNO-1d": lambda: TNO(1, 2, 1, **SMALL),
    "TNO-2d": lambda: TNO(2, 1, 1, **SMALL),
    "TNO-3d": lambda: TNO(3, 1, 1, hidden_channels=4, n_layers=1, n_heads=1),
    "TNO-waves-1d": lambda: TNO(1, 2, 1, **SMALL, waves=2),
    "UniversalTNO-1d": lambda: UniversalTNO(1, 1, 1, hidden_channels=16),
    "FANO-1d": lambda: FANO((2,), 3, 1, 1, **SMALL),
    "FANO-cosine-1d": lambda: FANO((3,), 3, 1, 2, **SMALL, basis="cosine"),
    "FANO-2d": lambda: FANO((2, 2), 2, 1, 1, **SMALL, last=4),
    "SpectralOperator-2d": lambda: SpectralOperator((3, 3), 1, 1, 8, n_layers=2, basis="isotropic-cosine"),
    "CodomainNO-1d": lambda: CodomainNO(1, 3, 1, 1, hidden_channels=16, n_layers=2, token_channels=4, basis="cosine"),
    "CodomainNO-2d": lambda: CodomainNO(2, 3, 1, 1, hidden_channels=16, n_layers=2, token_channels=4),
    "ViTNO-resample-2d": lambda: Resampled(ViTNO((2, 2), 2, 1, 1, **SMALL)),
}
WEIGHTLESS = {
    "Transformer-1d": lambda: Transformer(1, 2, 1, **SMALL),
    "Transformer-2d": lambda: Transformer(2, 1, 1, **SMALL),
    "Galerkin-1d": lambda: GalerkinTransformer(1, 1, 1, **SMALL),
    "Galerkin-2d": lambda: GalerkinTransformer(2, 1, 1, **SMALL),
}


def made(make, seed=0):
    torch.manual_seed(seed)
    return make().double()


@pytest.mark.parametrize("name", INVARIANT)
def test_continuum_attention_passes_everything(name):
    found = asked(made(INVARIANT[name]))
    show(name, found)
    skipped = {"rename": "skipped"} if "resample" in name else {}
    assert verdicts(found) == dict.fromkeys(NAMES, "passed") | skipped
    assert 1.85 < found["refine"].order < 2.2


def test_last_layers_keep_as_many_modes_as_the_points_resolve():
    """Smoothing gives renamed scattered points other modes, which is no fault; uniform ones are renamed."""
    found = asked(made(lambda: SpectralOperator((4,), 1, 1, last="dirichlet", hidden_channels=8, n_layers=2)).float())
    assert verdicts(found) == dict.fromkeys(NAMES, "passed")

    class Broken(SpectralOperator):
        def forward(self, u, grid=None, query=None):
            return super().forward(u, grid, query) * (1.001 if grid.kind == "rectilinear" else 1.0)

    found = asked(made(lambda: Broken((4,), 1, 1, last="dirichlet", hidden_channels=8, n_layers=2)).float())
    assert found["rename"].verdict == "failed"


@pytest.mark.parametrize("dim", [1, 2])
def test_vitno_passes_on_the_grids_it_takes(dim):
    found = asked(made(lambda: ViTNO((2,) * dim, 2, 1, 1, **SMALL)))
    assert found.passed
    assert [found[name].verdict for name in NAMES] == ["passed", "passed", "skipped", "skipped", "skipped", "skipped"]
    assert 1.85 < found["refine"].order < 2.2
    assert found["scattered"].reason.startswith("does not take scattered points")


@pytest.mark.parametrize("name", WEIGHTLESS)
def test_attention_without_weights_fails_on_irregular_grids(name):
    found = asked(made(WEIGHTLESS[name]))
    show(name, found)
    assert [found[name].verdict for name in NAMES] == ["passed", "passed", "passed", "passed", "failed", "failed"]
    assert 0.75 < found["refine"].order < 1.2
    assert found["graded"].order < 0.3
    assert found["scattered"].order < 0.3


def test_afno_fails():
    operator = made(lambda: AFNO((16, 16), 1, 1, hidden_channels=8, n_layers=1))
    found = asked(operator, kind=operator.usual_kind)
    assert [found[name].verdict for name in NAMES] == ["failed", "failed", "skipped", "skipped", "skipped", "skipped"]
    assert "bound to 16 x 16 points" in found["refine"].reason


def test_float32_is_known_by_its_rounding():
    found = asked(made(INVARIANT["TNO-1d"]).float())
    assert found.passed
    assert 1e-10 < found["permute"].error < 2e-5


@pytest.mark.parametrize("make", [INVARIANT["TNO-1d"], INVARIANT["FANO-1d"], lambda: ViTNO((2,), 3, 1, 1, **SMALL)])
def test_trained_operators_pass(make, tmp_path):
    problem = ControlledODE()
    torch.manual_seed(1)
    operator = make()
    operator = type(operator)(**operator.settings | {"in_channels": problem.in_channels})
    samples = problem.sample(48, 32, seed=1).to(dtype=torch.float32)
    settings = Training(epochs=4, batch_size=8, learning_rate=2e-3, device="cpu")
    trained = train(operator, samples[:40], samples[40:], settings, tmp_path).double()
    for label, probes in (("smooth", smooth_probes(trained)), ("its draws", problem_probes(problem, seed=2))):
        found = certify(trained, probes, resolution_for(trained), trained.bounds, doublings=4)
        show(f"{type(trained).__name__} trained, {label}", found)
        assert found.passed
        assert 1.7 < found["refine"].order < 2.3


def test_neuraloperators_own_fno():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        neuralop = pytest.importorskip("neuralop")
    torch.manual_seed(0)
    theirs = neuralop.models.FNO((6, 6), 1, 1, hidden_channels=8, n_layers=2)
    probes = smooth_probes(TNO(2, 1, 1, **SMALL), periodic=True)
    found = certify(UniformOnly(theirs), probes, (12, 12), kind="periodic")
    show("neuraloperator", found)
    assert found.operator == "FNO"
    assert [found[name].verdict for name in NAMES] == ["passed", "passed", "skipped", "skipped", "skipped", "skipped"]
    assert 0.8 < found["refine"].order < 1.2


def test_uniform_only_takes_every_uniform_grid():
    module = UniformOnly(nn.Conv1d(1, 1, 1))
    u = torch.zeros(1, 1, 8)
    for kind in ("nodes", "cells", "periodic"):
        assert module(u, Grid.uniform(8, kind=kind)).shape == u.shape
    with pytest.raises(UsageError, match="Conv1d knows uniform grids only"):
        module(u, Grid.scattered(torch.rand(8, 1)))
