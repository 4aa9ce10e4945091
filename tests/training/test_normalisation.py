"""Splits, samples that cannot be learnt from, and normalisation by the measure of the grid."""

import pytest
import torch

from operformer import FANO, TNO, Grid, Increment, ViTNO
from operformer.domain import Samples
from operformer.domain.samples import check_samples, split
from operformer.errors import DataError, UsageError
from operformer.training.normalisation import fit_normalisation

BUFFERS = ("input_mean", "input_scale", "output_mean", "output_scale", "domain_lower", "domain_extent")


def fitted(samples, in_channels=1, out_channels=1):
    operator = TNO(1, in_channels, out_channels, hidden_channels=6, n_layers=1, n_heads=2).double()
    fit_normalisation(operator, samples)
    return operator


def on(grid, *functions):
    """One sample with a channel for each function."""
    x = grid.points[:, 0]
    return torch.stack([function(x) for function in functions]).unsqueeze(0)


# Splits


@pytest.mark.parametrize(("validation", "test"), [(3, 5), (0, 5), (3, 0), (0, 0), (12, 0)])
def test_a_split_is_disjoint_and_complete(pairs, validation, test):
    samples = pairs(13)
    parts = split(samples, validation, test)
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [
        13 - validation - test,
        validation,
        test,
    ]
    for name in ("u", "z"):
        together = torch.cat([getattr(part, name) for part in (parts.train, parts.validation, parts.test)])
        assert torch.equal(together, getattr(samples, name))


@pytest.mark.parametrize(("validation", "test"), [(13, 0), (0, 13), (7, 6), (-1, 5), (5, -1), (20, -10), (14, 14)])
def test_a_split_that_leaves_nothing_is_refused(pairs, validation, test):
    with pytest.raises(UsageError, match=f"got {validation} and {test} of 13"):
        split(pairs(13), validation, test)


# Samples that cannot be learnt from


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["u", "z"])
def test_a_sample_that_is_not_finite_is_named(pairs, name, value):
    samples = pairs(7)
    getattr(samples, name)[5, 0, 3] = value
    getattr(samples, name)[6, 0, 2] = value
    with pytest.raises(DataError, match=f"sample 5 of {name} holds values that are not finite"):
        check_samples(samples, "training")


def test_an_output_that_is_zero_everywhere_is_named(pairs):
    samples = pairs(7)
    samples.u[2] = 0
    check_samples(samples, "training")  # a zero input is a good input
    samples.z[4] = 0
    with pytest.raises(DataError, match="sample 4 of z is zero everywhere"):
        check_samples(samples, "training")
    samples.z[4, 0, -1] = 1e-3
    check_samples(samples, "training")


# Normalisation


def test_means_are_those_of_functions_not_of_points():
    # On (0, 0.1, 0.2, 1) the weights are 0.05, 0.1, 0.45, 0.4: the mean of x is 0.01 + 0.09 + 0.4 = 0.5, that of the
    # points 0.325. The mean of x^2 is 0.001 + 0.018 + 0.4 = 0.419, its deviation from the mean sqrt(0.419 - 0.25).
    grid = Grid.rectilinear([0.0, 0.1, 0.2, 1.0])
    operator = fitted(Samples(on(grid, lambda x: x), on(grid, lambda x: 3 * x - 2), grid))
    assert operator.input_mean.item() == pytest.approx(0.5, rel=1e-14)
    assert operator.input_scale.item() == pytest.approx(0.169**0.5, rel=1e-14)
    assert operator.output_mean.item() == pytest.approx(-0.5, rel=1e-14)
    assert operator.output_scale.item() == pytest.approx(3 * 0.169**0.5, rel=1e-14)


def test_means_run_over_samples_and_each_channel_has_its_own():
    grid = Grid.uniform((5,), bounds=[(-1.0, 3.0)])
    values = torch.tensor([[1, 10], [4, 70], [4, 10]], dtype=torch.float64)
    u = values.unsqueeze(-1).expand(3, 2, 5)
    operator = fitted(Samples(u, u[:, :1], grid), in_channels=2)
    torch.testing.assert_close(operator.input_mean, torch.tensor([3.0, 30.0], dtype=torch.float64))
    torch.testing.assert_close(operator.input_scale, torch.tensor([2.0**0.5, 800.0**0.5], dtype=torch.float64))
    assert (operator.domain_lower.item(), operator.domain_extent.item()) == (-1.0, 4.0)


def uniform(n):
    return Grid.uniform((n + 1,))


def graded(n):
    return Grid.rectilinear(torch.linspace(0, 1, n + 1, dtype=torch.float64).square())


