"""Symmetries: moves of functions by hand, equations that do not notice them, groups of the right size."""

import pytest
import torch

from operformer import Grid
from operformer.domain import Samples
from operformer.errors import UsageError
from operformer.problems import ControlledODE, Kolmogorov, Lorenz63, Symmetry
from operformer.problems.symmetry import SQUARE, moved

WAVES = 4
FLOW = Kolmogorov(forcing=WAVES).symmetries


def field(function, shape, kind="cells", bounds=((0.0, 1.0), (0.0, 1.0))):
    """One pair on a uniform grid: u = function(x, y), z = 2 u."""
    grid = Grid.uniform(shape, bounds=list(bounds), kind=kind)
    values = function(*grid.points.unbind(-1))[None, None]
    return Samples(values, 2 * values, grid)


def elements(symmetries, samples, count=4000, seed=0):
    """Many draws of the same pair, moved."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(len(symmetries), count, generator=generator, dtype=torch.float64)
    return moved(samples[torch.zeros(count, dtype=torch.long)], symmetries, uniform)


def distinct(values):
    return len(torch.unique(values.flatten(1).round(decimals=9), dim=0))


# By hand


@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic"])
def test_a_flip_reads_the_function_at_the_mirrored_points(kind):
    bounds = ((0.0, 2.0), (-1.0, 3.0))
    samples = field(lambda x, y: torch.sin(torch.pi * x) * (1 + torch.cos(torch.pi * y / 2)), (5, 7), kind, bounds)
    x, y = samples.grid.points.unbind(-1)
    mirrored = torch.sin(torch.pi * (2 - x)) * (1 + torch.cos(torch.pi * y / 2))
    found = moved(samples, [Symmetry(flipped=(0,))], torch.tensor([[0.75]]))
    torch.testing.assert_close(found.u[0, 0], mirrored, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.z[0, 0], 2 * mirrored, rtol=1e-12, atol=1e-12)
    assert torch.equal(moved(samples, [Symmetry(flipped=(0,))], torch.tensor([[0.25]])).u, samples.u)


@pytest.mark.parametrize("kind", ["cells", "periodic"])
def test_a_shift_reads_the_function_where_it_comes_from(kind):
    samples = field(lambda x, y: torch.sin(2 * torch.pi * x) + torch.cos(6 * torch.pi * y), (5, 12), kind)
    x, y = samples.grid.points.unbind(-1)
    found = moved(samples, [Symmetry(order=4, shifted=(1, 4))], torch.tensor([[0.8]]))  # three of four powers
    expected = torch.sin(2 * torch.pi * x) + torch.cos(6 * torch.pi * (y - 0.75))
    torch.testing.assert_close(found.u[0, 0], expected, rtol=1e-12, atol=1e-12)


def test_each_pair_has_its_own_move():
    samples = field(lambda x, y: x + 10 * y, (3, 3))[torch.zeros(3, dtype=torch.long)]
    found = moved(samples, [Symmetry(transposed=True)], torch.tensor([[0.1, 0.9, 0.2]]))
    assert torch.equal(found.u[0], samples.u[0])
    assert torch.equal(found.u[1], samples.u[1].transpose(-1, -2))
    assert torch.equal(found.u[2], samples.u[2])


# Groups


def test_the_square_has_eight_symmetries_equally_likely():
    samples = field(lambda x, y: x + 10 * y, (5, 5), "nodes")
    found = elements(SQUARE, samples)
    _, counts = torch.unique(found.u.flatten(1), dim=0, return_counts=True)
    assert len(counts) == 8
    assert counts.min() > 400  # 500 each, with a standard deviation of 21
    assert torch.equal(found.z, 2 * found.u)


@pytest.mark.parametrize(("points", "glides"), [(16, 8), (12, 4), (10, 2), (7, 1)])
def test_the_flow_has_every_shift_a_half_turn_and_the_glides_that_the_grid_can_represent(points, glides):
    noise = torch.randn(points, points, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    samples = field(lambda x, y: noise, (points, points), "periodic")
    assert distinct(elements(FLOW, samples, count=20000).u) == points * 2 * glides


def vorticity_tendency(w, viscosity=1 / 70):
    """-(v . grad) w + nu Laplace w - n cos(n y) on the torus of side 2 pi, by Fourier series: v = (psi_y, -psi_x)."""
    n = w.shape[-1]
    k = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
    kx, ky = torch.meshgrid(k, k, indexing="ij")
    square = kx**2 + ky**2
    hat = torch.fft.fft2(w)
    psi = hat / square.where(square > 0, torch.tensor(1.0, dtype=torch.float64)) * (square > 0)

    def real(values):
        return torch.fft.ifft2(values).real

    transport = real(1j * ky * psi) * real(1j * kx * hat) - real(1j * kx * psi) * real(1j * ky * hat)
    y = 2 * torch.pi * torch.arange(n, dtype=torch.float64) / n
    return -transport + viscosity * real(-square * hat) - WAVES * torch.cos(WAVES * y)


@pytest.mark.parametrize("number", range(3))
def test_the_equation_of_the_flow_does_not_notice_its_symmetries(number):
    n = 16
    x, y = Grid.uniform((n, n), bounds=[(0.0, 2 * torch.pi)] * 2, kind="periodic").points.unbind(-1)
    w = torch.sin(x) * torch.cos(2 * y) + 0.5 * torch.cos(x - y + 0.3) + 0.2 * torch.sin(3 * x + y) + 0.1 * torch.cos(y)
    pair = Samples(w[None, None], vorticity_tendency(w)[None, None], Grid.uniform((n, n), kind="periodic"))
    symmetry = FLOW[number]
    found = elements([symmetry], pair, count=50)
    for u, z in zip(found.u[:, 0], found.z[:, 0], strict=True):
        torch.testing.assert_close(vorticity_tendency(u), z, rtol=1e-12, atol=1e-12)
    # A mirror alone, or half a wave alone, would be noticed.
    for wrong in (Symmetry(flipped=(0,), u_signs=(-1,), z_signs=(-1,)), Symmetry(shifted=(1, 2 * WAVES))):
        found = moved(pair, [wrong], torch.tensor([[0.6]]))
        assert (vorticity_tendency(found.u[0, 0]) - found.z[0, 0]).abs().max() > 1


@pytest.mark.parametrize("problem", [Lorenz63(), Lorenz63(recover=("z", "y"), initial=True)])
def test_the_lorenz_system_does_not_notice_its_reflection(problem):
    # A start and its mirror image: two trajectories by the solver against one trajectory, reflected.
    times = problem.grid(20).points[:, 0]
    start = torch.tensor([[3.0, 5.0, 17.0]], dtype=torch.float64).T
    mirror = torch.tensor([[-1.0], [-1.0], [1.0]], dtype=torch.float64)
    inputs = [0, 1, 2] if problem.initial else [0]
    outputs = [{"y": 1, "z": 2}[name] for name in problem.recover]
    pairs = []
    for begin in (start, mirror * start):
        path = problem._trajectories(begin, times)[..., 0].T
        constants = begin.expand(3, len(times))
        u = torch.stack([path[0] if k == 0 else constants[k] for k in inputs])
        pairs.append(Samples(u[None], path[outputs][None], problem.grid(20)))
    found = moved(pairs[0], problem.symmetries, torch.tensor([[0.7]]))
    torch.testing.assert_close(found.u, pairs[1].u, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.z, pairs[1].z, rtol=1e-10, atol=1e-10)


# Refusals


@pytest.mark.parametrize(
    ("symmetry", "grid", "part"),
    [
        (Symmetry(flipped=(0,)), Grid.rectilinear([0.0, 0.3, 1.0]), "uniform grid"),
        (Symmetry(shifted=(0, 2)), Grid.uniform(5), "periodic"),
        (SQUARE[2], Grid.uniform((5, 7)), "both axes"),
    ],
)
def test_grids_that_a_symmetry_does_not_permute_are_refused(symmetry, grid, part):
    values = torch.zeros(1, 1, *grid.shape)
    with pytest.raises(UsageError, match=part):
        moved(Samples(values, values, grid), [symmetry], torch.tensor([[0.5]]))


def test_signs_go_with_any_grid():
    assert ControlledODE().symmetries == Kolmogorov(forcing=0).symmetries == ()
    grid = Grid.rectilinear([0.0, 0.3, 1.0])
    pair = Samples(torch.ones(1, 2, 3), torch.ones(1, 1, 3), grid)
    found = moved(pair, [Symmetry(u_signs=(-1, 1), z_signs=(-1,))], torch.tensor([[0.5]]))
    assert found.u[0, :, 0].tolist() == [-1, 1]
    assert found.z[0, :, 0].tolist() == [-1]
