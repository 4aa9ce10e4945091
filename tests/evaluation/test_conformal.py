"""Conformal bands: quantiles by hand, coverage within binomial bounds on both sides, one band on every grid."""

from fractions import Fraction
from math import ceil, sqrt

import pytest
import torch

from operformer import Grid
from operformer.domain import Samples, l2_norm
from operformer.errors import DataError, DivergedError, OperformerError, OperformerWarning, UsageError
from operformer.evaluation.conformal import (
    calibrate,
    conformal_quantile,
    coverage,
    least_count,
    weighted_quantile,
)

LINE = Grid.rectilinear([0.0, 0.1, 0.3, 1.0])  # weights 0.05, 0.15, 0.45, 0.35


def nothing(u, grid):
    """G(u) = 0, so that z itself is the error."""
    return torch.zeros_like(u)


def pairs(z, grid):
    return Samples(torch.zeros_like(z), z, grid)


# Quantiles


@pytest.mark.parametrize(
    ("level", "expected"),
    [(0.0, 1.0), (0.3, 1.0), (0.35, 1.0), (0.36, 2.0), (0.5, 2.0), (0.51, 3.0), (0.95, 3.0), (0.96, 4.0), (1.0, 4.0)],
)
def test_a_weighted_quantile_by_hand(level, expected):
    # Sorted: 1 with weight 0.35, 2 with 0.15, 3 with 0.45, 4 with 0.05; sums 0.35, 0.5, 0.95, 1.
    values = torch.tensor([[4.0, 2.0, 3.0, 1.0], [40.0, 20.0, 30.0, 10.0]], dtype=torch.float64)
    assert weighted_quantile(values, LINE.weights, level).tolist() == [expected, 10 * expected]


def test_points_without_weight_are_absent():
    weights = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    values = torch.tensor([2.0, 9.0, 3.0, 1.0], dtype=torch.float64)
    assert [float(weighted_quantile(values, weights, level)) for level in (0.0, 0.5, 1.0)] == [2.0, 2.0, 3.0]


def test_shares_that_rounding_would_miss_are_enough():
    values = torch.arange(1.0, 11.0, dtype=torch.float64)
    weights = torch.full((10,), 0.1, dtype=torch.float64)  # their partial sums are 0.3 - 4e-17 and the like
    assert [float(weighted_quantile(values, weights, k / 10)) for k in range(1, 11)] == values.tolist()


def test_a_conformal_quantile_is_the_score_of_its_rank():
    for count in range(1, 60):
        scores = torch.randperm(count, generator=torch.Generator().manual_seed(count)).double() + 1
        for hundredths in range(1, 100):
            rank = ceil((count + 1) * Fraction(100 - hundredths, 100))
            if rank <= count:
                assert conformal_quantile(scores, hundredths / 100) == rank
            else:
                assert least_count(hundredths / 100) > count
                with pytest.raises(UsageError, match="needs scores of at least"):
                    conformal_quantile(scores, hundredths / 100)


# The band


def test_a_band_by_hand():
    # Half of the pairs give s: errors 30 and 40, root mean square sqrt(1250) times (1, 2, 2, 1) at the points.
    form = torch.tensor([1.0, 2.0, 2.0, 1.0], dtype=torch.float64)
    sizes = torch.tensor([30.0, 40.0, -1.0, 2.0, 7.0], dtype=torch.float64)
    found = calibrate(nothing, pairs(sizes.reshape(-1, 1, 1) * form, LINE), alpha=0.25, delta=0.0)
    assert found.count == 3
    assert repr(found).startswith("Calibration(75 % of samples: |z - G(u)| <= 0.198 spread on 100 % of D")  # 7 / 35.36
    torch.testing.assert_close(found.spread, sqrt(1250) * form.unsqueeze(0), rtol=1e-12, atol=0)
    assert found.factor == pytest.approx(7 / sqrt(1250), rel=1e-12)  # rank ceil(4 * 0.75) = 3 of 1, 2, 7
    torch.testing.assert_close(found.half_width(LINE), 7 * form.unsqueeze(0), rtol=1e-12, atol=0)
    assert found.relative_error == pytest.approx(1.0, rel=1e-12)  # G(u) = 0 is off by all of z
    lower, upper = found.band(10 + torch.zeros(2, 1, 4), LINE)
    torch.testing.assert_close(upper[1, 0], 10 + 7 * form.float())
    torch.testing.assert_close(lower[1, 0], 10 - 7 * form.float())


def test_part_of_the_domain_may_lie_outside():
    z = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).reshape(3, 1, 1) * torch.tensor([9.0, 1.0, 1.0, 2.0])
    widths = {}
    for delta in (0.0, 0.05, 0.4):  # the first point has 0.05 of the volume, the last 0.35
        found = calibrate(nothing, pairs(z, LINE), 0.25, delta, "constant")
        widths[delta] = found.factor
        outside = coverage(found, nothing, pairs(z, LINE))
        assert outside.functions == 1.0
        assert outside.volume >= 1 - delta - 1e-12
    assert widths == pytest.approx({0.0: 27.0, 0.05: 6.0, 0.4: 3.0}, rel=1e-12)


