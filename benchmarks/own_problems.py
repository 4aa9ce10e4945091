"""Eleven problems that are not in the catalogue, as a user would bring them: .npz files with u, z and coordinates.

Every draw is a sum of waves with random coefficients, so it is the same function at every resolution. `own_data.py`
trains on them. ``python benchmarks/own_problems.py`` prints how far each solution is from one at twice the resolution.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import pi

import numpy as np
from scipy import sparse
from scipy.integrate import solve_ivp
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse.linalg import splu
from scipy.spatial import Delaunay


@dataclass(frozen=True)
class OwnProblem:
    """``solve(rng, n)`` gives u and z (channels, *shape) of one draw, n points along each axis of the grid ``kind``."""

    name: str
    solve: Callable
    n: int
    dim: int
    kind: str  # nodes, cells, periodic, points
    train: int = 200
    length: float = 1.0
    is_elliptic: bool = False

    def samples(self, count, n=None, seed=0):
        """The arrays of a file: u, z and where they are known."""
        n = n or self.n
        pairs = [self.solve(np.random.default_rng([seed, k]), n) for k in range(count)]
        u, z = (np.stack([pair[j] for pair in pairs]).astype(np.float32) for j in (0, 1))
        if self.kind == "points":
            mesh = l_mesh(n)
            return {"u": u, "z": z, "points": mesh.points, "weights": mesh.weights}
        return {"u": u, "z": z, **{f"grid_{letter}": self.length * axis(n, self.kind) for letter in "xyz"[: self.dim]}}


def axis(n, kind):
    """n points of [0, 1]."""
    return {"nodes": np.linspace(0, 1, n), "cells": (np.arange(n) + 0.5) / n, "periodic": np.arange(n) / n}[kind]


def field(rng, axes, scale=3.0, power=2.0, waves=6, is_periodic=False):
    """A smooth random function with mean square 1: cosines, or sines and cosines of whole periods."""
    dim = len(axes)
    k = np.arange(-waves, waves + 1) if is_periodic else np.arange(waves + 1)
    wave = np.stack(np.meshgrid(*[k] * dim, indexing="ij")) * (2 if is_periodic else 1)
    size = (1 + (wave**2).sum(0) / scale**2) ** -power
    size /= np.sqrt((size**2).sum())
    c = size * (rng.normal(size=size.shape) + (1j * rng.normal(size=size.shape) if is_periodic else 0))
    for x in axes:
        table = np.exp(2j * pi * np.outer(x, k)) if is_periodic else np.sqrt(2) ** (k > 0) * np.cos(pi * np.outer(x, k))
        c = np.moveaxis(np.tensordot(table, c, (1, 0)), 0, -1)
    return c.real


def diffusion_matrix(a, h):
    """-div(a grad .) at the inner nodes of a box, zero at its boundary: harmonic means of a between neighbours."""
    inner = np.full(a.shape, -1)
    core = (slice(1, -1),) * a.ndim
    inner[core] = np.arange(np.prod([n - 2 for n in a.shape])).reshape([n - 2 for n in a.shape])
    size, rows, columns, values = inner.max() + 1, [], [], []
    for k in range(a.ndim):
        left = [slice(None)] * a.ndim
        right = list(left)
        left[k], right[k] = slice(None, -1), slice(1, None)
        one, other = inner[tuple(left)].ravel(), inner[tuple(right)].ravel()
        face = (2 / (1 / a[tuple(left)] + 1 / a[tuple(right)])).ravel() / h**2
        for i, j in ((one, other), (other, one)):
            here, both = i >= 0, (i >= 0) & (j >= 0)
            rows += [i[here], i[both]]
            columns += [i[here], j[both]]
            values += [face[here], -face[both]]
    return sparse.csc_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (size, size))


def elliptic(rng, n, dim=2):
    """-div(a grad z) + c z = f, z = 0 on the boundary: three coefficients."""
    axes = [axis(n, "nodes")] * dim
    a, c, f = np.exp(0.8 * field(rng, axes)), 30 * np.exp(field(rng, axes)), 20 * (1 + field(rng, axes))
    core = (slice(1, -1),) * dim
    z = np.zeros(a.shape)
    matrix = diffusion_matrix(a, 1 / (n - 1)) + sparse.diags(c[core].ravel())
    z[core] = splu(matrix.tocsc()).solve(f[core].ravel()).reshape(z[core].shape)
    return np.stack([a, c, f]), z[None]


def nonlinear_elliptic(rng, n):
    """-div(a grad z) + z^3 = f in a cube, z = 0 on the boundary; Newton's method."""
    axes = [axis(n, "nodes")] * 3
    a, f = np.exp(0.8 * field(rng, axes, waves=4)), 60 * (1 + field(rng, axes, waves=4))
    core = (slice(1, -1),) * 3
    matrix, right = diffusion_matrix(a, 1 / (n - 1)), f[core].ravel()
    z = np.zeros_like(right)
    for _ in range(20):
        step = sparse.linalg.cg(matrix + sparse.diags(3 * z**2), right - matrix @ z - z**3, rtol=1e-8)[0]
        z += step
        if np.abs(step).max() < 1e-9 * np.abs(z).max():
            break
    whole = np.zeros(a.shape)
    whole[core] = z.reshape(whole[core].shape)
    return np.stack([a, f]), whole[None]


