"""How much a thinned coefficient leaves open: Darcy flow of Li et al. is solved on 421 x 421 nodes and read on fewer.

    python benchmarks/thinned_coefficients.py [--nodes 42 64 85 128 170] [--pairs 24]
        [--errors results/best/darcy-li-85.json]

Between two nodes the coefficient jumps nobody knows where. Printed: the mean relative L2 error of one that is given the
equation and its solver, but only the thinned coefficient, and puts the jump where its linear interpolation says; how
many of the 421 x 421 nodes it has wrong; with ``--errors`` the mean error of a record beside. An operator knows neither
equation nor solver; what it can do better is to give the mean over all jumps that are possible, and not one solution.
"""

import argparse
import json
from pathlib import Path

import torch

from operformer.domain import Grid
from operformer.domain.interpolation import interpolate
from operformer.experiments.recipes import recipe
from operformer.problems.elliptic import solve_darcy

LOW, HIGH = 3.0, 12.0


def guessed(a, grid, fine):
    """The two values of a, given on a grid, at all nodes of a fine one."""
    between = interpolate(a, grid, fine)
    return torch.where(between >= (LOW + HIGH) / 2, HIGH, LOW).to(a)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[42, 64, 85, 128, 170])
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--errors", type=Path, help="a record of results/")
    arguments = parser.parse_args()
    problem = recipe("darcy-li-85", "best").problem
    fine = Grid.uniform((problem.read_from,) * 2)
    errors = {}
    if arguments.errors:
        measured = json.loads(arguments.errors.read_text())["measured"]
        errors = {row["points"]: row["l2"]["mean"] for row in measured if row["label"].endswith("x")}
    grids = [problem.grid(nodes) for nodes in arguments.nodes]
    solved, *read = problem.readings(arguments.pairs, [fine, *grids], seed=1)
    for pairs in read:
        a = guessed(pairs.u[:, 0], pairs.grid, fine)
        found = interpolate(solve_darcy(a, torch.ones(fine.shape), fine).z, fine, pairs.grid)
        parts = (found - pairs.z[:, 0]).flatten(1).norm(dim=1) / pairs.z.flatten(1).norm(dim=1)
        wrong, own = (a != solved.u[:, 0]).double().mean(), errors.get(found[0].numel())
        beside = f"  record {own:.3%}" if own is not None else ""
        print(f"nodes {pairs.grid.shape[0]:4d}  error {parts.mean():.3%}  wrong {wrong:.3%}{beside}", flush=True)


if __name__ == "__main__":
    main()
