"""The numbers behind the figures, computed by the library when the site is built."""

import numpy as np
import torch

from operformer import Grid, attention
from operformer.domain import h1_norm, l2_norm

_generator = torch.Generator().manual_seed(0)
Q, K = (torch.randn(3, 2, generator=_generator, dtype=torch.float64) for _ in range(2))
V = torch.tensor([[1.0, -0.5]], dtype=torch.float64)
X = torch.linspace(0, 1, 41, dtype=torch.float64).unsqueeze(-1)  # where outputs are compared
DRAWS = 64


def u(x):
    """A smooth function on [0, 1] with two channels: (N, 1) -> (N, 2)."""
    return torch.cat([torch.sin(3 * x), torch.exp(-x)], -1)


def attend(x, y, weights=None):
    """A(u) at the points x by what is known of u at the points y."""
    return attention(u(x) @ Q.T, u(y) @ K.T, u(y) @ V.T, weights)


def continuum(x):
    """A(u)(x) with both integrals by Gauss and Legendre's rule of 60 points, which is exact to rounding here."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    y, w = torch.from_numpy((nodes + 1) / 2).unsqueeze(-1), torch.from_numpy(weights / 2)
    density = torch.exp((u(x) @ Q.T) @ (u(y) @ K.T).T) * w
    return density @ (u(y) @ V.T) / density.sum(-1, keepdim=True)


def uniform(n):
    """n equispaced nodes of [0, 1]."""
    return Grid.uniform((n,))


def graded(n):
    """n points of [0, 1] that crowd at 0."""
    return Grid.rectilinear(torch.linspace(0, 1, n, dtype=torch.float64).square())


def attention_errors(sizes=(9, 17, 33, 65, 129, 257)):
    """The largest error of A(u) over [0, 1] for each kind of points and each number of them."""
    truth = continuum(X)

    def error(y, weights):
        return float((attend(X, y, weights) - truth).abs().max())

    draws = torch.Generator().manual_seed(1)
    random = [
        [error(torch.rand(n, 1, generator=draws, dtype=torch.float64), None) for _ in range(DRAWS)] for n in sizes
    ]
    return {
        "uniform, trapezoid": [error(uniform(n).points, uniform(n).weights) for n in sizes],
        "graded, trapezoid": [error(graded(n).points, graded(n).weights) for n in sizes],
        "random, equal weights": [float(np.sqrt(np.mean(np.square(several)))) for several in random],
        "graded, equal weights": [error(graded(n).points, None) for n in sizes],
    }, sizes


def observed_order(sizes, errors):
    """p of the line through errors ~ N^-p."""
    return float(-np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def rounding_errors(sizes=(16, 32, 64, 128, 256, 512)):
    """Relative errors in L2 and H1 of a smooth function whose values are rounded, by the number of nodes an axis."""
    found = {(dtype, norm): [] for dtype in ("bfloat16", "float16") for norm in ("L2", "H1")}
    for n in sizes:
        grid = Grid.uniform((n, n))
        x, y = grid.points.unbind(-1)
        z = (torch.sin(torch.pi * x) * torch.sin(torch.pi * y)).unsqueeze(0)
        for dtype in ("bfloat16", "float16"):
            rounded = z.to(getattr(torch, dtype)).double()
            for name, norm in (("L2", l2_norm), ("H1", h1_norm)):
                found[dtype, name].append(float(norm(rounded - z, grid) / norm(z, grid)))
    return found, sizes