def test_channels_of_different_units_share_one_factor():
    generator = torch.Generator().manual_seed(5)
    z = torch.randn(23, 2, 7, generator=generator, dtype=torch.float64)
    units = torch.tensor([1.0, 1e3], dtype=torch.float64).reshape(1, 2, 1)
    grid = Grid.uniform(7)
    one, other = (calibrate(nothing, pairs(values, grid)) for values in (z, z * units))
    assert one.factor == pytest.approx(other.factor, rel=1e-12)
    torch.testing.assert_close(other.half_width(grid), one.half_width(grid) * units[0], rtol=1e-12, atol=0)


def test_coverage_by_hand():
    z = torch.tensor([[1.0, 1.0, 1.0, 1.0], [9.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 9.0], [2.0, 2.0, 2.0, 2.0]])
    samples = pairs(z.double().unsqueeze(1), LINE)
    found = calibrate(nothing, samples[:1], alpha=0.5, delta=0.05, spread="constant")
    assert found.factor == 1.0
    counted = coverage(found, nothing, samples)
    assert (counted.count, counted.functions) == (4, 0.5)  # the second leaves the band on 0.05 of D, as it may
    assert counted.volume == pytest.approx((1 + 0.95 + 0.65 + 0) / 4, rel=1e-12)
    assert counted.relative_errors == 1.0
    by_weights = samples.z.double().square() @ LINE.weights / 4, samples.z.double() @ LINE.weights / 4
    deviation = sqrt(float(by_weights[0].sum()) - float(by_weights[1].sum()) ** 2)
    assert counted.width == pytest.approx(1 / deviation, rel=1e-6)


def test_an_operator_without_errors_has_a_band_without_width():
    z = torch.ones(9, 1, 4, dtype=torch.float64)
    found = calibrate(lambda u, grid: torch.ones_like(u), pairs(z, LINE), alpha=0.25)
    assert (found.factor, found.relative_error) == (0.0, 0.0)
    assert coverage(found, lambda u, grid: torch.ones_like(u), pairs(z, LINE)).functions == 1.0


# The promise


def functions(count, points, generator):
    """Random amplitudes of heavy tails times random curves: exchangeable, far from Gaussian."""
    sizes = torch.randn(count, 1, 1, generator=generator, dtype=torch.float64).exp().square()
    return sizes * torch.randn(count, 1, points, generator=generator, dtype=torch.float64).cumsum(-1)


def assert_binomial(hits, repetitions, share):
    """Four standard deviations on both sides: too wide a band fails as well."""
    slack = 4 * sqrt(share * (1 - share) / repetitions)
    assert abs(hits / repetitions - share) < slack


@pytest.mark.parametrize(
    ("spread", "count", "alpha", "share"),
    [("constant", 9, 0.1, 0.9), ("rms", 10, 0.25, 5 / 6), ("rms", 38, 0.2, 0.8)],
)
def test_a_new_function_is_in_the_band_as_often_as_promised(spread, count, alpha, share):
    grid = Grid.rectilinear(torch.linspace(0, 1, 11, dtype=torch.float64).square())
    generator = torch.Generator().manual_seed(1)
    repetitions, in_band, below = 1000, 0, 0
    for _ in range(repetitions):
        z = functions(count + 1, 11, generator)
        prediction = 0.3 * z.roll(1, -1)  # any operator: here, one that sees the truth badly
        samples = Samples(prediction, z, grid)
        found = calibrate(lambda u, grid: u, samples[:count], alpha, 0.2, spread)
        counted = coverage(found, lambda u, grid: u, samples[count:])
        in_band += counted.functions
        below += counted.relative_errors
    assert_binomial(in_band, repetitions, share)
    assert_binomial(below, repetitions, share)


# The same on every grid


def errors_on(grid, sizes):
    """Errors a x (1 + x) on [0, 1]: known at every point."""
    x = grid.points[..., 0]
    return pairs(sizes.reshape(-1, 1, 1) * (x * (1 + x)), grid)


@pytest.mark.parametrize("delta", [0.0, 0.1, 0.5])
def test_the_band_is_the_same_on_every_grid(delta):
    sizes = torch.linspace(1, 2, 19, dtype=torch.float64)
    exact = float(sizes[17]) * (1 - delta) * (2 - delta)  # rank 18 of 19; a x (1 + x) is below that on 1 - delta
    errors = {}
    for points in (41, 81, 161):
        axis = torch.linspace(0, 1, points, dtype=torch.float64)
        for name, grid in (
            ("nodes", Grid.rectilinear(axis)),
            ("graded", Grid.rectilinear(axis**3)),
            ("cells", Grid.uniform(points, kind="cells")),
        ):
            found = calibrate(nothing, errors_on(grid, sizes), 0.1, delta, "constant")
            errors[name, points] = abs(found.factor / exact - 1)
            by_count = errors_on(grid, sizes[17:18]).z.quantile(1 - delta, interpolation="higher")
            if name == "graded" and delta:
                assert abs(float(by_count) / exact - 1) > 0.2  # points are not volume
    assert all(error < 8 / points for (_, points), error in errors.items())  # a step of the grid: first order


