"""What the certificate finds: operators that were broken on purpose, and right ones that must pass.

    python benchmarks/certificate_power.py [--seeds 10] [--right 200] [--sizes 0.01 0.003 0.001 0.0003 0.0001]

A kind of fault is a change of the output or of the measure, and the grids on which it happens. Each kind is certified
at each size, with as many operators as seeds: TNO, FANO, SpectralOperator and CodomainNO of random weights, on a line.
The tables have the smallest size that was found with every seed. The script takes about half an hour on one core.
"""

import argparse
from itertools import product
from time import perf_counter

import torch

from operformer import FANO, TNO, CodomainNO, Grid, Resampled, SpectralOperator, ViTNO
from operformer.evaluation.certificate import certify
from operformer.evaluation.probes import problem_probes
from operformer.operators.wrappers import Wrapper
from operformer.problems import ControlledODE, Darcy

SIZES = {"hidden_channels": 8, "n_layers": 1}
MAKERS = (
    lambda: TNO(1, 1, 1, n_heads=2, **SIZES),
    lambda: FANO((2,), 3, 1, 1, n_heads=2, **SIZES),
    lambda: SpectralOperator((4,), 1, 1, **SIZES),
    lambda: CodomainNO(1, 3, 1, 1, token_channels=2, **SIZES, basis="cosine"),
    lambda: FANO((4,), 3, 1, 1, n_heads=2, **SIZES, basis="cosine"),
)


def along(grid):
    """From -1 to 1 along the box."""
    (lower, upper), *_ = grid.bounds
    return 2 * (grid.points[..., 0] - lower) / (upper - lower) - 1


CHANGES = {
    "scaled": lambda z, grid, size: z * (1 + size),
    "shifted": lambda z, grid, size: z + size * z.square().mean().sqrt(),
    "tilted": lambda z, grid, size: z + size * 3**0.5 * along(grid) * z.square().mean().sqrt(),
    "half of D": lambda z, grid, size: z * (1 + size * 2**0.5 * (along(grid) > 0)),
    "noise": lambda z, grid, size: z + size * z.square().mean().sqrt() * torch.randn_like(z),
}
PLACES = {
    **{f"above {n} points": lambda grid, n=n: grid.weights.numel() > n for n in (33, 65, 129, 257, 513)},
    **{
        f"at {n} points": lambda grid, n=n: grid.kind == "nodes" and grid.weights.numel() == n
        for n in (33, 65, 129, 257, 513)
    },
    "graded": lambda grid: grid.kind == "rectilinear",
    "scattered": lambda grid: grid.kind == "scattered",
    "once more each doubling": lambda grid: (grid.weights.numel() / 32) ** 0.5,
    "every second doubling": lambda grid: round(torch.tensor(float(grid.weights.numel())).log2().item()) % 2,
}


def remeasured(grid, weights):
    """The grid with other weights of the same sum."""
    return Grid.scattered(grid.points, weights * (grid.weights.sum() / weights.sum()), grid.bounds)


def noisy(grid, size):
    return grid.weights * (1 + size * torch.randn_like(grid.weights)).clamp(min=0)


def equal(grid, size):
    return (1 - size) * grid.weights + size * grid.weights.mean()


def in_order(z, grid, size):
    return z + size * z.square().mean().sqrt() * torch.linspace(-1, 1, z.shape[-1], dtype=z.dtype) * 3**0.5


class Broken(Wrapper):
    """An operator with a fault: ``change(z, grid)`` of its output, or ``fault(operator, u, grid)`` in its place."""

    def __init__(self, operator, fault):
        super().__init__(operator)
        self.fault = fault

    def forward(self, u, grid=None, query=None):
        """The operator with its fault."""
        return self.fault(self.operator, u, grid)


def faults():
    """Every kind of fault, as ``fault(operator, u, grid, size)``."""

    def changed(change, place):
        return lambda operator, u, grid, size: change(operator(u, grid), grid, size * place(grid))

    found = {f"{c}, {p}": changed(CHANGES[c], PLACES[p]) for c, p in product(CHANGES, PLACES)}

    def mixed(weights):
        """Output of 1 - size of the operator and size of a mean with other weights: attention's own rule is no part."""

        def fault(operator, u, grid, size):
            z = operator(u, grid)
            wrong = (u * weights(grid)).flatten(2).sum(-1) / weights(grid).sum()
            scale = z.square().mean().sqrt() / u.square().mean().sqrt()
            return (1 - size) * z + size * scale * wrong.reshape(len(u), -1, 1)[:, :1]

        return fault

    found["1 part of a plain mean of u"] = mixed(lambda grid: torch.ones_like(grid.weights))
    found["1 part of a sum of u by noisy weights"] = mixed(lambda grid: noisy(grid, 1.0))
    found["input scaled above 65 points"] = lambda operator, u, grid, size: operator(
        u * (1 + size * (grid.weights.numel() > 65)), grid
    )
    found["input shifted on scattered points"] = lambda operator, u, grid, size: operator(
        u + size * (grid.kind == "scattered"), grid
    )
    found["output by the order of scattered points"] = lambda operator, u, grid, size: (
        in_order(operator(u, grid), grid, size) if grid.kind == "scattered" else operator(u, grid)
    )
    for name, weights in (("noise on the weights", noisy), ("equal weights mixed in", equal)):
        found[name] = lambda operator, u, grid, size, weights=weights: operator(
            u, remeasured(grid, weights(grid, size))
        )
    return found


