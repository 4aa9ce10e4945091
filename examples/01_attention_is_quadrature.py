"""Attention is an integral over a function's domain, and the weights of a grid make the softmax compute it.

    A(x) = int e^<u(x), v(y)> v(y) dy / int e^<u(x), v(y)> dy

The values of v at N points are what a transformer calls N tokens. With w_i e^<u(x), v(y_i)> in its softmax both
integrals are sums of a quadrature rule, and the rule decides how fast the error falls; without weights the limit is the
average over another measure, the one that the points are dense in.
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from operformer import Grid, attention, voronoi_weights
from operformer.domain.interpolation import graded_grid

SIZES = (16, 32, 64, 128, 256, 512)
DRAWS = 128  # of random points
draws = torch.Generator().manual_seed(0)


def u(x):
    """The function that asks: [0, 1] to R^2."""
    return torch.cat([torch.sin(3 * x), 2 * torch.exp(-x)], -1)


def v(y):
    """The function that is asked; key and value are the same here."""
    return torch.cat([torch.cos(5 * y) + y**2, 1 / (1 + 3 * y)], -1)


# Both integrals by 100 Gauss-Legendre points, at 50 points x: exact to rounding.
x = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None]
legendre, w = map(torch.from_numpy, np.polynomial.legendre.leggauss(100))
y = (legendre[:, None] + 1) / 2
density = w * torch.exp(u(x) @ v(y).T)
exact = density @ v(y) / density.sum(-1, keepdim=True)


def random_points(n):
    return [torch.rand(n, 1, generator=draws, dtype=torch.float64) for _ in range(DRAWS)]


def graded(n):
    """Points that crowd at 0: the first spacing is a ninth of the last."""
    return graded_grid(Grid.uniform(n), grading=0.8)


# Each rule makes points and weights of N points, several times if they are random.
rules = {
    "nodes, trapezoidal weights": lambda n: [(Grid.uniform(n).points, Grid.uniform(n).weights)],
    "cells, equal weights": lambda n: [(Grid.uniform(n, kind="cells").points, None)],
    "graded, trapezoidal weights": lambda n: [(graded(n).points, graded(n).weights)],
    "random, Voronoi weights": lambda n: [(y, voronoi_weights(y)) for y in random_points(n)],
    "random, equal weights": lambda n: [(y, None) for y in random_points(n)],
    "graded, no weights": lambda n: [(graded(n).points, None)],
}

figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.subplots()
print(f"{'error with N points':<28}{''.join(f'{n:>9}' for n in SIZES)}    order")
for name, rule in rules.items():
    errors = []
    for n in SIZES:
        misses = [attention(u(x), v(y), v(y), weights) - exact for y, weights in rule(n)]
        errors.append(float(torch.stack(misses).square().sum(-1).mean().sqrt()))  # root mean square over x and draws
    order = -np.polyfit(np.log(SIZES), np.log(errors), 1)[0]
    print(f"{name:<28}{''.join(f'{error:>9.1e}' for error in errors)}{order:>9.2f}")
    axes.loglog(SIZES, errors, "o-", base=2, label=f"{name}: order {order:.1f}")

axes.set(xlabel="points N", ylabel="error of attention", yscale="log")
figure.legend(loc="outside upper center", ncols=2, fontsize="small")
Path("runs").mkdir(exist_ok=True)
figure.savefig("runs/attention_is_quadrature.png", dpi=150)
print("figure: runs/attention_is_quadrature.png")
