"""ViTNO against Appendix B.2 written out, its literal form, finer grids and grids it refuses (Section 4.3)."""

import math
import re
from itertools import product

import numpy as np
import pytest
import torch
from draws import noise
from test_encoder import as_arrays, gelu, layer_norm, linear
from test_integral import matrices
from test_patched_attention import heads_by_definition
from written_out import as_literal

from operformer import FANO, Grid, Resampled, ViTNO
from operformer.domain.interpolation import interpolate
from operformer.domain.patches import make_patches
from operformer.errors import UsageError

SMALL = {"hidden_channels": 6, "n_layers": 2, "n_heads": 2, "overlap": 0}


def randomised(operator, seed=0, gain=2.0):
    """float64 weights with nothing special about them, spectral ones so large that the scores count."""
    generator, operator = torch.Generator().manual_seed(seed), operator.double()
    with torch.no_grad():
        for name, parameter in operator.named_parameters():
            normal = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if parameter.ndim == 1:
                parameter.copy_(1 + 0.3 * normal if "norm" in name and "weight" in name else 0.3 * normal)
            else:
                # Linear is (out, in), spectral weights are (..., in, out).
                fan_in = parameter.shape[-1] if parameter.ndim == 2 else parameter.shape[-2]
                parameter.copy_(normal * (1 if parameter.ndim == 2 else gain) / math.sqrt(fan_in))
    return operator


# Appendix B.2


def fft_operator(waves, v):
    """F^-1(R . F v) on each patch, v (P, p_1, p_2, c): all modes by numpy's FFT, those that are kept times R(k)."""
    spectrum = np.fft.fftn(v, axes=(1, 2))
    out = np.zeros((*v.shape[:-1], len(next(iter(waves.values())))), dtype=complex)
    for (k, m), matrix in waves.items():
        out[:, k, m] = spectrum[:, k, m] @ matrix.T
    back = np.fft.ifftn(out, axes=(1, 2))
    assert np.abs(back.imag).max() < 1e-12
    return back.real