def helmholtz(rng, n):
    """Laplace z + k^2 m z = 0, a plane wave enters on the left and all waves leave: z = (real part, imaginary part)."""
    k, h = 3.5 * pi, 1 / (n - 1)
    m = np.exp(0.35 * field(rng, [axis(n, "nodes")] * 2))
    end = np.ones(n)
    end[[0, -1]] = 0.5  # half cells at the boundary
    line = sparse.diags([np.full(n - 1, -1.0), np.r_[1, np.full(n - 2, 2.0), 1], np.full(n - 1, -1.0)], [-1, 0, 1]) / h
    mass = sparse.diags(end * h)
    edge = sparse.diags(np.r_[1.0, np.zeros(n - 2), 1.0])
    stiff = sparse.kron(line, mass) + sparse.kron(mass, line)
    out = sparse.kron(edge, mass) + sparse.kron(mass, edge)
    y = axis(n, "nodes")
    incoming = np.zeros((n, n), complex)
    incoming[0] = -2j * k * end * h * np.exp(-4 * (y - 0.5) ** 2)
    weights = sparse.diags((k**2 * m * np.outer(end, end) * h**2).ravel())
    z = splu((stiff - weights - 1j * k * out).tocsc()).solve(incoming.ravel()).reshape(n, n)
    return m[None], np.stack([z.real, z.imag])


def wave_numbers(n, dim):
    """2 pi k of each axis of a periodic unit cube, for the transform of real functions."""
    k = [np.fft.fftfreq(n, 1 / n)] * (dim - 1) + [np.fft.rfftfreq(n, 1 / n)]
    return [2 * pi * each for each in np.meshgrid(*k, indexing="ij")]


def spectral_flow(start, rate, speed, time, steps):
    """v' = rate v + speed(v) for Fourier coefficients v: Runge-Kutta of order 4 with an integrating factor."""
    dt, v = time / steps, start
    half, whole = np.exp(rate * dt / 2), np.exp(rate * dt)
    for _ in range(steps):
        a = dt * speed(v)
        b = dt * speed(half * (v + a / 2))
        c = dt * speed(half * v + b / 2)
        d = dt * speed(whole * v + half * c)
        v = whole * v + (whole * a + 2 * half * (b + c) + d) / 6
    return v