def test_the_spread_is_read_on_other_grids():
    sizes = torch.linspace(1, 2, 39, dtype=torch.float64)
    coarse, fine = Grid.uniform(33), Grid.rectilinear(torch.linspace(0, 1, 101, dtype=torch.float64).square())
    found = calibrate(nothing, errors_on(coarse, sizes), 0.1, 0.05)
    assert found.half_width(fine).shape == (1, 101)
    x = fine.points[..., 0]
    expected = float(found.half_width(coarse)[0, -1]) / 2 * (x * (1 + x))
    inside = x > 0.1  # where s is not held up from below
    torch.testing.assert_close(found.half_width(fine)[0][inside], expected[inside], rtol=5e-3, atol=0)
    at_once = calibrate(nothing, errors_on(fine, sizes), 0.1, 0.05)
    assert found.factor == pytest.approx(at_once.factor, rel=0.01)
    assert coverage(found, nothing, errors_on(fine, sizes[:36])).functions == 1.0
    assert coverage(found, nothing, errors_on(fine, sizes[38:])).functions == 0.0


def test_the_band_beyond_the_outermost_cells_is_not_negative():
    cells = Grid.uniform(5, kind="cells")
    z = torch.tensor([1.0, 30.0, 30.0, 30.0, 1.0], dtype=torch.float64).expand(19, 1, 5)
    found = calibrate(nothing, pairs(z * torch.linspace(1, 2, 19).reshape(-1, 1, 1), cells))
    assert float(found.half_width(Grid.uniform(11)).min()) > 0  # linear continuation would give -13.5


# Refusals


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"alpha": 0.0}, "alpha must be between 0 and 1"),
        ({"alpha": 1.0}, "alpha must be between 0 and 1"),
        ({"delta": 1.0}, "delta must be from 0 to below 1"),
        ({"delta": -0.1}, "delta must be from 0 to below 1"),
        ({"spread": "wide"}, "spread must be 'rms' or 'constant'"),
        (
            {"alpha": 0.05},
            "alpha=0.05 needs scores of at least 19 samples: got 17; give more validation samples, or raise alpha",
        ),
        ({"alpha": 0.05, "spread": "constant"}, "at least 19 samples: got 17"),
    ],
)
def test_what_cannot_be_promised_is_refused(arguments, part):
    with pytest.raises(UsageError) as caught:
        calibrate(nothing, pairs(torch.ones(17, 1, 4), LINE), **arguments)
    assert part in str(caught.value)


@pytest.mark.parametrize("alpha", [0.3, 0.2, 0.1, 0.07, 0.05, 0.01])
def test_too_few_samples_for_a_varying_width_give_a_constant_one(alpha):
    enough, least = 2 * least_count(alpha) - 1, least_count(alpha)
    assert calibrate(nothing, pairs(torch.ones(enough, 1, 4), LINE), alpha).count == least
    for count in {enough - 1, least}:
        samples = pairs(torch.rand(count, 1, 4, generator=torch.Generator().manual_seed(count)), LINE)
        with pytest.warns(OperformerWarning, match=f"spread=.constant.; at alpha={alpha:g} {enough} validation"):
            found = calibrate(nothing, samples, alpha)
        expected = calibrate(nothing, samples, alpha, spread="constant")
        assert (found.count, found.factor) == (expected.count, expected.factor)
        assert torch.equal(found.spread, expected.spread)
    with pytest.raises(UsageError, match="needs scores"):
        calibrate(nothing, pairs(torch.ones(least - 1, 1, 4), LINE), alpha)


@pytest.mark.parametrize(
    ("operator", "z", "kind"),
    [
        (lambda u, grid: u / 0, torch.ones(17, 1, 4), DivergedError),
        (lambda u, grid: u[..., :2], torch.ones(17, 1, 4), UsageError),
        (nothing, torch.full((17, 1, 4), torch.nan), DataError),
    ],
)
def test_what_is_no_function_is_refused(operator, z, kind):
    with pytest.raises(OperformerError) as caught:
        calibrate(operator, pairs(z, LINE))
    assert isinstance(caught.value, kind)


def test_an_operator_of_the_library_is_asked_in_its_own_precision(make_operator, pairs):
    operator = make_operator()
    samples = pairs(31, dtype=torch.float64)
    found = calibrate(operator, samples[:20])
    errors = (operator(samples.u.float(), samples.grid).double() - samples.z).detach()
    rms = errors[:10].square().mean(0).sqrt()
    torch.testing.assert_close(found.spread, rms.clamp(min=0.1 * float(l2_norm(rms, samples.grid)) / sqrt(2)))
    assert coverage(found, operator, samples[20:]).count == 11
