"""What operators trained on a grid know at scattered points: read there, or with the input known there alone.

    python benchmarks/scattered_points.py [--epochs 24] [--samples 256] [--counts 400 1000 2304 5000]

z = (1 - Laplace / 100)^-1 (u + u^2 / 2) on the unit square with Neumann's condition, u a random sum of cosines: all of
it known exactly at every point. Four operators are trained on 16 x 16 cells, then compared with the truth at random
points, by Voronoi weights, as medians of relative L2 errors:

- on the grid: the plain output on the training grid;
- read: the input on the training grid, the output at the points (``query``);
- alone: the input known at the points alone, integrals by the points' weights, the output there;
- fitted: the same by least squares (``operator.analysis``), where the points settle them;
- best: the same input interpolated linearly to the training grid, and the output read at the points. Whatever takes the
  points themselves is to be compared with this.

A ViTNO takes no scattered points but by `Resampled`, which interpolates: its two last columns are alike. The last
column says whether the library warned of the points. The exit code is 1 if reading costs more than 1.2 times the error
on the grid, or if twice the best is exceeded without a warning.
"""

import argparse
import statistics
import sys
import tempfile
import warnings

import torch

from operformer import FANO, TNO, Grid, Resampled, SpectralOperator, Training, ViTNO, train, voronoi_weights
from operformer.domain import Samples
from operformer.domain.interpolation import interpolate
from operformer.errors import OperformerWarning, UsageError
from operformer.evaluation.loss import relative_l2

MODES, FINE, TRAINED = 4, 16, 16  # cosines of u along an axis, points that integrate u^2 exactly, the training grid


def cosines(x, count):
    return torch.cos(torch.pi * x.unsqueeze(-1) * torch.arange(count, dtype=torch.float64))


def draw(count, seed):
    """Coefficients of u and of z (count, modes, modes): the square has twice the modes, all of which are kept."""
    generator = torch.Generator().manual_seed(seed)
    k = torch.arange(MODES, dtype=torch.float64)
    decay = 1 / (1 + k[:, None] ** 2 + k**2) ** 1.5
    given = 2 * decay * torch.randn(count, MODES, MODES, generator=generator, dtype=torch.float64)
    x = (torch.arange(FINE, dtype=torch.float64) + 0.5) / FINE
    values = torch.einsum("bkl,xk,yl->bxy", given, cosines(x, MODES), cosines(x, MODES))
    analysis = 2 * cosines(x, 2 * MODES) / FINE
    analysis[:, 0] /= 2
    product = torch.einsum("bxy,xk,yl->bkl", values + values**2 / 2, analysis, analysis)
    k = torch.arange(2 * MODES, dtype=torch.float64)
    return given, product / (1 + torch.pi**2 * (k[:, None] ** 2 + k**2) / 100)


def at(coefficients, grid):
    """The functions at the points of a grid: (count, 1, *shape)."""
    points, count = grid.points.reshape(-1, 2), coefficients.shape[-1]
    waves = cosines(points[:, 0], count), cosines(points[:, 1], count)
    return torch.einsum("bkl,nk,nl->bn", coefficients, *waves).unflatten(1, grid.shape).unsqueeze(1)


def operators():
    torch.manual_seed(0)
    small = {"hidden_channels": 32, "n_layers": 2, "n_heads": 4}
    yield "TNO", TNO(2, 1, 1, **small, waves=4)
    yield "ViTNO", Resampled(ViTNO((2, 2), 4, 1, 1, **small, basis="cosine", waves=4))
    yield "FANO", FANO((2, 2), 4, 1, 1, **small, basis="cosine", waves=4)
    yield "SpectralOperator", SpectralOperator((8, 8), 1, 1, 32, n_layers=3, basis="cosine", waves=4)


def median_error(found, z, grid):
    return statistics.median(relative_l2(found.double(), z, grid).tolist())


def scattered(count):
    points = torch.rand(count, 2, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    return Grid.scattered(points, voronoi_weights(points))


def by_least_squares(operator, there, z, points):
    """The error, None where the operator has no modes or the points do not settle them."""
    if not isinstance(operator, FANO | SpectralOperator):
        return None
    operator.analysis = "least-squares"
    try:
        return median_error(operator(there, points), z, points)
    except UsageError:
        return None
    finally:
        operator.analysis = "quadrature"


@torch.no_grad()
def measure(operator, test, grid, counts):
    """One row for each number of points: error read there, alone, the best, and whether there was a warning."""
    given, wanted = test
    u = at(given, grid).float()
    on_grid = median_error(operator(u, grid), at(wanted, grid), grid)
    for count in counts:
        points = scattered(count)
        z, there = at(wanted, points), at(given, points).float()
        read = median_error(operator(u, grid, points), z, points)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            alone = median_error(operator(there, points), z, points)
        is_warned = any(issubclass(one.category, OperformerWarning) for one in said)
        fitted = by_least_squares(operator, there, z, points)
        best = median_error(operator(interpolate(there, points, grid), grid, points), z, points)
        yield count, on_grid, read, alone, fitted, best, is_warned


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--counts", type=int, nargs="+", default=[400, 1000, 2304, 5000])
    arguments = parser.parse_args()
    grid = Grid.uniform((TRAINED, TRAINED), kind="cells")
    given, wanted = draw(arguments.samples + 32, seed=1)
    samples = Samples(at(given, grid).float(), at(wanted, grid).float(), grid)
    settings = Training(
        arguments.epochs, 8, 3e-3, "one-cycle", optimizer="muon", loss="h1", device="cpu", save_minutes=1e3
    )
    failed = False
    print("| operator | points | on the grid | read | times | alone | fitted | best | alone / best | warned |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    for name, operator in operators():
        with tempfile.TemporaryDirectory() as folder:
            trained = train(operator, samples[:-32], samples[-32:], settings, folder, name)
        for count, on_grid, read, alone, fitted, best, is_warned in measure(
            trained, draw(32, 2), grid, arguments.counts
        ):
            failed |= read > 1.2 * on_grid or (alone > 2 * best and not is_warned)
            errors = [f"{e:.2%}" for e in (on_grid, read)] + [f"{read / on_grid:.2f}", f"{alone:.2%}"]
            errors += ["" if fitted is None else f"{fitted:.2%}", f"{best:.2%}", f"{alone / best:.1f}"]
            cells = " | ".join(errors)
            print(f"| {name} | {count} | {cells} | {'yes' if is_warned else ''} |".replace("%", " %"), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
