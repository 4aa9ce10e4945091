"""What scattered points tell of modes: Gram matrices by hand, points that would do, and what operators say of it."""

import warnings

import numpy as np
import pytest
import torch

from operformer import FANO, Grid, Increment, SpectralOperator, Transformer, voronoi_weights
from operformer.domain.basis import Cosine, ExtendedFourier, Fourier
from operformer.domain.patches import make_patches
from operformer.domain.resolution import condition_number, points_needed, quadrature_error
from operformer.errors import OperformerWarning, UsageError


def cloud(count, dim=2, equal=False):
    points = torch.rand(count, dim, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    return Grid.scattered(points, None if equal else voronoi_weights(points))


def gram_by_hand(grid, basis, n_modes):
    """One loop over products of functions, numpy alone; of the whole square."""
    axes = []
    for x, m in zip(grid.points.numpy().T, n_modes, strict=True):
        if isinstance(basis, Fourier):
            waves = [np.ones_like(x)]
            for k in range(1, m):
                waves += [2**0.5 * np.cos(2 * np.pi * k * x), 2**0.5 * np.sin(2 * np.pi * k * x)]
        else:
            waves = [np.ones_like(x) if k == 0 else 2**0.5 * np.cos(np.pi * k * x) for k in range(m)]
        axes.append(waves)
    functions = np.array([f * g for f in axes[0] for g in axes[1]])
    return np.einsum("in,jn,n->ij", functions, functions, grid.weights.numpy())


@pytest.mark.parametrize("basis", [Cosine(), Fourier(), ExtendedFourier()], ids=lambda basis: basis.name)
def test_by_hand(basis):
    grid, n_modes = cloud(151), (3, 2)
    patches, gram = make_patches(grid, (1, 1)), gram_by_hand(grid, basis, n_modes)
    values = np.linalg.eigvalsh(gram)
    assert condition_number(patches, basis, n_modes) == pytest.approx(values[-1] / values[0], rel=1e-9)
    expected = np.linalg.norm(gram - np.eye(len(gram))) / len(gram) ** 0.5
    assert quadrature_error(patches, basis, n_modes) == pytest.approx(expected, rel=0.25)  # by 16 random functions


@pytest.mark.parametrize("equal", [False, True])
def test_the_points_that_are_named_would_do(equal):
    """Twice or half as many as needed in the median of some clouds."""
    n_modes, aim = (5, 5), 0.1

    def error(count):
        grid = cloud(count, equal=equal)
        return grid, quadrature_error(make_patches(grid, (1, 1)), Cosine(), n_modes)

    grid, found = error(300)
    needed = points_needed(grid, found, aim)
    assert 0.5 * aim < error(min(needed, 20000))[1] < 2 * aim


def operator(**options):
    torch.manual_seed(0)
    return SpectralOperator((6, 6), 1, 1, 6, n_layers=1, basis="cosine", **options).double()


def test_few_points_are_warned_of_once_and_many_are_not():
    few, many = cloud(120), cloud(1500)
    made, u = Increment(operator()), torch.ones(1, 1, 120, dtype=torch.float64)
    with pytest.warns(
        OperformerWarning, match=r"120 scattered points do not resolve 6 x 6 modes .* use about \d+ or fewer modes,"
    ):
        made(u, few)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(u, few)
        made(torch.ones(1, 1, 1500, dtype=torch.float64), many)
        made(torch.ones(1, 1, 8, 8, dtype=torch.float64), Grid.uniform((8, 8)))
        Transformer(2, 1, 1, 4, n_layers=1, n_heads=1).double()(u, few)


@pytest.mark.parametrize("basis", ["cosine", "fourier", "extended-fourier"])
@pytest.mark.parametrize("overlap", [0.0, 0.25])
def test_least_squares_are_exact_for_the_modes(basis, overlap):
    """Coefficients of functions that the first patch is made of, from few points and from a fine grid."""
    made = FANO((2, 1), 3, 1, 1, hidden_channels=4, n_layers=1, n_heads=1, basis=basis, overlap=overlap).double()
    made.analysis = "least-squares"
    grid, analysed = cloud(260), []
    _, there = made._on(grid)
    functions = there.transform.inside.synthesis[0] if overlap else there.transform.synthesis[0]
    analysis = there.transform.inside.analysis[0] if overlap else there.transform.analysis[0]
    analysed = analysis @ functions
    used = (analysis != 0).any(-1)
    for product, mask in zip(analysed, used, strict=True):
        torch.testing.assert_close(product[mask][:, mask], torch.eye(int(mask.sum())).double(), rtol=0, atol=1e-9)
    assert bool(used.any(1).all())


def test_least_squares_need_points():
    made = Increment(operator())
    with pytest.raises(UsageError, match="analysis must be one of quadrature, least-squares"):
        made.analysis = "spline"
    made.analysis = "least-squares"
    assert made.operator.analysis == "least-squares"
    made(torch.ones(1, 1, 400, dtype=torch.float64), cloud(400))
    with pytest.raises(UsageError, match=r"are not settled by 37 points \(condition number .*, at most 100\)"):
        made(torch.ones(1, 1, 37, dtype=torch.float64), cloud(37))
