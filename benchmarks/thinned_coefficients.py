"""How much fewer nodes leave open: Darcy flow of Li et al. is solved on 421 x 421 of them and read on a coarser grid.

    python benchmarks/thinned_coefficients.py [--nodes 42 43 64 85 128 170] [--pairs 24]
        [--errors results/best/darcy-li-85.json]

Between two nodes the coefficient jumps nobody knows where (43 and 85 nodes are every tenth and every fifth of 421). One
is given the equation and its solver, but only the coefficient on the coarser grid, and puts jumps where its linear
interpolation has them. Printed, of the first test pairs: the mean relative L2 error with its standard error, how many
of the 421 x 421 nodes are guessed wrong, and with ``--errors`` the mean error of a record on the same pairs. That is no
bound: who gives the mean over all jumps that are possible, and not one of them, does better.
"""

import argparse
import json
from pathlib import Path

import torch

from operformer.domain import Grid
from operformer.domain.interpolation import interpolate
from operformer.problems.elliptic import solve_darcy
from paper.recipes import find_run


def guessed(a, grid, fine):
    """The two values of a, given on a grid, at all nodes of a fine one."""
    low, high = a.min(), a.max()
    return torch.where(interpolate(a, grid, fine) >= (low + high) / 2, high, low)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[42, 43, 64, 85, 128, 170])
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--errors", type=Path, help="a record of results/")
    arguments = parser.parse_args()
    experiment = find_run("darcy-li-85", "best")
    problem, data = experiment.problem, experiment.data
    fine = Grid.uniform((problem.read_from,) * 2)
    errors = {}
    if arguments.errors:
        measured = json.loads(arguments.errors.read_text())["measured"]
        errors = {row["points"]: torch.tensor(row["errors"]) for row in measured if row["label"].endswith("x")}
    grids = [problem.grid(nodes) for nodes in arguments.nodes]
    first = data.train + data.validation
    solved, *read = problem.readings(arguments.pairs, [fine, *grids], data.seed, first=first)
    for pairs in read:
        a = guessed(pairs.u[:, 0], pairs.grid, fine)
        found = interpolate(solve_darcy(a, torch.ones(fine.shape), fine)[0], fine, pairs.grid)
        parts = (found - pairs.z[:, 0]).flatten(1).norm(dim=1) / pairs.z.flatten(1).norm(dim=1)
        wrong, own = (a != solved.u[:, 0]).double().mean(), errors.get(found[0].numel())
        error = f"{parts.mean():.3%} +- {parts.std() / len(parts) ** 0.5:.3%}"
        beside = "" if own is None else f"  record {own[: arguments.pairs].mean():.3%}"
        print(f"nodes {pairs.grid.shape[0]:4d}  error {error}  wrong {wrong:.3%}{beside}", flush=True)


if __name__ == "__main__":
    main()
