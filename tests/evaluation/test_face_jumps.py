"""Jumps across faces: of fields that are constant on patches, and of smooth ones."""

from math import pi

import pytest
import torch

from operformer import Grid
from operformer.errors import UsageError
from operformer.evaluation.face_jumps import JumpMean


def measure(prediction, z, grid, n_patches):
    jumps = JumpMean(grid, n_patches)
    for one, other in zip(prediction.split(2), z.split(2), strict=True):
        jumps.add(one, other)
    return jumps.mean()


def field(function, grid, count=1):
    return function(grid.points).expand(count, 1, *grid.shape).double()


def test_a_jump_by_hand():
    """Error 0.3 in the right half and a slope along y; the truth is 2 everywhere, so units are halved."""
    grid = Grid.uniform((6, 8), kind="cells")
    error = field(lambda x: 0.3 * (x[..., 0] > 0.5).double() + 0.8 * x[..., 1], grid, 3)
    z = torch.full_like(error, 2.0)
    found = measure(z + error, z, grid, (2, 4))
    one, other = found.along
    assert (one.axis, other.axis) == (0, 1)
    assert (one.error_across, one.error_inside) == pytest.approx((0.15, 0.0), abs=1e-12)
    assert (other.error_across, other.error_inside) == pytest.approx((0.05, 0.05), rel=1e-12)
    assert (one.truth_across, one.truth_inside) == (0.0, 0.0)
    # (0.15^2 + 0.05^2) / (0 + 0.05^2) = 10
    assert found.face_ratio == pytest.approx(10**0.5, rel=1e-12)
    assert found.truth_ratio is None


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [("cells", 12, 1.0), ("nodes", 13, 0.5), ("periodic", 12, 3**0.5)],
)
def test_where_the_faces_are(kind, shape, expected):
    """A staircase of unit steps, one for each of 4 patches, on [0, 4]; a point on a face has the mean of both steps.

    Cells have 3 edges across faces, nodes 6, with half a step each. A periodic grid also goes from the last patch back
    to the first, 3 steps down: sqrt((1 + 1 + 1 + 9) / 4). Its points on faces belong to the patch that begins there.
    """
    grid = Grid.uniform((shape,), bounds=[(0, 4)], kind=kind)
    x = grid.points[..., 0]
    above, below = (x + 1e-9).floor().clamp(max=3), (x - 1e-9).floor().clamp(min=0)
    stairs = (above + below) / 2 if kind == "nodes" else above
    z = torch.ones(1, 1, shape, dtype=torch.float64)
    (axis,) = measure(z + stairs, z, grid, (4,)).along
    assert (axis.error_across, axis.error_inside) == pytest.approx((expected, 0.0), abs=1e-12)


@pytest.mark.parametrize("kind", ["cells", "periodic"])
def test_a_smooth_error_knows_no_faces(kind):
    """Waves at random phases: the ratio is 1 up to the spread of the draws."""
    grid = Grid.uniform((48, 48), kind=kind)
    generator = torch.Generator().manual_seed(0)
    phase = 2 * pi * torch.rand(400, 2, 1, 1, 1, generator=generator, dtype=torch.float64)
    error = torch.cos(2 * pi * grid.points[..., 0] + phase[:, 0]) + torch.cos(
        4 * pi * grid.points[..., 1] + phase[:, 1]
    )
    z = 1 + error.flip(0)
    found = measure(z + 0.01 * error, z, grid, (4, 3))
    assert found.face_ratio == pytest.approx(1, abs=0.05)
    assert found.truth_ratio == pytest.approx(1, abs=0.05)


def test_faces_of_a_partition_that_does_not_divide_the_grid():
    grid = Grid.uniform((7,), kind="cells")  # patches of [0, 1/3), ...: cells 0-2, 2-4, 4-6 by their middles
    z = torch.ones(1, 1, 7, dtype=torch.float64)
    error = torch.tensor([0.0, 0.0, 5.0, 5.0, 5.0, 9.0, 9.0], dtype=torch.float64)
    # Middles are (i + 1/2) / 7: the third, at 0.357, lies beyond 1/3, the sixth, at 0.786, beyond 2/3, the fifth not.
    (axis,) = measure(z + error, z, grid, (3,)).along
    assert axis.error_inside == 0
    assert axis.error_across == pytest.approx(((25 + 16) / 2) ** 0.5)


@pytest.mark.parametrize(
    ("grid", "n_patches"),
    [
        (Grid.uniform((6,)), None),
        (Grid.uniform((6,)), (1,)),
        (Grid.uniform((6,), kind="cells"), (6,)),
        (Grid.uniform((3,)), (9,)),
        (Grid.rectilinear([0, 0.2, 0.3, 1.0]), (2,)),
        (Grid.scattered([[0.1], [0.4], [0.8]]), (2,)),
    ],
)
def test_nothing_to_compare_is_none(grid, n_patches):
    z = torch.ones(1, 1, *grid.shape, dtype=torch.float64)
    assert measure(2 * z, z, grid, n_patches) is None


def test_an_axis_without_faces_is_left_out():
    grid = Grid.uniform((6, 8), kind="cells")
    z = field(lambda x: 1 + x[..., 0] * x[..., 1], grid)
    (axis,) = measure(2 * z, z, grid, (1, 2)).along
    assert axis.axis == 1


def test_a_partition_of_another_dimension_is_refused():
    with pytest.raises(UsageError, match="n_patches"):
        JumpMean(Grid.uniform((6, 8)), (2,))
