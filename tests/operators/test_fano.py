"""FANO against Appendix B.3 written out, its literal form, and itself on every kind of grid (Section 4.4)."""

from math import prod

import numpy as np
import pytest
import torch
from draws import noise, observed_order
from test_encoder import linear
from test_integral import matrices
from test_patched_attention import heads_by_definition
from test_vitno import (
    OPTIONS,
    SMALL,
    by_hand,
    check_literal,
    fft_operator,
    forget_coordinates,
    randomised,
    spectral_error,
    u_smooth,
)
from written_out import as_literal

import operformer
from operformer import FANO, Grid, Resampled, SpectralOperator, ViTNO, voronoi_weights
from operformer.domain.interpolation import interpolate
from operformer.errors import UsageError

SMALL = SMALL | {"overlap": 0}  # the paper's patches
ONE_LAYER = SMALL | {"n_layers": 1}  # what a compiler reads twice is not read better


def of_patches(counts, n_modes, in_channels, out_channels, **options):
    """A FANO, or what is left of it on a single patch: a SpectralOperator."""
    if prod(counts) > 1:
        return FANO(counts, n_modes, in_channels, out_channels, **options)
    modes = (n_modes,) * len(counts) if isinstance(n_modes, int) else n_modes
    options = {key: value for key, value in options.items() if key not in ("n_heads", "overlap")}
    return SpectralOperator(modes, in_channels, out_channels, **options)


# Appendix B.3


