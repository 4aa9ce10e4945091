"""Analysis and synthesis against FFTs, sums by hand and integrals by Gauss-Legendre (Section 4.1)."""

from itertools import product
from math import pi, prod

import numpy as np
import pytest
import torch
from draws import noise

from operformer import Grid, voronoi_weights
from operformer.domain.basis import Cosine, ExtendedFourier, Fourier, Legendre, Sine
from operformer.domain.patches import make_patches
from operformer.domain.transform import axis_points, expand, make_transform

F64 = torch.zeros((), dtype=torch.float64)
BASES = [Fourier(), Cosine(), Sine(), Legendre(), ExtendedFourier()]


def name(basis):
    return type(basis).__name__


def analyse(u, grid, counts, basis, n_modes):
    """The coefficients (batch, P, sizes, c) of u (batch, *shape, c)."""
    patches = make_patches(grid, counts)
    return make_transform(patches, basis, n_modes, u).analyse(patches.split(u))


def observed_order(sizes, errors, what):
    order = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    print(f"{what}: order {order:.3f}, errors {errors}")
    return order


# FFTs


@pytest.mark.parametrize("basis", BASES, ids=name)
@pytest.mark.parametrize(
    ("grid", "counts", "n_modes"),
    [
        (Grid.uniform((6, 10), kind="cells"), (2, 1), (2, 3)),
        (Grid.uniform((11, 7), [(0, 2), (1, 4)], kind="nodes"), (2, 3), (2, 1)),
        (Grid.uniform((4, 9, 6), kind="periodic"), (1, 2, 2), (2, 1, 2)),
        (Grid.rectilinear([0.0, 1.0, 0.3, 0.2, 0.6, 0.45, 0.81, 0.7, 0.13]), (2,), (2,)),
    ],
    ids=str,
)
def test_coefficients_are_weighted_sums_over_the_points_of_a_patch(basis, grid, counts, n_modes):
    """One patch, point and mode after the other; synthesis evaluates the functions at the points."""
    patches = make_patches(grid, counts)
    transform, u = make_transform(patches, basis, n_modes, F64), noise(1, *grid.shape, 1)
    coefficients, pieces = transform.analyse(patches.split(u))[0, ..., 0], patches.split(u)[0, ..., 0]
    given = noise(1, pieces.shape[0], coefficients.shape[-1], 1, seed=1)
    values = transform.synthesise(given)[0, ..., 0]
    sizes = [range(basis.size(m)) for m in n_modes]
    for p, which in enumerate(product(*map(range, counts))):
        rows = [w % len(axis.local) for axis, w in zip(patches.axes, which, strict=True)]
        local = [axis.local[r] for axis, r in zip(patches.axes, rows, strict=True)]
        weights = [axis.weights[r] for axis, r in zip(patches.axes, rows, strict=True)]
        forth = [basis.analysis(x, m) * w[:, None] for x, m, w in zip(local, n_modes, weights, strict=True)]
        back = [basis.synthesis(x, m) for x, m in zip(local, n_modes, strict=True)]
        totals, sums = torch.zeros_like(coefficients[p]), torch.zeros_like(values[p])
        for (number, mode), at in product(enumerate(product(*sizes)), product(*map(range, patches.local_shape))):
            totals[number] += pieces[(p, *at)] * prod(f[i, j] for f, i, j in zip(forth, at, mode, strict=True))
            sums[at] += given[0, p, number, 0] * prod(f[i, j] for f, i, j in zip(back, at, mode, strict=True))
        torch.testing.assert_close(coefficients[p], totals, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(values[p], sums, rtol=1e-12, atol=1e-12)


# What the points resolve


@pytest.mark.parametrize(
    ("basis", "kind"),
    [
        (Fourier(), "periodic"), (Fourier(), "cells"), (Fourier(), "nodes"), (Cosine(), "cells"), (Cosine(), "nodes"),
        (Sine(), "cells"), (Sine(), "nodes"),
    ],
    ids=lambda value: value if isinstance(value, str) else name(value),
)  # fmt: skip
@pytest.mark.parametrize("points", [4, 5, 8, 9])
@pytest.mark.parametrize("count", [1, 2])
def test_what_was_synthesised_is_analysed_or_not_seen(basis, kind, points, count):
    """With many more modes than points: what has a coefficient at all comes back as itself, not doubled."""
    n = count * (points - 1) + 1 if kind == "nodes" else count * points
    transform = make_transform(make_patches(Grid.uniform(n, kind=kind), (count,)), basis, (13,), F64)
    every = torch.eye(basis.size(13), dtype=torch.float64)[:, None, :, None].expand(-1, count, -1, -1)
    back = transform.analyse(transform.synthesise(every))[..., 0]
    seen = back.abs().amax((0, 1)) > 1e-9
    assert int(seen.sum()) >= points - 2
    expected = torch.diag(seen.double()).unsqueeze(1).expand_as(back)
    torch.testing.assert_close(back[seen], expected[seen], rtol=1e-12, atol=1e-12)


def test_patches_with_fewer_points_resolve_fewer_modes():
    """Points at 0, 1/2 and nine in the second half: five Fourier modes there, one or two in the first."""
    axis = torch.cat([torch.tensor([0.0, 0.2]), torch.linspace(0.55, 1, 9)]).double()
    coefficients = analyse(torch.exp(axis)[None, :, None], Grid.rectilinear(axis), (2,), Fourier(), (5,))[0, :, :, 0]
    assert torch.equal(coefficients[0, 2:], torch.zeros(8, dtype=torch.float64))
    assert float(coefficients[1, 2:8].abs().min()) > 1e-3


@pytest.mark.parametrize("basis", [Fourier(), Cosine()], ids=name)
def test_scattered_points_that_are_few_resolve_little(basis):
    points = torch.rand(18, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    points[:9] = points[:9] * torch.tensor([0.5, 1.0])
    points[9:] = points[9:] * torch.tensor([0.5, 1.0]) + torch.tensor([0.5, 0.0])
    grid = Grid.scattered(points, voronoi_weights(points))
    coefficients = analyse(noise(1, 18, 1), grid, (2, 1), basis, (7, 7))[0, ..., 0].unflatten(-1, (basis.size(7),) * 2)
    # nine points are three along each axis
    limit = basis.size(basis.n_resolved(3))
    assert float(coefficients[:, limit:].abs().max()) == float(coefficients[:, :, limit:].abs().max()) == 0
    assert float(coefficients[:, :limit, :limit].abs().amax(0)[0, 0]) > 0


# Integrals


def smooth(x):
    """Periodic on D, so that it suits periodic grids, but not on the patches."""
    return torch.exp(torch.sin(2 * pi * x + 0.4).sum(-1, keepdim=True)) + torch.cos(4 * pi * x[..., :1])


def gauss_legendre(n=30):
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return torch.from_numpy((nodes + 1) / 2), torch.from_numpy(weights / 2)


def exact_coefficients(basis, counts, n_modes):
    """int over the patch, scaled to the unit cube, of the function with each basis function."""
    (y, w), found, d = gauss_legendre(), [], len(counts)
    for which in product(*map(range, counts)):
        axes = [(y + p) / count for p, count in zip(which, counts, strict=True)]
        u = smooth(torch.stack(torch.meshgrid(*axes, indexing="ij"), -1))[..., 0]
        for m in reversed(n_modes):
            u = torch.tensordot(w[:, None] * basis.analysis(y, m), u, ([0], [d - 1]))
        found.append(u.flatten())
    return torch.stack(found)


def make_grid(kind, n, d):
    if kind == "rectilinear":
        s = torch.linspace(0, 1, n, dtype=torch.float64)
        return Grid.rectilinear(*[s + 0.02 * torch.sin(4 * pi * s)] * d)
    return Grid.uniform((n + 1 if kind == "nodes" else n,) * d, kind=kind)


@pytest.mark.parametrize("basis", BASES, ids=name)
@pytest.mark.parametrize(
    ("kind", "sizes", "counts", "expected"),
    [
        ("cells", (22, 66, 198, 594), (2,), 2), ("nodes", (22, 66, 198, 594), (2,), 2),
        ("cells", (21, 61, 181, 541), (2,), 2), ("nodes", (21, 61, 181, 541), (2,), 2),
        ("rectilinear", (22, 62, 182, 542), (2,), 2), ("periodic", (61, 181, 541, 1621), (2,), 2),
        ("cells", (21, 41, 81), (2, 1), 2), ("nodes", (20, 40, 80), (2, 1), 2),
        # Patches that divide a periodic grid have the left-hand rule of the appendix; only sines do not see the ends.
        ("periodic", (22, 66, 198, 594), (2,), 1),
    ],
)  # fmt: skip
def test_coefficients_converge_to_integrals(basis, kind, sizes, counts, expected):
    n_modes, errors, expected = (3,) * len(counts), [], 2 if isinstance(basis, Sine) else expected
    exact = exact_coefficients(basis, counts, n_modes)
    for n in sizes:
        grid = make_grid(kind, n, len(counts))
        coefficients = analyse(smooth(grid.points)[None], grid, counts, basis, n_modes)[0, ..., 0]
        errors.append(float((coefficients - exact).abs().max()))
    assert abs(observed_order(sizes, errors, f"{name(basis)}, {kind} {counts}") - expected) < 0.15


@pytest.mark.parametrize("basis", [Fourier(), Cosine()], ids=name)
def test_coefficients_on_scattered_points_converge_to_integrals(basis):
    """Voronoi cells integrate with order 2 in the plane, 3 / 2 where a face cuts them; the mean over draws."""
    sizes, errors = (20, 30, 45), []
    exact = exact_coefficients(basis, (2, 1), (3, 3))
    for n in sizes:
        found = []
        for seed in range(6):
            points = torch.rand(n * n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            grid = Grid.scattered(points, voronoi_weights(points))
            coefficients = analyse(smooth(points)[None], grid, (2, 1), basis, (3, 3))[0, ..., 0]
            found.append(float((coefficients - exact).abs().max()))
        errors.append(float(np.mean(found)))
    assert 1.4 < observed_order(sizes, errors, f"{name(basis)}, scattered") < 2.6  # of six draws


def test_weighing_gives_the_inner_product_of_functions_that_are_not_orthonormal():
    """<weigh a, b> is the sum over points of w (sum a phi) (sum b phi), which converges to the integral."""
    a, b = noise(1, 6, 36, 1), noise(1, 6, 36, 1, seed=1)
    y, w = gauss_legendre()
    phi = torch.einsum("xi,yj->xyij", *[ExtendedFourier().synthesis(y, 3)] * 2).flatten(2)
    product_ = (phi @ a[0, 0]) * (phi @ b[0, 0]) * w[:, None, None] * w[:, None]
    for grid in (Grid.uniform((54, 51), kind="cells"), Grid.uniform((56, 61))):
        patches = make_patches(grid, (2, 3))
        transform = make_transform(patches, ExtendedFourier(), (3, 3), F64)
        weighed = (transform.weigh(a) * b).sum((2, 3))[0]
        values = transform.synthesise(a) * transform.synthesise(b)
        rows = [axis.weights.expand(axis.members.shape) for axis in patches.axes]
        weights = torch.einsum("px,qy->pqxy", *rows).flatten(0, 1)
        torch.testing.assert_close(weighed, (values[0, ..., 0] * weights).sum((1, 2)), rtol=1e-12, atol=1e-12)
        assert float(weighed[0]) == pytest.approx(float(product_.sum()), rel=0.01)
    transform = make_transform(patches, Cosine(), (6, 6), F64)
    assert torch.equal(transform.weigh(a), a)


# Sums over products of functions


def some_functions(k, x, size):
    """Functions without any symmetry, another set for each axis."""
    i = torch.arange(size)
    return torch.exp(0.3 * (k + 1) * i * x[:, None]) * torch.cos(i * x[:, None] + k)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["real", "complex"])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "left", "rectilinear", "scattered"])
