"""How much the data of Darcy flow themselves differ between grids: what a perfect operator would have as its error.

    python benchmarks/data_between_grids.py [--resolution 64] [--factors 0.5 0.75 1.5 2] [--pairs 40]
        [--coefficient lognormal] [--errors results/best/darcy-64-tno.json]

Every grid has its own discrete solution. An operator that gave the training grid's solution exactly, as a function, on
every grid would still differ from the others' by what is printed here: the median relative L2 difference of the same
draws' solutions, that of the training grid read by its sine series. With ``--errors`` a record's errors stand beside.
"""

import argparse
import json
import statistics
from pathlib import Path

import torch

from operformer.problems import Darcy


def sines(points, waves):
    """sqrt(2) sin(pi k x) at the middles of so many cells: (points, waves)."""
    x = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    return 2**0.5 * torch.sin(torch.pi * torch.outer(x, torch.arange(1, waves + 1, dtype=torch.float64)))


def read_at(z, points):
    """Functions that are zero on the boundary, from their values in n x n cells to those in points x points."""
    n = z.shape[-1]
    analysis = sines(n, n).T / n
    analysis[-1] /= 2  # the fastest wave has twice the norm on the grid
    both = sines(points, n) @ analysis
    return both @ z @ both.T


def difference(found, expected):
    parts = ((found - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)).tolist()
    return statistics.median(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resolution", type=int, default=64)
    parser.add_argument("--factors", type=float, nargs="+", default=[0.5, 0.75, 1.5, 2.0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--coefficient", choices=["lognormal", "piecewise"], default="lognormal")
    parser.add_argument("--errors", type=Path, help="a record of results/")
    arguments = parser.parse_args()
    problem = Darcy(arguments.coefficient)
    errors = {}
    if arguments.errors:
        measured = json.loads(arguments.errors.read_text())["measured"]
        errors = {row["points"]: statistics.median(row["errors"]) for row in measured if row["label"].endswith("x")}

    def solutions(resolution):
        return problem.sample(arguments.pairs, resolution, seed=1).z[:, 0]

    trained = solutions(arguments.resolution)
    for factor in arguments.factors:
        resolution = round(factor * arguments.resolution)
        floor = difference(read_at(trained, resolution), solutions(resolution))
        own = errors.get(resolution**2)
        print(f"{resolution:5d}  data {floor:.4%}" + (f"  record {own:.4%}" if own is not None else ""), flush=True)


if __name__ == "__main__":
    main()