def made(seed, pointwise=False):
    """A right operator of random weights. Weights are measured at the points only where there are no patches."""
    torch.manual_seed(seed)
    makers = MAKERS[:1] if pointwise else MAKERS
    operator = makers[seed % len(makers)]().double()
    return operator.requires_grad_(False)


def is_found(kind, fault, size, seed):
    """Whether the certificate of the broken operator is not passed."""
    operator = made(seed, pointwise="weights" in kind and "sum" not in kind)
    torch.manual_seed(1000 + seed)
    broken = Broken(operator, lambda operator, u, grid: fault(operator, u, grid, size))
    return not certify(broken, seed=seed).passed


def right(count):
    """The certificates of right operators that are not passed, by their seeds: on a line, on a plane, rough inputs."""
    alarms = []
    others = (
        lambda: TNO(2, 1, 1, n_heads=2, **SIZES),
        lambda: SpectralOperator((3, 3), 1, 1, **SIZES),
        lambda: FANO((2, 2), 2, 1, 1, n_heads=2, **SIZES),
        lambda: CodomainNO(2, 3, 1, 1, token_channels=2, **SIZES),
        lambda: ViTNO((2, 2), 2, 1, 1, n_heads=2, **SIZES),
        lambda: Resampled(ViTNO((2, 2), 2, 1, 1, n_heads=2, **SIZES)),
    )
    laws = ((1, ControlledODE()), (2, Darcy(points="nodes", fine=49)))
    for seed in range(count):
        operator, probes = made(seed), None
        torch.manual_seed(seed)
        if seed % 4 == 3:
            operator = others[seed // 4 % len(others)]().double()
        elif seed % 8 == 5:
            dim, law = laws[seed // 8 % 2]
            operator = TNO(dim, law.in_channels, 1, n_heads=2, **SIZES).double()
            probes = problem_probes(law, seed=seed)
        found = certify(operator.requires_grad_(False), probes, seed=seed)
        if not found.passed:
            alarms.append(seed)
            print(seed, *found.lines(), sep="\n")
    return alarms


def table(smallest):
    """The smallest sizes as lines of markdown: a row for each place and a column for each change, then the others."""
    shown = {name: f"{size:.2%}" for name, size in smallest.items()}
    yield f"| output on these grids | {' | '.join(CHANGES)} |"
    yield "|---" * (len(CHANGES) + 1) + "|"
    for place in PLACES:
        yield f"| {place} | {' | '.join(shown.get(f'{change}, {place}', '-') for change in CHANGES)} |"
    yield ""
    yield "| other faults | size |"
    yield "|---|---|"
    for name in faults():
        if ", " not in name:
            yield f"| {name} | {shown.get(name, '-')} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--right", type=int, default=200)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e-2, 3e-3, 1e-3, 3e-4, 1e-4])
    parser.add_argument("--kinds", default="", help="those whose name contains this")
    arguments = parser.parse_args()
    began = perf_counter()
    alarms = right(arguments.right)
    print(f"false alarms: {len(alarms)} of {arguments.right} right operators, {perf_counter() - began:.0f} s\n")
    kinds = {name: fault for name, fault in faults().items() if arguments.kinds in name}
    first, smallest = 0, {}
    for name, fault in kinds.items():
        for size in arguments.sizes:
            count = sum(is_found(name, fault, size, seed) for seed in range(arguments.seeds))
            first += count if size == arguments.sizes[0] else 0
            print(f"{name} of {size:.2%}: {count} of {arguments.seeds} found", flush=True)
            if count < arguments.seeds:
                break
            smallest[name] = size
    asked = len(kinds) * arguments.seeds
    print(f"\n{len(kinds)} kinds at {arguments.sizes[0]:.0%}: {first} of {asked} found ({first / max(asked, 1):.1%})")
    print("\nThe smallest size that was found with every seed:\n")
    print(*table(smallest), sep="\n")
    print(f"{perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