def test_expand_is_the_sum_over_all_products(kind, d, dtype):
    if kind == "scattered":
        grid = Grid.scattered(torch.rand(13, d, generator=torch.Generator().manual_seed(d), dtype=torch.float64))
    elif kind == "rectilinear":
        grid = Grid.rectilinear(*([0.3, 0.0, 1.0, 0.9], [0.1, 0.7, 0.2], [1.0, 0.5])[:d])
    else:
        grid = Grid.uniform((7, 4, 3)[:d], kind=kind)
    sizes, points = (3, 5, 2)[:d], grid.points.reshape(-1, d)
    c = torch.randn(11, *sizes, generator=torch.Generator().manual_seed(1), dtype=dtype)
    matrices = [some_functions(k, x, sizes[k]).to(dtype) for k, x in enumerate(axis_points(grid))]
    expected = torch.zeros(11, len(points), dtype=dtype)
    for index in product(*map(range, sizes)):
        term = torch.stack([some_functions(k, points[:, k], sizes[k])[:, i] for k, i in enumerate(index)]).prod(0)
        expected += c[(slice(None), *index)][:, None] * term
    torch.testing.assert_close(expand(c, matrices, grid), expected.reshape(11, *grid.shape), rtol=0, atol=1e-12)
    if kind == "scattered" and d == 2:
        assert torch.autograd.gradcheck(lambda c: expand(c, matrices, grid), c[:2].requires_grad_())
