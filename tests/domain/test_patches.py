"""The partition of D: which points lie in which patch, with which weights, and back (Section 3)."""

from itertools import product
from math import prod

import numpy as np
import pytest
import torch

from operformer import Grid
from operformer.domain.patches import ScatteredPatches, _ends, _searched_ends, make_patches
from operformer.errors import UsageError

BOX = ((-1.0, 2.0), (0.5, 1.0), (0.0, 7.0))
generator = torch.Generator().manual_seed(0)


def unsorted_axis(n, k=0):
    """Points of any spacing in any order that reach from end to end of the box."""
    lower, upper = BOX[k]
    inner = lower + (upper - lower) * torch.rand(n - 2, generator=generator, dtype=torch.float64)
    axis = torch.cat([inner, torch.tensor([lower, upper], dtype=torch.float64)])
    return axis[torch.randperm(n, generator=generator)]


def random_points(n, d):
    box = torch.tensor(BOX[:d], dtype=torch.float64)
    points = torch.rand(n, d, generator=generator, dtype=torch.float64)
    return box[:, 0] + points * (box[:, 1] - box[:, 0])


def grids():
    """(grid, n_patches): each kind in each dimension, sizes that the patches divide and sizes that they do not."""
    found = []
    for kind, shape, counts in [
        ("cells", (21,), (7,)), ("cells", (23,), (5,)), ("periodic", (21,), (3,)), ("periodic", (23,), (4,)),
        ("nodes", (21,), (5,)), ("nodes", (22,), (5,)), ("nodes", (5,), (5,)), ("cells", (13,), (1,)),
        ("cells", (10, 21), (5, 3)), ("cells", (85, 85), (4, 6)), ("cells", (421, 7), (13, 7)),
        ("periodic", (10, 21), (2, 7)), ("periodic", (85, 85), (4, 6)), ("periodic", (421, 7), (13, 3)),
        ("nodes", (11, 13), (5, 3)), ("nodes", (85, 85), (4, 5)), ("nodes", (421, 7), (13, 4)),
        ("cells", (12, 11), (4, 3)), ("cells", (4, 6, 10), (2, 3, 5)), ("cells", (5, 6, 7), (2, 3, 3)),
        ("periodic", (4, 9, 5), (2, 3, 5)), ("periodic", (5, 7, 11), (2, 3, 4)), ("nodes", (5, 7, 11), (2, 3, 5)),
        ("nodes", (6, 5, 7), (3, 2, 4)),
    ]:  # fmt: skip
        found.append((Grid.uniform(shape, BOX[: len(shape)], kind), counts))
    for shape, counts in [((31,), (4,)), ((31, 37), (3, 5)), ((19, 23, 17), (2, 3, 1))]:
        found.append((Grid.rectilinear(*(unsorted_axis(n, k) for k, n in enumerate(shape))), counts))
    for n, counts in [(53, (4,)), (211, (3, 5)), (307, (2, 3, 2))]:
        points = random_points(n, len(counts))
        found.append((Grid.scattered(points, points[:, 0] + 2, BOX[: len(counts)]), counts))
    return found


CASES = [pytest.param(*case, id=f"{case[0].kind}-{'x'.join(map(str, case[0].shape))}-{case[1]}") for case in grids()]


def weights_of(patches):
    """The weights of all points (P, M), patches and points in row-major order."""
    if isinstance(patches, ScatteredPatches):
        return patches.weights
    total = torch.ones(1, 1, dtype=torch.float64)
    for axis in patches.axes:
        rows = axis.weights.expand(axis.members.shape)
        total = (total[:, None, :, None] * rows[None, :, None, :]).flatten(2).flatten(0, 1)
    return total