def by_hand(operator, u, grid, lift, attend):
    """T_out o E_L o T_in for u (c, n_1, n_2), patches cut out of the array; lift and attention differ."""
    state, (rows, columns) = as_arrays(operator), operator.partition
    n, m = (size // count for size, count in zip(grid.shape, operator.partition, strict=True))
    u_in = np.concatenate([u.movedim(0, -1).numpy(), grid.points.numpy()], -1)
    windows = [(slice(i * n, (i + 1) * n), slice(j * m, (j + 1) * m)) for i, j in product(range(rows), range(columns))]
    v = lift(np.stack([u_in[window] for window in windows]), state)
    for number, layer in enumerate(operator.layers):
        name, eps = f"layers.{number}.", layer.norm_1.eps
        flat = v + linear(attend(v, layer.attention, state, name + "attention."), state, name + "attention.merge")
        flat = layer_norm(flat.reshape(-1, v.shape[-1]), state, name + "norm_1", eps)
        inner = linear(gelu(linear(flat, state, name + "feed_forward.0")), state, name + "feed_forward.2")
        v = layer_norm(flat + inner, state, name + "norm_2", eps).reshape(v.shape)
    z = np.zeros((*grid.shape, v.shape[-1]))
    for window, patch in zip(windows, v, strict=True):
        z[window] = patch
    return linear(z, state, "head.linear").transpose(2, 0, 1)


def pointwise_attention(v, attention, state, name):
    parts = [linear(v, state, name + part).reshape(len(v), -1, v.shape[-1]) for part in ("query", "key", "value")]
    weight = 1 / (v.size // v.shape[-1])
    return heads_by_definition(*parts, np.full(parts[0].shape[1], weight), attention.n_heads).reshape(v.shape)


@pytest.mark.parametrize(("shape", "kind"), [((10, 9), "cells"), ((8, 15), "periodic")])
def test_appendix_b2(shape, kind):
    operator, grid = randomised(ViTNO((2, 3), (2, 2), 2, 3, **SMALL)), Grid.uniform(shape, kind=kind)
    u, waves = noise(2, 2, *shape), matrices(operator.lift.mixing, operator.spectrum)
    expected = by_hand(operator, u[1], grid, lambda v, state: fft_operator(waves, v), pointwise_attention)
    np.testing.assert_allclose(operator(u, grid)[1].detach().numpy(), expected, rtol=1e-10, atol=1e-10)


def gradients(operator, u, grid):
    u = u.clone().requires_grad_()
    z = operator(u, grid)
    z.sin().sum().backward()
    named = {name.replace("original.", ""): p.grad for name, p in operator.named_parameters()}
    return z.detach(), {"u": u.grad, **named}


def check_literal(operator, grid):
    """Values, and gradients of the input and of every parameter."""
    u, literal = noise(2, operator.in_channels, *grid.shape), as_literal(operator)
    (z, own), (expected, others) = gradients(operator, u, grid), gradients(literal, u, grid)
    torch.testing.assert_close(z, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(own, others, rtol=1e-9, atol=1e-10)
    assert all(float(gradient.abs().max()) > 0 for gradient in own.values())


@pytest.mark.parametrize("basis", ["fourier", "extended-fourier"])
@pytest.mark.parametrize(
    ("counts", "n_modes", "shape"),
    [((3,), 3, (15,)), ((3,), 3, (12,)), ((2, 3), (2, 3), (10, 12)), ((2, 1, 2), 2, (6, 3, 8))],
)
def test_the_literal_form(counts, n_modes, shape, basis):
    operator = ViTNO(counts, n_modes, 2, 1, **SMALL, basis=basis, last=2)
    check_literal(randomised(operator, 1), Grid.uniform(shape, kind="cells"))


# The same function on finer grids


def forget_coordinates(operator):
    """Zero what the lift makes of x, which does not close at the ends: the latent functions are periodic then."""
    lift = operator.lift
    weight = lift.mixing.weight.movedim(-2, -1) if isinstance(operator, ViTNO) else lift.linear.weight
    with torch.no_grad():
        weight[..., operator.in_channels :] = 0
    return operator


def common_points(z, factor, kind):
    """The points of the coarse grid among those of the one that is finer by a factor."""
    start = factor // 2 if kind == "cells" else 0
    return z[(..., *[slice(start, None, factor)] * (z.ndim - 2))]


def spectral_error(operator, kind, n, factor):
    """How much a periodic function changes at the points that two grids have in common."""
    found = []
    for scale in (1, factor):
        grid = Grid.uniform((scale * n,) * operator.dim, kind=kind)
        u = torch.exp(torch.sin(2 * torch.pi * grid.points + 0.3)).prod(-1)[None, None]
        with torch.no_grad():
            found.append(common_points(operator(u, grid), scale, kind))
    change, spread = float((found[0] - found[1]).abs().max()), float(found[0].std())
    print(f"{type(operator).__name__}, {kind} {n}: spread {spread:.2g}, change {change:.2g}")
    assert spread > 0.01
    return change


@pytest.mark.parametrize(("kind", "factor"), [("periodic", 2), ("cells", 3)])
@pytest.mark.parametrize("dim", [1, 2])
def test_on_one_patch_periodic_functions_do_not_feel_the_resolution(dim, kind, factor):
    operator = forget_coordinates(randomised(ViTNO((1,) * dim, 4, 1, 1, **SMALL), 2, gain=1.0))
    assert spectral_error(operator, kind, 48, factor) < 1e-6


def u_smooth(x):
    """Not periodic, neither on D nor on patches."""
    return (torch.exp(torch.sin(3 * x[..., 0] + x[..., -1])) + x[..., 0] ** 2)[None, None]


def observed_order(operator, kind, first, refinements=3, reference=6):
    """Largest errors at the points of the coarsest grid, against a grid finer than all."""
    factor = 3 if kind == "cells" else 2

    def on_level(level):
        scale = factor**level
        grid = Grid.uniform([n * scale + (kind == "nodes") for n in first], kind=kind)
        with torch.no_grad():
            return common_points(operator(u_smooth(grid.points), grid), scale, kind)

    exact = on_level(reference)
    errors = [float((on_level(level) - exact).abs().max()) for level in range(1, refinements + 1)]
    order = -np.polyfit(np.arange(len(errors)) * math.log(factor), np.log(errors), 1)[0]
    print(f"{type(operator).__name__}, {kind} from {first}: order {order:.3f}, errors {[f'{e:.2g}' for e in errors]}")
    return order


OPTIONS = [{}, {"basis": "extended-fourier"}, {"basis": "cosine"}, {"basis": "legendre"}]


BOTH = pytest.mark.parametrize("make", [ViTNO, FANO])


@BOTH
@pytest.mark.parametrize(("kind", "levels"), [("cells", (3, 6)), ("nodes", (5, 10))])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_patches_of_functions_converge_with_order_two(make, options, kind, levels):
    operator = randomised(make((3,), 3, 1, 1, **SMALL, **options), 3)
    assert 1.9 < observed_order(operator, kind, (15,), *levels) < 2.1


@BOTH
@pytest.mark.parametrize(("kind", "reference"), [("cells", 4), ("nodes", 5)])
def test_order_two_in_the_plane(make, kind, reference):
    operator = randomised(make((2, 1), 3, 1, 1, **SMALL), 4)
    assert 1.9 < observed_order(operator, kind, (10, 5), 2 if kind == "cells" else 3, reference) < 2.15


@BOTH
def test_a_patch_of_consecutive_periodic_points_costs_an_order(make):
    """What the literal form makes of a patch, as many consecutive points, is another piece of D on each grid."""
    operator = randomised(make((3,), 3, 1, 1, **SMALL), 3)
    orders = [observed_order(form, "periodic", (15,), 5, 11) for form in (operator, as_literal(operator))]
    assert all(0.85 < order < 1.15 for order in orders)
    assert observed_order(operator, "cells", (15,)) > 1.9


# Which grids


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (Grid.uniform((85, 83), kind="cells"), r"use 84 x 85 cells, 85 x 81 nodes, Resampled\(operator\), or a FANO"),
        (Grid.uniform((19, 20), kind="periodic"), "use 18 x 20 cells"),
        (Grid.uniform((86, 87)), "85 x 86 nodes"),  # which have 84 and 85 intervals
        (Grid.rectilinear(torch.linspace(0, 1, 19) ** 2, torch.linspace(0, 1, 20)), "use 18 x 20 cells, 19 x 21 nodes"),
        (Grid.scattered(torch.rand(403, 2, generator=torch.Generator().manual_seed(0))), "use 21 x 20 cells"),
        (Grid.uniform((2, 3), kind="cells"), "use 6 x 10 cells, 7 x 11 nodes"),
    ],
    ids=str,
)
def test_other_grids_are_refused_and_the_nearest_sizes_named(grid, message):
    operator = ViTNO((3, 5), 2, 1, 1, **SMALL)
    with pytest.raises(UsageError, match=message) as caught:
        operator(torch.ones(1, 1, *grid.shape), grid)
    assert "\n" not in str(caught.value)
    sizes = re.search(r"use (\d+) x (\d+) cells, (\d+) x (\d+) nodes", str(caught.value)).groups()
    for shape, kinds in ((sizes[:2], ("cells", "periodic")), (sizes[2:], ("nodes",))):
        for kind in kinds:
            taken = Grid.uniform(list(map(int, shape)), kind=kind)
            assert operator(torch.ones(1, 1, *taken.shape), taken).isfinite().all()


def test_resampling_is_of_second_order():
    """Away from the faces, across which interpolation blends two patches."""
    operator = Resampled(randomised(ViTNO((3, 2), 3, 1, 1, **SMALL), 5, gain=1.0))
    local = torch.tensor([0.25, 0.45, 0.7], dtype=torch.float64)
    axes = [((torch.arange(count)[:, None] + local) / count).flatten() for count in (3, 2)]
    inside = Grid.rectilinear(*axes, bounds=[(0, 1), (0, 1)])

    def read(grid):
        with torch.no_grad():
            return interpolate(operator(u_smooth(grid.points), grid), grid, inside)

    exact = read(Grid.uniform((486, 484), kind="cells"))
    grids = {
        "nodes": lambda n: Grid.uniform((n + 1, n)),
        "cells": lambda n: Grid.uniform((n + 1, n + 2), kind="cells"),
        "rectilinear": lambda n: Grid.rectilinear(*[torch.linspace(0, 1, n).double() ** 1.3] * 2),
        "scattered": lambda n: Grid.scattered(
            torch.rand(n * n, 2, generator=torch.Generator().manual_seed(1)).double()
        ),
    }
    for kind, make in grids.items():
        errors = [float((read(make(n)) - exact).abs().max() / exact.std()) for n in (31, 61, 121)]
        print(f"resampled {kind}: relative errors {[f'{e:.2g}' for e in errors]}")
        # Two halvings: 16 for second order, with room for where the points happen to lie, more so for random ones.
        assert errors[2] < errors[0] / (3 if kind == "scattered" else 7)
        assert errors[2] < (0.15 if kind == "scattered" else 0.05)


def test_waves_are_added_to_the_lifted_function_at_its_points(monkeypatch):
    """8 x 9 cells in 2 x 3 patches of 4 x 3: W (sin k pi x_j, cos k pi x_j) at the centres, one point at a time."""
    operator = randomised(ViTNO((2, 3), 2, 1, 1, **SMALL, waves=2), seed=6)
    weight, lifted = operator.positions.linear.weight.detach(), operator._lifted
    added = torch.zeros(2, 3, 4, 3, 6, dtype=torch.float64)
    for p, q, i, j in product(range(2), range(3), range(4), range(3)):
        for axis, x in enumerate(((4 * p + i + 0.5) / 8, (3 * q + j + 0.5) / 9)):
            for k in (1, 2):
                added[p, q, i, j] += weight[:, 4 * axis + k - 1] * math.sin(k * math.pi * x)
                added[p, q, i, j] += weight[:, 4 * axis + 2 + k - 1] * math.cos(k * math.pi * x)
    u, grid = noise(2, 1, 8, 9), Grid.uniform((8, 9), kind="cells")
    found = operator(u, grid)
    monkeypatch.setattr(operator, "_lifted", lambda v, transform: lifted(v, transform) + added.flatten(0, 1))
    operator.positions = None
    torch.testing.assert_close(found, operator(u, grid), rtol=1e-11, atol=1e-11)


@BOTH
def test_the_head_reads_functions_that_are_joined(make):
    """At points of several patches their mean is read."""
    operator = randomised(make((3, 3), 2, 1, 1, **SMALL))
    grid, u, seen = Grid.uniform((13, 16)), noise(2, 1, 13, 16), []
    operator.layers[-1].register_forward_hook(lambda layer, given, output: seen.append(output))
    found = operator.transform(u, grid, None)
    joined = make_patches(grid, (3, 3)).join(*seen)
    expected = operator.head(joined, grid.points)
    torch.testing.assert_close(found, expected.movedim(-1, 1), rtol=1e-10, atol=1e-12)