@pytest.mark.parametrize("make", [uniform, graded])
def test_the_fit_does_not_depend_on_the_resolution(make):
    # e^x on [0, 1]: mean e - 1, mean square (e^2 - 1) / 2.
    mean = torch.e - 1
    deviation = ((torch.e**2 - 1) / 2 - mean**2) ** 0.5
    errors = []
    for n in (37, 74):
        grid = make(n)
        operator = fitted(Samples(on(grid, torch.exp), on(grid, torch.exp), grid))
        errors.append((operator.input_mean.item() - mean, operator.input_scale.item() - deviation))
    for coarse, fine in zip(*errors, strict=True):
        assert abs(fine) < 1e-3
        assert 3.8 < coarse / fine < 4.2


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e-9])
def test_a_constant_channel_keeps_scale_one(value):
    grid = Grid.rectilinear([0.0, 0.1, 0.7, 1.0])
    u = torch.full((3, 1, 4), value, dtype=torch.float32)
    operator = fitted(Samples(u, on(grid, lambda x: x).expand(3, 1, 4), grid))
    assert operator.input_scale.item() == 1.0
    assert operator.input_mean.item() == pytest.approx(u[0, 0, 0].item(), rel=1e-15)


def test_a_channel_that_hardly_varies_keeps_its_deviation():
    grid = Grid.uniform((2,))
    u = torch.tensor([[[1.0, 1.0]], [[1.0 + 2**-20, 1.0 + 2**-20]]], dtype=torch.float64)
    operator = fitted(Samples(u, u, grid))
    assert operator.input_scale.item() == pytest.approx(2**-21, rel=1e-9)


@pytest.mark.parametrize("kind", [FANO, ViTNO])
def test_outputs_that_are_zero_at_the_boundary_stay_so_in_physical_units(kind):
    # z = 2 and 4 times sin(pi x): mean square (4 + 16) / 4 = 5. A mean of outputs would be their value at both ends.
    grid = Grid.uniform((33,))
    z = torch.cat([amplitude * on(grid, lambda x: torch.sin(torch.pi * x)) for amplitude in (2, 4)])
    size = {"hidden_channels": 6, "n_layers": 1, "n_heads": 2}
    for smoothing, mean, square in (("dirichlet", 0.0, 5.0), ("neumann", 6 / torch.pi, 5 - 36 / torch.pi**2)):
        torch.manual_seed(0)
        operator = kind((4,), 3, 1, 1, last=smoothing, **size).double()
        fit_normalisation(operator, Samples(z, z, grid))
        assert operator.output_mean.item() == pytest.approx(mean, abs=3e-3)  # the trapezoidal rule on 33 nodes
        assert operator.output_scale.item() ** 2 == pytest.approx(square, abs=1e-2)
        found = operator(z, grid)
        assert found.abs().max() > 0.01
        assert (found[..., [0, -1]].abs().max() < 1e-14) == (smoothing == "dirichlet")


def test_what_is_added_to_the_input_is_zero_at_the_boundary():
    # z = u + x (1 - x): the mean of x (1 - x) is 1/6, its mean square 1/30; at both ends the output is u itself.
    grid = Grid.uniform((129,))
    u = on(grid, lambda x: 3 - x)
    operator = Increment(FANO((2,), 3, 1, 1, hidden_channels=6, n_layers=1, n_heads=2, last="dirichlet")).double()
    fit_normalisation(operator, Samples(u, u + on(grid, lambda x: x * (1 - x)), grid))
    assert operator.output_mean.item() == 0.0
    assert operator.output_scale.item() == pytest.approx(30**-0.5, rel=1e-3)
    torch.testing.assert_close(operator(u, grid)[..., [0, -1]], u[..., [0, -1]], rtol=0, atol=1e-14)


def test_an_output_channel_without_values_has_scale_one():
    grid = Grid.uniform((17,))
    operator = FANO((2,), 3, 1, 2, hidden_channels=6, n_layers=1, n_heads=2, last="dirichlet").double()
    z = on(grid, lambda x: x * (1 - x), lambda x: 0 * x)
    fit_normalisation(operator, Samples(z[:, :1], z, grid))
    assert operator.output_scale[1] == 1.0
    assert 0 < operator.output_scale[0] < 0.3


@pytest.mark.parametrize("kind", ["uniform", "rectilinear"])
def test_a_fitted_operator_follows_a_change_of_units(pairs, make_operator, kind):
    # u -> a u + b, z -> c z + d, t -> f t + g: the same function in other units.
    given = pairs(5, dtype=torch.float64)
    times = given.grid.points[:, 0] if kind == "uniform" else given.grid.points[:, 0] ** 2 / 2
    samples = Samples(given.u, given.z, Grid.rectilinear(times))
    changed = Samples(3 * given.u + 11, 0.125 * given.z - 5, Grid.rectilinear(4 * times - 7))
    one, other = make_operator(dtype=torch.float64), make_operator(dtype=torch.float64)
    fit_normalisation(one, samples)
    fit_normalisation(other, changed)
    prediction = one(samples.u, samples.grid)
    torch.testing.assert_close(other(changed.u, changed.grid), 0.125 * prediction - 5, rtol=1e-10, atol=1e-10)
    assert prediction.std() > 0.01