def owners(grid, counts):
    """For each patch in turn the flat indices of the points that lie in it, from their coordinates alone.

    Faces belong to both sides, unless the points of a periodic grid, of which the patches divide the number, or
    scattered points, where they belong to the upper side alone (and the end of D to the last patch).
    """
    points, found = grid.points.reshape(-1, grid.dim), []
    for p in product(*map(range, counts)):
        inside = torch.ones(len(points), dtype=torch.bool)
        for k in range(grid.dim):
            lower, upper = grid.bounds[k]
            first, last = (lower + (upper - lower) * (p[k] + s) / counts[k] for s in (0, 1))
            slack, x = 1e-12 * (upper - lower), points[:, k]
            if grid.kind == "scattered" or (grid.kind == "periodic" and grid.shape[k] % counts[k] == 0):
                inside &= (x >= first - slack) & ((x < last - slack) | (p[k] == counts[k] - 1))
            else:
                inside &= (x >= first - slack) & (x <= last + slack)
        found.append(inside.nonzero().flatten().tolist())
    return found


# Which points


@pytest.mark.parametrize(("grid", "counts"), CASES)
def test_a_patch_holds_the_points_that_lie_in_it_once_each(grid, counts):
    patches = make_patches(grid, counts)
    numbers = torch.arange(prod(grid.shape), dtype=torch.float64).reshape(1, *grid.shape, 1)
    members, weights = patches.split(numbers).reshape(prod(counts), -1), weights_of(patches)
    assert members.shape == weights.shape
    for p, expected in enumerate(owners(grid, counts)):
        assert sorted(members[p][weights[p] > 0].tolist()) == expected
        assert bool((weights[p] >= 0).all())
        assert float(weights[p].sum()) == pytest.approx(1, abs=1e-13)
        if grid.kind == "scattered":  # the grid's own, up to the volume of the patch
            torch.testing.assert_close(
                weights[p][: len(expected)], grid.weights[expected] / grid.weights[expected].sum()
            )


@pytest.mark.parametrize(("grid", "counts"), CASES)
def test_join_undoes_split_and_takes_the_mean_where_patches_share_a_point(grid, counts):
    """On patch p the values p^2 and -p: at a point of several patches their mean, each patch counting once."""
    patches = make_patches(grid, counts)
    u = torch.randn(2, *grid.shape, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pieces = patches.split(u)
    assert pieces.shape == (2, prod(counts), *patches.local_shape, 3)
    torch.testing.assert_close(patches.join(pieces), u, rtol=1e-15, atol=1e-15)
    number = torch.arange(prod(counts), dtype=torch.float64)
    v = torch.stack([number**2, -number], -1).reshape(1, -1, *[1] * len(patches.local_shape), 2)
    z = patches.join(v.expand(1, -1, *patches.local_shape, 2)).reshape(-1, 2)
    held = [[] for _ in range(len(z))]
    for p, indices in enumerate(owners(grid, counts)):
        for index in indices:
            held[index].append(p)
    expected = [[np.mean(np.square(ps)), -np.mean(ps)] for ps in held]
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-13, atol=1e-13, equal_nan=False)


def test_gradients_pass_split_and_join():
    patches = make_patches(Grid.uniform((7, 4)), (3, 2))
    u = torch.randn(1, 7, 4, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: patches.join(patches.split(t) ** 3), (u,))


