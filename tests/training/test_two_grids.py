"""Samples with u on one set of points and z on another: training, evaluation, calibration, choice."""

from dataclasses import replace

import pytest
import torch

from operformer import TNO, Grid, Increment, Resampled, Samples, SpectralOperator, Training, evaluate, train
from operformer.domain.interpolation import graded_grid, interpolate
from operformer.errors import UsageError
from operformer.evaluation.conformal import calibrate, coverage
from operformer.operators.baselines import AFNO
from operformer.problems.symmetry import moved, named_symmetries
from operformer.training.normalisation import fit_normalisation
from operformer.training.recommend import recommend

GRID, QUERY = graded_grid(Grid.uniform(40), 0.3), Grid.uniform(25, kind="cells")
QUERY_OF_5 = Grid.uniform(5, kind="cells")
FEW = Grid.scattered([[0.03], [0.51], [0.77], [0.98]])
SMALL = {"hidden_channels": 16, "n_layers": 2}
HOW = Training(epochs=10, batch_size=6, learning_rate=8e-3, schedule="one-cycle", optimizer="muon", loss="l2+h1")
OPERATORS = {
    "TNO": lambda: TNO(1, 1, 1, **SMALL, n_heads=2, waves=2),
    "SpectralOperator": lambda: SpectralOperator((4,), 1, 1, **SMALL, basis="cosine", waves=2),
}


def integrals(count, query=QUERY, seed=0):
    """z(y) = int_0^1 (1 + x y) u(x) dx, in closed form for u = a + b x + c x^2: not known from u near y."""
    a, b, c = torch.randn(3, count, 1, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x, y = GRID.points[:, 0], query.points[..., 0]
    z = (a + b / 2 + c / 3) + y * (a / 2 + b / 3 + c / 4)
    return Samples((a + b * x + c * x**2).float(), z.float(), GRID, query)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_integral_from_40_points_to_25(name, tmp_path):
    torch.manual_seed(0)
    found = train(OPERATORS[name](), integrals(128), integrals(8, seed=1), HOW, tmp_path)
    result = evaluate(found, integrals(40, seed=2))
    assert result.points == 25
    print(result)
    assert result.mean < 0.1
    assert result.h1.mean < 0.3
    assert evaluate(found, integrals(40, FEW, seed=2)).mean < 0.1  # the same function, read at other points
    band = calibrate(found, integrals(40, seed=3))
    assert band.spread.shape == (1, 25)
    assert coverage(band, found, integrals(40, seed=4)).functions > 0.75


def test_a_query_that_is_the_grid_trains_the_same_numbers(tmp_path):
    plain = replace(integrals(24, GRID), query=None)
    weights = []
    for name, samples in (("one", plain), ("two", replace(plain, query=GRID))):
        torch.manual_seed(0)
        operator = OPERATORS["TNO"]().double()
        samples = samples.to(dtype=torch.float64)
        found = train(operator, samples, samples[:4], replace(HOW, epochs=1), tmp_path / name)
        weights.append(torch.cat([p.flatten() for p in found.parameters()]))
    torch.testing.assert_close(*weights, rtol=1e-8, atol=1e-10)


def test_an_increment_learns_what_is_added_at_the_points_of_z():
    samples = integrals(8)
    operator = Increment(OPERATORS["TNO"]())
    fit_normalisation(operator, samples)
    there = interpolate(samples.u, GRID, QUERY)
    change = (samples.z - there).double()
    mean = (change * QUERY.weights).sum(-1).mean(0)
    torch.testing.assert_close(operator.output_mean.double(), mean, rtol=1e-5, atol=1e-6)


def test_operators_on_the_grid_of_u_alone_are_resampled():
    operator = AFNO((8,), 1, 1, 8, n_layers=1)
    samples = Samples(torch.rand(3, 1, 8), integrals(3).z, Grid.uniform(8, kind="cells"), QUERY)
    with pytest.raises(UsageError, match=r"AFNO gives z on the grid of u.*use Resampled\(operator\)"):
        evaluate(operator, samples)
    expected = interpolate(operator(samples.u, samples.grid), samples.grid, QUERY)
    torch.testing.assert_close(Resampled(operator)(samples.u, samples.grid, QUERY), expected)
    assert evaluate(Resampled(operator), samples).points == 25


def test_a_recipe_is_chosen_for_two_grids():
    found = recommend(integrals(40), minutes=0.02, training={"epochs": 1})
    assert "40 points" in found.reasons[0]
    assert found.make_operator()(integrals(2).u, GRID, QUERY).shape == (2, 1, 25)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": None}, r"z must be \(count, channels, 40\): got \(3, 1, 25\); .* give them as query="),
        ({"query": FEW}, r"z must be \(count, channels, 4\): got \(3, 1, 25\), on the query"),
        ({"query": Grid.uniform(25, [(0, 2)])}, r"axis 0 of the query reaches from 0 to 2, outside the box \[0, 1\]"),
        ({"query": Grid.uniform((5, 5))}, "grid and query must have the same dimension"),
        ({"query": Grid.ragged([[[0.1], [0.2]]] * 3)}, "the same points for all samples"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(UsageError, match=message):
        replace(integrals(3), **change)


def test_modules_without_a_query_and_shifts_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"called with \(u, grid, query\)"):
        calibrate(lambda u, grid: u, integrals(40))
    how, shifts = replace(HOW, augment=True), named_symmetries(["shift x"], 1, (1, 1))
    with pytest.raises(UsageError, match=r"samples with a query; set training.augment to false"):
        train(OPERATORS["TNO"](), integrals(8), integrals(8), how, tmp_path, symmetries=shifts)


def test_symmetries_that_a_user_names_move_both_grids():
    samples = Samples(torch.rand(4, 2, 6), torch.rand(4, 1, 5), Grid.uniform(6), QUERY_OF_5)
    mirror, sign = named_symmetries(["mirror x", "sign"], 1, (2, 1))
    uniform = torch.tensor([[0.1, 0.1, 0.9, 0.9], [0.1, 0.9, 0.1, 0.9]])  # which of the samples each one moves
    found = moved(samples, (mirror, sign), uniform)
    for values, before in ((found.u, samples.u), (found.z, samples.z)):
        assert torch.equal(values[0], before[0])
        assert torch.equal(values[1], -before[1])
        assert torch.equal(values[2], before[2].flip(-1))
        assert torch.equal(values[3], -before[3].flip(-1))
    assert found.query is QUERY_OF_5
    for wrong in ("mirror y", "exchange", "turn"):
        with pytest.raises(UsageError, match=r'in dimension 1 is "mirror x", "shift x", "sign": got'):
            named_symmetries([wrong], 1, (1, 1))
