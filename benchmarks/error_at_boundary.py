"""Where the H1 error of a trained operator lies: in a rim at the boundary of the square, or inside.

    python benchmarks/error_at_boundary.py [--model darcy-vitno] [--sizes 208 416] [--samples 4]

Lognormal Darcy flow, samples that no training saw. Printed is the part of the squared gradient of the error within a
distance of the boundary, beside the part of the area. Two minutes of one core.
"""

import argparse

import torch

from operformer import load
from operformer.problems import Darcy

DISTANCES = (1 / 104, 1 / 52, 1 / 26, 1 / 13)  # the last is one patch
UNSEEN = 3800


def squared_gradient(error):
    """By differences between neighbours, half of each to either cell: (batch, n, n)."""
    total = torch.zeros_like(error)
    for axis in (1, 2):
        steps = error.diff(dim=axis).square() / 2
        total.narrow(axis, 0, steps.shape[axis]).add_(steps)
        total.narrow(axis, 1, steps.shape[axis]).add_(steps)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="darcy-vitno")
    parser.add_argument("--sizes", nargs="+", type=int, default=[208, 416])
    parser.add_argument("--samples", type=int, default=4)
    given = parser.parse_args()
    operator = load(given.model)
    print("| cells along an axis | within | of the area | of the squared gradient of the error |")
    print("|---|---|---|---|")
    for size in given.sizes:
        samples = Darcy("lognormal").sample(given.samples, size, first=UNSEEN).to(dtype=torch.float32)
        with torch.no_grad():
            z = torch.cat([operator(sample.u, sample.grid) for sample in samples.blocks(1)])
        found = squared_gradient((z - samples.z).double()[:, 0])
        steps = torch.arange(size)
        away = torch.minimum(steps, size - 1 - steps)
        away = torch.minimum(away[:, None], away[None, :]) / size
        for distance in DISTANCES:
            rim = away < distance - 1e-9
            area, part = rim.double().mean(), (found * rim).sum() / found.sum()
            print(f"| {size} | 1/{round(1 / distance)} | {area:.0%} | {part:.0%} |", flush=True)


if __name__ == "__main__":
    main()