def integral_attention(v, attention, state, name):
    """Q, K, V by FFTs, scores over points divided by N, as in equations QKV_operator_implement and MC_approx_L2_2.

    One patch has V alone, and any Q and K.
    """
    waves, c = matrices(attention.mixing, attention.spectrum), v.shape[-1]
    assert len(next(iter(waves.values()))) == (3 * c if len(v) > 1 else c)
    parts = [
        fft_operator({k: r[-c:] if len(v) == 1 else r[i * c : (i + 1) * c] for k, r in waves.items()}, v)
        for i in range(3)
    ]
    parts = [part.reshape(len(v), -1, c) for part in parts]
    weights = np.full(parts[0].shape[1], 1 / (v.size // c))
    return heads_by_definition(*parts, weights, attention.n_heads if len(v) > 1 else 1).reshape(v.shape)


@pytest.mark.parametrize(
    ("counts", "shape", "kind"), [((2, 3), (10, 9), "cells"), ((2, 3), (8, 15), "periodic"), ((1, 1), (7, 8), "cells")]
)
def test_appendix_b3(counts, shape, kind):
    operator, grid = randomised(of_patches(counts, (2, 2), 2, 3, **SMALL)), Grid.uniform(shape, kind=kind)
    u = noise(2, 2, *shape)
    expected = by_hand(operator, u[1], grid, lambda v, state: linear(v, state, "lift.linear"), integral_attention)
    np.testing.assert_allclose(operator(u, grid)[1].detach().numpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("basis", ["fourier", "extended-fourier"])
@pytest.mark.parametrize(
    ("counts", "n_modes", "shape"),
    [
        ((3,), 3, (15,)), ((3,), 3, (12,)), ((1,), 4, (7,)), ((2, 3), (2, 3), (10, 15)), ((2, 3), (3, 2), (8, 12)),
        ((3, 1), 3, (12, 5)), ((2, 1, 2), (2, 1, 2), (6, 3, 8)), ((1, 2, 2), 2, (3, 6, 8)),
    ],
)  # fmt: skip
def test_the_literal_form(counts, n_modes, shape, basis):
    """Odd and even patches, also with more modes than their points resolve."""
    operator = of_patches(counts, n_modes, 2, 1, **SMALL, basis=basis)
    check_literal(randomised(operator, 1), Grid.uniform(shape, kind="cells"))


@pytest.mark.parametrize(("counts", "shape"), [((3,), (15,)), ((2, 3), (8, 15)), ((2, 1, 2), (6, 3, 8))])
def test_the_literal_form_on_periodic_grids(counts, shape):
    check_literal(randomised(FANO(counts, 3, 1, 2, **SMALL), 2), Grid.uniform(shape, kind="periodic"))


# The same function on finer grids


@pytest.mark.parametrize(("kind", "factor"), [("periodic", 2), ("cells", 3)])
@pytest.mark.parametrize(("dim", "n"), [(1, 128), (2, 80)])
def test_on_one_patch_periodic_functions_do_not_feel_the_resolution(dim, n, kind, factor):
    operator = forget_coordinates(randomised(of_patches((1,) * dim, 4, 1, 1, **SMALL), 2, gain=1.0))
    assert spectral_error(operator, kind, n, factor) < 1e-6


def test_consecutive_nodes_cost_the_literal_form_an_order():
    """Node data, patches of n / 4 nodes in a row as the authors' code reads them, against patches that belong to D."""
    operator = forget_coordinates(randomised(FANO((4,), 3, 1, 1, **SMALL), 3))
    literal, inside = as_literal(operator), Grid.scattered([[0.1], [0.35], [0.6], [0.9]])

    def read(form, grid, partition):
        u = torch.exp(torch.sin(2 * grid.points[:, 0] + 0.4))[None, None]
        with torch.no_grad():
            return interpolate(form(u, partition), grid, inside)

    fine = Grid.uniform(4 * 3**7, kind="cells")
    exact, sizes, orders = read(operator, fine, fine), (60, 140, 300, 700, 1500), []
    for form in (operator, literal):
        errors = []
        for n in sizes:
            nodes = Grid.uniform(n)
            partition = nodes if form is operator else Grid.uniform(n, kind="cells")
            errors.append(float((read(form, nodes, partition) - exact).abs().max()))
        orders.append(observed_order(sizes, errors))
        name = "ours" if form is operator else "literal"
        print(f"FANO on nodes, {name}: order {orders[-1]:.3f}, errors {[f'{e:.2g}' for e in errors]}")
    # At least two: where faces fall between nodes, the cubic term still shows on coarse grids.
    assert 1.9 < orders[0] < 3.0
    assert 0.8 < orders[1] < 1.2


@pytest.mark.parametrize("has_coordinates", [False, True])
def test_order_two_on_periodic_grids_that_the_patches_do_not_divide(has_coordinates):
    """Whether or not the lift sees x, which does not close at the ends of D: the last patch must not reach around."""
    operator = randomised(FANO((3,), 2, 1, 1, **SMALL, basis="cosine"), 3)
    operator = operator if has_coordinates else forget_coordinates(operator)
    inside, sizes = Grid.scattered([[0.2], [0.5], [0.6], [0.9]]), (40, 100, 280, 700)

    def read(grid):
        u = torch.exp(torch.sin(2 * torch.pi * grid.points[:, 0] + 0.4))[None, None]
        with torch.no_grad():
            return interpolate(operator(u, grid), grid, inside)

    exact = read(Grid.uniform(3**9, kind="cells"))
    # Sizes of one more than a multiple of three, which have the points in common.
    errors = [float((read(Grid.uniform(n, kind="periodic")) - exact).abs().max()) for n in sizes]
    order = observed_order(sizes, errors)
    print(f"FANO, periodic, not divided, coordinates {has_coordinates}: order {order:.3f}, errors {errors}")
    assert 1.8 < order < 2.2


# Every kind of grid


def stretched(n):
    s = torch.linspace(0, 1, n, dtype=torch.float64)
    return s + 0.3 * s * (s - 1)


def scattered(n):
    points = torch.rand(n * n, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return Grid.scattered(points, voronoi_weights(points))


def test_all_grids_give_the_same_function():
    """Read between the faces, where the function is smooth, in the mean relative to its spread.

    The rules leave (2 pi k h)^2 / 12 of mode k: 3 % for k = 2 and h = 3 / 64, the width of a patch being 1, in each of
    two layers; random points have cells twice as wide that the faces cut.
    """
    operator = randomised(FANO((3, 2), 3, 1, 1, **SMALL), 7, gain=1.0)
    local = torch.tensor([0.2, 0.45, 0.7], dtype=torch.float64)
    axes = [((torch.arange(count)[:, None] + local) / count).flatten() for count in (3, 2)]
    inside = Grid.rectilinear(*axes, bounds=[(0, 1), (0, 1)])

    def read(grid):
        with torch.no_grad():
            return interpolate(operator(u_smooth(grid.points), grid), grid, inside)

    exact = read(Grid.uniform((486, 486), kind="cells"))
    finer = read(Grid.uniform((324, 324), kind="cells"))
    assert float((exact - finer).abs().max() / exact.std()) < 2e-3
    for kind, sizes, make, bound, gain in [
        ("cells", (32, 64, 128), lambda n: Grid.uniform((n, n), kind="cells"), 0.06, 8),
        ("nodes", (34, 67, 133), lambda n: Grid.uniform((n, n)), 0.06, 8),
        # less even: where the faces fall between points is another place each time
        ("stretched", (32, 64, 128), lambda n: Grid.rectilinear(stretched(n), stretched(n + 3)), 0.06, 3),
        ("scattered", (32, 64), scattered, 0.2, 2),
    ]:
        errors = [float((read(make(n)) - exact).square().mean().sqrt() / exact.std()) for n in sizes]
        print(f"FANO on {kind} {sizes}: relative errors {[f'{e:.2g}' for e in errors]}")
        assert errors[1] < bound
        assert errors[-1] < errors[0] / gain


def test_points_of_weight_zero_are_read_and_not_attended_to():
    """Also where they are all that a patch holds."""
    operator = randomised(FANO((2, 2), 3, 1, 2, **SMALL), 8)
    points = torch.rand(70, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    points[:60, 0] = torch.where(points[:60, 1] < 0.5, points[:60, 0] / 2, points[:60, 0])  # none in one quarter
    weights, u = torch.cat([voronoi_weights(points[:60]), torch.zeros(10)]), noise(2, 1, 70)
    z = operator(u, Grid.scattered(points, weights))
    assert bool(((points[60:, 0] > 0.5) & (points[60:, 1] < 0.5)).any())
    assert z.isfinite().all()
    alone = operator(u[..., :60], Grid.scattered(points[:60], weights[:60]))
    torch.testing.assert_close(z[..., :60], alone, rtol=1e-11, atol=1e-11)


def test_a_patch_without_points_is_not_attended_to():
    """Points in the lower of two halves only: as if it were all of D, a single patch, whose layers are V."""
    two, one = randomised(FANO((2,), 3, 1, 2, **SMALL), 8), of_patches((1,), 3, 1, 2, **SMALL).double()
    state = two.state_dict()
    one.load_state_dict({name: t.chunk(3, -1)[2] if "mixing" in name else t for name, t in state.items()})
    points, u = torch.rand(23, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64) / 2, noise(1, 1, 23)
    z = one(u, Grid.scattered(points, bounds=[(0, 0.5)]))
    torch.testing.assert_close(two(u, Grid.scattered(points)), z, rtol=1e-11, atol=1e-11)


# Files, compilers, precision


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (FANO, {"n_modes": (2, 3), "basis": "cosine", "last": (2, "neumann"), "waves": 2}),
        (FANO, {"basis": "extended-fourier", "last": "dirichlet"}),
        (FANO, {"basis": "legendre", "last": "periodic"}),
        (ViTNO, {"n_modes": (2, 3), "basis": "cosine", "last": (2, "neumann"), "waves": 2}),
        (ViTNO, {"basis": "extended-fourier"}),
        (ViTNO, {"basis": "legendre", "last": "periodic"}),
    ],
    ids=str,
)
def test_save_and_load(kind, options, tmp_path):
    sizes = {"n_modes": 3, "in_channels": 2, "out_channels": 1} | SMALL
    operator = randomised(kind((2, 3), **sizes | options), 9)
    operator.output_scale.fill_(3.0)
    operator, grid = (
        (operator, Grid.uniform((8, 9), kind="cells")) if kind is FANO else (Resampled(operator), Grid.uniform((7, 11)))
    )
    operator.save_pretrained(tmp_path)
    loaded = operformer.load(tmp_path)
    assert loaded.settings == operator.settings
    u = noise(1, 2, *grid.shape)
    assert torch.equal(loaded(u, grid), operator(u, grid))


@pytest.mark.parametrize("kind", [FANO, ViTNO])
def test_one_compiled_training_step_serves_every_resolution(kind):
    torch.manual_seed(10)
    operator = kind((2, 3), 2, 1, 1, **ONE_LAYER, last=2).double()
    compiled = torch.compile(operator, fullgraph=True, backend="eager")  # tracing alone: what the library can break
    for shape in ((8, 9), (12, 15)):
        grid, results = Grid.uniform(shape, kind="cells"), []
        for form in (operator, compiled):
            operator.zero_grad()
            z = form(noise(2, 1, *shape), grid)
            z.square().mean().backward()
            results.append([z.detach(), *[p.grad.clone() for p in operator.parameters()]])
        torch.testing.assert_close(*results, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("basis", ["fourier", "extended-fourier"])
@pytest.mark.parametrize(
    ("kind", "counts", "shape", "points"),
    [
        (FANO, (2, 3), (9, 12), "nodes"), (of_patches, (1, 1), (9, 8), "nodes"), (FANO, (2, 3), (9, 11), "cells"),
        (FANO, (2, 3), (9, 11), "periodic"), (ViTNO, (2, 3), (9, 10), "nodes"),
    ],
)  # fmt: skip
def test_uneven_patches_are_one_compiled_graph(kind, counts, shape, points, basis):
    """No size depends on values, which would make a compiler give up, and a GPU wait; values and gradients."""
    torch.manual_seed(10)
    operator = kind(counts, 2, 1, 1, **ONE_LAYER, basis=basis).double()
    grid, u, parameters = Grid.uniform(shape, kind=points), noise(2, 1, *shape), list(operator.parameters())
    torch.compiler.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=False, capture_dynamic_output_shape_ops=False):
        compiled = torch.compile(operator, fullgraph=True, backend="aot_eager", dynamic=False)(u, grid)
    plain = operator(u, grid)
    torch.testing.assert_close(compiled, plain, rtol=1e-11, atol=1e-11)
    found, expected = (torch.autograd.grad(z.square().sum(), parameters) for z in (compiled, plain))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from the compiler's own imports
def test_a_compiled_fano_is_the_eager_one():
    torch.manual_seed(11)
    operator = FANO((2,), 2, 1, 1, hidden_channels=4, n_layers=1, n_heads=2).eval()
    grid, u = Grid.uniform(8, kind="cells"), noise(2, 1, 8).float()
    with torch.no_grad():
        torch.testing.assert_close(
            torch.compile(operator, fullgraph=True)(u, grid), operator(u, grid), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("kind", [FANO, ViTNO])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_single_precision(kind, options):
    torch.manual_seed(12)
    operator = kind((2, 3), 3, 1, 1, **SMALL, **options)
    for grid in (Grid.uniform((12, 18), kind="cells"), Grid.uniform((13, 19))):
        u = u_smooth(grid.points)
        single = operator.float()(u.float(), grid)
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), operator.double()(u, grid), rtol=1e-4, atol=1e-4)


# What is refused


def check_refused(call, message):
    with pytest.raises(UsageError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [FANO, ViTNO])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_modes": 0}, "n_modes must be at least 1"),
        ({"n_modes": (2, 0)}, "n_modes must be at least 1"),
        ({"n_modes": (2, 2, 2)}, "n_modes must be one number or one for each of 2 axes"),
        ({"n_modes": 2.0}, "n_modes"),
        ({"n_patches": 4}, "n_patches must be a list, such as .4.: got 4"),
        ({"n_patches": (2, 0)}, "n_patches must be at least 1 along each axis"),
        ({"n_patches": (2, 2, 2, 2)}, "n_patches must be one number for each axis"),
        ({"n_patches": ()}, "n_patches must be one number for each axis"),
        ({"basis": "chebyshev"}, "basis must be one of fourier, .*: got 'chebyshev'"),
        ({"last": "robin"}, "last must be a number of modes, such as 64, or one of periodic"),
        ({"last": -1}, "n_modes must be a whole number of at least 1: got -1"),
        ({"n_heads": 4}, "n_heads must divide hidden_channels: got 4 and 6"),
        ({"hidden_channels": 0}, "hidden_channels must be a whole number of at least 1"),
        ({"n_layers": 0}, "n_layers must be a whole number of at least 1"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(kind, change, message):
    check_refused(
        lambda: kind(**({"n_patches": (2, 3), "n_modes": 2, "in_channels": 1, "out_channels": 1, **SMALL} | change)),
        message,
    )


@pytest.mark.parametrize("kind", [FANO, ViTNO])
@pytest.mark.parametrize(
    ("shape", "grid", "query", "message"),
    [
        ((2, 1, 9), Grid.uniform(9, kind="cells"), None, "must have dimension 2"),
        ((2, 2, 8, 9), Grid.uniform((8, 9), kind="cells"), None, r"u must be \(batch, 1, 8, 9\)"),
        ((2, 1, 8, 9), Grid.uniform((8, 9), kind="cells"), Grid.uniform(4), "query must be a Grid of dimension 2"),
        ((2, 1, 8, 2), Grid.uniform((8, 2), kind="cells"), None, "axis 1 has 2 points for 3 patches|8 x 6 cells"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(kind, shape, grid, query, message):
    check_refused(lambda: kind((2, 3), 2, 1, 1, **SMALL)(torch.ones(shape), grid, query), message)