@pytest.mark.parametrize(
    ("grid", "count", "values", "weights"),
    [
        (Grid.uniform(5), 2, [[0, 1, 2], [2, 3, 4]], [[0.25, 0.5, 0.25]] * 2),
        (Grid.uniform(4), 2, [[0, 1], [2, 3]], [[1 / 3, 2 / 3], [2 / 3, 1 / 3]]),
        (Grid.uniform(4, kind="cells"), 2, [[0, 1], [2, 3]], [[0.5, 0.5]] * 2),
        (Grid.uniform(5, kind="cells"), 2, [[0, 1, 2], [2, 3, 4]], [[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]),
        (Grid.uniform(4, kind="periodic"), 2, [[0, 1], [2, 3]], [[0.5, 0.5]] * 2),
        (Grid.uniform(5, kind="periodic"), 2, [[0, 1, 2], [3, 4]], [[0.2, 0.4, 0.4], [0.4, 0.6]]),
        # 0.7 and 0.8 lie in the second half, at 0.4 and 0.6 of it.
        (Grid.rectilinear([0.8, 0.0, 1.0, 0.3, 0.7]), 2, [[1, 3], [4, 0, 2]], [[0.3, 0.7], [0.5, 0.3, 0.2]]),
        # Scattered points on faces have one patch.
        (
            Grid.scattered([[0.5], [0.0], [1.0], [0.2], [0.75]]),
            4,
            [[1, 3], [], [0], [2, 4]],
            [[0.5] * 2, [], [1], [0.5] * 2],
        ),
    ],
    ids=str,
)
def test_examples_by_hand(grid, count, values, weights):
    patches = make_patches(grid, (count,))
    pieces = patches.split(torch.arange(grid.shape[0], dtype=torch.float64)[None, :, None])[0, ..., 0]
    for p in range(count):
        present = weights_of(patches)[p] > 0
        assert pieces[p][present].tolist() == values[p]
        np.testing.assert_allclose(weights_of(patches)[p][present], weights[p], rtol=0, atol=1e-14)


# Scattered points


def test_a_patch_without_scattered_points_or_without_weight_is_absent():
    points = torch.tensor([[0.1, 0.1], [0.9, 0.8], [0.2, 0.9], [0.3, 0.6]], dtype=torch.float64)
    weights = torch.tensor([1.0, 2.0, 0.0, 0.0], dtype=torch.float64)
    patches = make_patches(Grid.scattered(points, weights), (2, 2))
    assert patches.is_present.tolist() == [True, False, False, True]
    u = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    assert torch.equal(patches.join(patches.split(u)), u)  # points of weight zero are points all the same
    assert patches.weights.sum(1).tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("grid", "counts", "message"),
    [
        (Grid.uniform((5, 7)), (2,), "n_patches must have one number for each axis: got .* for dimension 2"),
        (Grid.scattered([[0.1], [0.7]]), (2, 2), "one number for each axis: got .* for dimension 1"),
        (Grid.uniform((5, 7)), (2, 8), "axis 1 has 7 points for 8 patches; use at most 7"),
        (Grid.uniform((5, 7), kind="cells"), (6, 2), "axis 0 has 5 points for 6 patches; use at most 5"),
        (Grid.rectilinear([0.0, 0.01, 0.02, 1.0]), (3,), "patch 1 of 3 along axis 0 holds no point"),
        (Grid.rectilinear([0.0, 0.4, 1.0], [1.0, 0.0, 0.1, 0.3, 0.2]), (2, 4), "patch 2 of 4 along axis 1 holds no"),
    ],
)
def test_what_cannot_be_partitioned_is_refused_in_one_line(grid, counts, message):
    with pytest.raises(UsageError, match=message) as caught:
        make_patches(grid, counts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "left"])
def test_where_patches_of_uniform_points_begin_and_end(kind):
    """By whole numbers as by a search among the coordinates."""
    for n, count in [pair for pair in product(range(2, 40), range(1, 10)) if pair[1] <= pair[0]]:
        position = count * Grid.uniform(n, kind=kind).axes[0]
        assert [_ends(kind, n, p, count) for p in range(count)] == _searched_ends(position, count), (n, count)


def test_rounding_of_points_and_of_large_values():
    """Coordinates rounded to 1e-10: in as many patches as intervals each node has two. A mean does not overflow."""
    patches = make_patches(Grid.uniform(20, bounds=[(1e6, 1e6 + 1)]), (19,))
    assert patches.axes[0].sizes == (2,) * 19
    patches = make_patches(Grid.uniform(5), (2,))
    u = torch.full((1, 5, 1), 4e4, dtype=torch.float16)
    assert torch.equal(patches.join(patches.split(u)), u)
