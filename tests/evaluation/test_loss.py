"""Relative L2 and H1 errors against hand-computed values and exact integrals."""

from math import e, sqrt

import pytest
import torch

from operformer import Grid
from operformer.evaluation.loss import LOSSES, relative_h1, relative_l2

EXACT_GRIDS = {
    "uniform": lambda n: Grid.uniform((n + 1,)),
    "graded": lambda n: Grid.rectilinear(torch.linspace(0, 1, n + 1, dtype=torch.float64).square()),
}
# z = e^(2 x) and a prediction off by x: ||x||^2 = 1/3, ||x'||^2 = 1; ||z||^2 = (e^4 - 1) / 4, ||z'||^2 = e^4 - 1.
EXACT = {"l2": sqrt((1 / 3) / ((e**4 - 1) / 4)), "h1": sqrt((4 / 3) / (5 * (e**4 - 1) / 4))}
EXACT["l2+h1"] = (EXACT["l2"] + EXACT["h1"]) / 2


def off_by_x(grid):
    x = grid.points[:, 0]
    z = torch.exp(2 * x).reshape(1, 1, -1)
    return z + x, z


@pytest.mark.parametrize(
    ("axis", "square"),
    [
        ([0.0, 0.5, 1.0], 0.5 * 0.25 + 0.25 * 1.0),
        ([0.0, 0.2, 1.0], 0.5 * 0.04 + 0.4 * 1.0),  # weights 0.1, 0.5, 0.4
    ],
)
def test_values_by_hand(axis, square):
    grid = Grid.rectilinear(axis)
    z = torch.ones(1, 1, 3, dtype=torch.float64)
    prediction = z + grid.points[:, 0]
    assert relative_l2(prediction, z, grid).item() == pytest.approx(sqrt(square), rel=1e-14)
    assert relative_h1(prediction, z, grid).item() == pytest.approx(sqrt(square + 1.0), rel=1e-14)


def test_channels_add_up_and_samples_do_not():
    grid = Grid.rectilinear([0.0, 0.2, 1.0])
    ones = torch.ones(3, dtype=torch.float64)
    z = torch.stack([torch.stack([3 * ones, 4 * ones]), torch.stack([1e6 * ones, 0 * ones])])
    error = torch.stack([torch.stack([0 * ones, 1 * ones]), torch.stack([3e6 * ones, 4e6 * ones])])
    for loss in LOSSES.values():  # constants have no slope
        torch.testing.assert_close(
            loss(z + error, z, grid), torch.tensor([1 / 5, 5.0], dtype=torch.float64), rtol=1e-12, atol=0
        )


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", EXACT_GRIDS)
def test_every_grid_gives_the_same_integral_to_second_order(name, kind):
    errors = []
    for n in (53, 106):
        grid = EXACT_GRIDS[kind](n)
        errors.append(LOSSES[name](*off_by_x(grid), grid).item() - EXACT[name])
    assert abs(errors[1]) < 3e-4 * EXACT[name]
    assert 3.8 < errors[0] / errors[1] < 4.2


@pytest.mark.parametrize("name", LOSSES)
def test_units_of_z_do_not_matter(name):
    grid = EXACT_GRIDS["graded"](13)
    prediction, z = off_by_x(grid)
    expected = LOSSES[name](prediction, z, grid)
    for factor in (-7.0, 1e-6, 1e11):
        torch.testing.assert_close(LOSSES[name](factor * prediction, factor * z, grid), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("factor", [1e-21, 1e21])
@pytest.mark.parametrize("name", LOSSES)
def test_units_of_z_do_not_matter_where_squares_leave_the_range_of_float32(name, factor):
    grid = EXACT_GRIDS["uniform"](13)
    prediction, z = (values.float() for values in off_by_x(grid))
    expected = LOSSES[name](prediction, z, grid)
    torch.testing.assert_close(LOSSES[name](factor * prediction, factor * z, grid), expected, rtol=1e-5, atol=0)


def test_units_of_the_domain_do_not_matter_in_l2():
    short, long = Grid.uniform((11,)), Grid.uniform((11,), bounds=[(-3.0, 400.0)])
    prediction, z = off_by_x(short)
    torch.testing.assert_close(relative_l2(prediction, z, long), relative_l2(prediction, z, short), rtol=1e-12, atol=0)


def test_a_plane_by_hand():
    # Off by x + 2 y on 3 x 2 nodes of the unit square: slopes 1 and 2; z = 5 has none.
    grid = Grid.uniform((3, 2))
    x, y = grid.points.unbind(-1)
    z = torch.full((1, 1, 3, 2), 5.0, dtype=torch.float64)
    square = sum(
        w * v * (a + 2 * b) ** 2 for a, w in ((0, 0.25), (0.5, 0.5), (1, 0.25)) for b, v in ((0, 0.5), (1, 0.5))
    )
    assert relative_l2(z + x + 2 * y, z, grid).item() == pytest.approx(sqrt(square) / 5, rel=1e-14)
    assert relative_h1(z + x + 2 * y, z, grid).item() == pytest.approx(sqrt(square + 1 + 4) / 5, rel=1e-14)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_derivatives(name):
    grid = EXACT_GRIDS["graded"](7)
    prediction, z = off_by_x(grid)
    assert torch.autograd.gradcheck(lambda p: LOSSES[name](p, z, grid), prediction.requires_grad_())


@pytest.mark.parametrize("name", LOSSES)
def test_a_sample_that_is_met_exactly_does_not_spoil_the_gradient_of_the_others(name):
    grid = EXACT_GRIDS["graded"](7)
    prediction, z = off_by_x(grid)
    both = torch.cat([prediction, z]).requires_grad_()
    LOSSES[name](both, torch.cat([z, z]), grid).mean().backward()
    assert torch.isfinite(both.grad).all()
    assert both.grad[0].abs().max() > 0