def refined(start, n, fine, dim):
    """The coefficients of a function of n points as those of ``fine`` points."""
    axes = tuple(range(-dim, 0))
    found, out = np.fft.rfftn(start, axes=axes), np.zeros((fine,) * (dim - 1) + (fine // 2 + 1,), complex)
    for signs in product((0, 1), repeat=dim - 1):
        halves = (slice(-(n // 2) + 1, None) if s else slice(0, n // 2) for s in signs)
        block = (*halves, slice(0, n // 2))
        out[block] = found[block]
    return out * (fine / n) ** dim


def advection(rng, n):
    """z_t + v . grad z = Laplace z / 500 on a torus, div v = 0: u = (z(0), v_1, v_2), z at time 0.3."""
    fine, axes = 2 * n, [axis(2 * n, "periodic")] * 2
    k1, k2 = wave_numbers(fine, 2)
    start, stream = (np.fft.rfft2(field(rng, axes, is_periodic=True, waves=4)) for _ in range(2))
    velocity = [np.fft.irfft2(0.06 * 1j * k2 * stream), np.fft.irfft2(-0.06 * 1j * k1 * stream)]

    def speed(z):
        return -np.fft.rfft2(sum(v * np.fft.irfft2(1j * k * z) for v, k in zip(velocity, (k1, k2), strict=True)))

    z = np.fft.irfft2(spectral_flow(start, -(k1**2 + k2**2) / 500, speed, 0.3, 2 * fine))
    u = np.stack([np.fft.irfft2(start), *velocity])
    return u[:, ::2, ::2], z[None, ::2, ::2]


def burgers(rng, n):
    """z_t + z z_x = z_xx / 100 on a circle: z(0) to z(0.5)."""
    fine = 4 * n
    (k,) = wave_numbers(fine, 1)
    start = np.fft.rfft(field(rng, [axis(fine, "periodic")], is_periodic=True))
    kept = k < 2 * pi * fine / 3  # dealiasing

    def speed(z):
        return kept * -0.5j * k * np.fft.rfft(np.fft.irfft(z) ** 2)

    z = np.fft.irfft(spectral_flow(start, -(k**2) / 100, speed, 0.5, 400))
    return np.fft.irfft(start)[None, ::4], z[None, ::4]


def allen_cahn(rng, n):
    """z_t = Laplace z / 200 + 8 (z - z^3) on a three-dimensional torus: z(0) to z(0.25)."""
    fine = 2 * n
    k = wave_numbers(fine, 3)
    start = np.fft.rfftn(0.7 * field(rng, [axis(fine, "periodic")] * 3, is_periodic=True, waves=3))

    def speed(v):
        z = np.fft.irfftn(v, axes=(0, 1, 2))
        return 8 * np.fft.rfftn(z - z**3)

    z = spectral_flow(start, -sum(each**2 for each in k) / 200, speed, 0.25, 10)
    return tuple(np.fft.irfftn(v, axes=(0, 1, 2))[None, ::2, ::2, ::2] for v in (start, z))


def wave(rng, n):
    """z_tt = div(c^2 grad z), z = 0 on the boundary, at rest at first: u = (z(0), c), z at time 0.6."""
    fine = 2 * n - 1
    axes = [axis(fine, "nodes")] * 2
    mask = np.prod(np.meshgrid(*[np.sin(pi * x) for x in axes], indexing="ij"), 0)
    z0, c = mask * field(rng, axes), np.exp(0.3 * field(rng, axes))
    core, steps = (slice(1, -1),) * 2, 4 * (fine - 1)
    matrix, dt = diffusion_matrix(c**2, 1 / (fine - 1)), 0.6 / steps
    before = z0[core].ravel()
    now = before - dt**2 / 2 * (matrix @ before)
    for _ in range(steps - 1):
        before, now = now, 2 * now - before - dt**2 * (matrix @ now)
    z = np.zeros_like(z0)
    z[core] = now.reshape(z[core].shape)
    return np.stack([z0, c])[:, ::2, ::2], z[None, ::2, ::2]


def reaction(rng, n):
    """FitzHugh and Nagumo: a_t = Laplace a / 400 + 4 (a - a^3 - b), b_t = a - b / 2, no flux; 0 to 1."""
    fine, steps = 2 * n, 100
    axes = [axis(fine, "cells")] * 2
    state = np.stack([field(rng, axes), 0.5 * field(rng, axes)])
    start = state

    def speed(state):
        a, b = state
        ghost = np.pad(a, 1, mode="edge")
        laplace = ghost[2:, 1:-1] + ghost[:-2, 1:-1] + ghost[1:-1, 2:] + ghost[1:-1, :-2] - 4 * a
        return np.stack([laplace * fine**2 / 400 + 4 * (a - a**3 - b), a - b / 2])

    for _ in range(steps):
        slope = speed(state)
        state = state + speed(state + slope / (2 * steps)) / steps
    return tuple(v.reshape(2, n, 2, n, 2).mean((2, 4)) for v in (start, state))


def oscillator(rng, n):
    """x'' + x' / 2 + x + x^3 = f(t), at rest at first: the force f to the place x, for 12 units of time."""
    coefficients = rng.normal(size=(2, 8))
    rate = 2 * pi * np.arange(1, 9) / 12

    def force(t):
        t = np.asarray(t)[..., None]
        return (coefficients[0] * np.sin(rate * t) + coefficients[1] * np.cos(rate * t)).sum(-1) / 2

    times = np.linspace(0, 12, n)
    found = solve_ivp(
        lambda t, s: [s[1], force(t) - s[1] / 2 - s[0] - s[0] ** 3],
        (0, 12),
        [0, 0],
        "DOP853",
        times,
        rtol=1e-8,
        atol=1e-9,
    )
    return force(times)[None], found.y[:1]


def channel(rng, n):
    """v . grad z = div(a grad z) + f in a channel, steady: z = 0 where v enters, no flux at walls, free at the outlet.

    v = (1 - (2 y - 1)^2, 0) 1.5, u = (a, f). Cells of finite volumes, upwind, on four times finer cells.
    """
    fine = 4 * n
    axes, h = [axis(fine, "cells")] * 2, 1 / fine
    a, f = 0.05 * np.exp(0.8 * field(rng, axes)), 1 + field(rng, axes)
    v = np.broadcast_to(1.5 * (1 - (2 * axes[1] - 1) ** 2), a.shape)
    number = np.arange(fine**2).reshape(fine, fine)
    matrix = sparse.csr_matrix((fine**2, fine**2))
    for k in range(2):  # exchange between neighbours along an axis
        one, other = (np.take(number, range(j, fine - 1 + j), k).ravel() for j in (0, 1))
        rate = 2 / (1 / a.ravel()[one] + 1 / a.ravel()[other]) / h**2
        flow = (v.ravel()[one] if k == 0 else 0 * rate) / h
        for i, j, out in ((one, other, rate + flow), (other, one, rate)):  # what leaves i enters j
            matrix = matrix + sparse.csr_matrix((out, (i, i)), matrix.shape)
            matrix = matrix - sparse.csr_matrix((out, (j, i)), matrix.shape)
    ends = np.zeros(a.shape)
    ends[0] = 2 * a[0] / h**2  # z = 0 half a cell before the first
    ends[-1] = v[-1] / h
    z = splu((matrix + sparse.diags(ends.ravel())).tocsc()).solve(f.ravel()).reshape(fine, fine)
    return tuple(w.reshape(-1, n, 4, n, 4).mean((2, 4)) for w in (np.stack([a, f]), z[None]))


@dataclass(frozen=True)
class Mesh:
    """Points of the L-shape [0, 1]^2 without [1/2, 1]^2, triangles, and the integrals of their hat functions."""

    points: np.ndarray
    triangles: np.ndarray
    weights: np.ndarray
    inner: np.ndarray


def l_mesh(n):
    """About 3/4 n^2 points: jittered inside, equispaced on the boundary."""
    rng, h = np.random.default_rng(7), 1 / n
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, n + 1)] * 2, indexing="ij"), -1).reshape(-1, 2)
    x, y = np.round(grid * n).astype(int).T
    half = n // 2
    grid, x, y = (v[(x <= half) | (y <= half)] for v in (grid, x, y))
    corner = ((x == half) & (y >= half)) | ((y == half) & (x >= half))
    boundary = (x == 0) | (y == 0) | (x == n) | (y == n) | corner
    points = grid + np.where(boundary, 0, 1)[:, None] * rng.uniform(-0.3 * h, 0.3 * h, grid.shape)
    triangles = Delaunay(points).simplices
    middle = points[triangles].mean(1)
    triangles = triangles[(middle < 0.5 + 1e-9).any(1)]
    area = areas(points, triangles)
    triangles, area = triangles[area > 1e-12], area[area > 1e-12]
    weights = np.bincount(triangles.ravel(), np.repeat(area / 3, 3), len(points))
    return Mesh(points, triangles, weights, np.flatnonzero(~boundary))


def areas(points, triangles):
    """The area of each triangle."""
    one, two = (points[triangles[:, k]] - points[triangles[:, 0]] for k in (1, 2))
    return np.abs(one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]) / 2


def l_shape(rng, n):
    """-div(a grad z) + 20 z^3 = f on an L-shape, z = 0 on its boundary: linear elements, Newton's method."""
    mesh = l_mesh(n)
    points, triangles, area = mesh.points, mesh.triangles, areas(mesh.points, mesh.triangles)
    a, f = (draw(points) for draw in (l_field(rng), l_field(rng)))
    a, f = np.exp(0.7 * a), 40 * (1 + f)
    sides = points[triangles[:, [2, 0, 1]]] - points[triangles[:, [1, 2, 0]]]  # opposite to each corner
    local = np.einsum("tid,tjd->tij", sides, sides) * (a[triangles].mean(1) / (4 * area))[:, None, None]
    rows, columns = np.repeat(triangles, 3, 1).ravel(), np.tile(triangles, (1, 3)).ravel()
    matrix = sparse.csr_matrix((local.ravel(), (rows, columns)), (len(points), len(points)))
    matrix = matrix[mesh.inner][:, mesh.inner]
    w, z = mesh.weights[mesh.inner], np.zeros(len(mesh.inner))
    for _ in range(20):
        step = splu((matrix + sparse.diags(60 * w * z**2)).tocsc()).solve(
            w * f[mesh.inner] - matrix @ z - 20 * w * z**3
        )
        z += step
        if np.abs(step).max() < 1e-10 * np.abs(z).max():
            break
    whole = np.zeros(len(points))
    whole[mesh.inner] = z
    return np.stack([a, f]), whole[None]


def l_field(rng):
    """`field` at any points."""
    x = np.linspace(0, 1, 129)
    return RegularGridInterpolator((x, x), field(rng, [x, x], waves=5), method="linear")


PROBLEMS = {
    problem.name: problem
    for problem in (
        OwnProblem("elliptic", elliptic, 33, 2, "nodes", is_elliptic=True),
        OwnProblem("helmholtz", helmholtz, 33, 2, "nodes", is_elliptic=True),
        OwnProblem("l-shape", l_shape, 24, 2, "points", is_elliptic=True),
        OwnProblem("elliptic-3d", nonlinear_elliptic, 13, 3, "nodes", is_elliptic=True),
        OwnProblem("advection", advection, 32, 2, "periodic"),
        OwnProblem("wave", wave, 33, 2, "nodes"),
        OwnProblem("reaction", reaction, 32, 2, "cells"),
        OwnProblem("allen-cahn-3d", allen_cahn, 12, 3, "periodic"),
        OwnProblem("burgers", burgers, 128, 1, "periodic", train=300),
        OwnProblem("oscillator", oscillator, 101, 1, "nodes", train=300, length=12.0),
        OwnProblem("channel", channel, 32, 2, "cells"),  # held out: no choice was made on it
    )
}


def refinement(problem, count=3):
    """How far solutions are from those of the same draws at twice the resolution, in relative L2, at common points."""
    n = problem.n
    if problem.kind == "points":
        mesh, fine = l_mesh(n), 4 * n
        coarse, finer = problem.samples(count), problem.samples(count, fine)
        from scipy.interpolate import LinearNDInterpolator

        there = [LinearNDInterpolator(l_mesh(fine).points, z[0])(mesh.points) for z in finer["z"]]
        pairs = [(z[0], t) for z, t in zip(coarse["z"], there, strict=True)]
        return max(np.sqrt((mesh.weights * (z - t) ** 2).sum() / (mesh.weights * t**2).sum()) for z, t in pairs)
    fine = 2 * n - 1 if problem.kind == "nodes" else 2 * n
    z, finer = problem.samples(count)["z"], problem.samples(count, fine)["z"]
    if problem.kind == "cells":
        finer = finer.reshape(count, -1, n, 2, n, 2).mean((3, 5))
    else:
        finer = finer[(slice(None), slice(None), *[slice(None, None, 2)] * problem.dim)]
    flat = tuple(range(1, z.ndim))
    return np.sqrt(((z - finer) ** 2).sum(flat) / (finer**2).sum(flat)).max()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS))
    for name in parser.parse_args().problems:
        print(f"{name:14s} {100 * refinement(PROBLEMS[name]):.3f} %", flush=True)


if __name__ == "__main__":
    main()
