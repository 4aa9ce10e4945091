"""Which M sources stand best for all N points? Four kinds in trainings and in the output of a trained TNO's attention.

    python benchmarks/source_kinds.py [--points 33] [--sources 16 64 256] [--samples 512] [--epochs 30]
        [--out table.json]

Lognormal Darcy flow on nodes. First a TNO is trained with attention to all points, then one from the same start with
each kind and number of sources, on the same batches; "test" is the mean relative L2 error of 64 samples. Then the
attention of the fully trained TNO is computed again with each kind from the latent functions of its own layers, and
"attention" is the mean relative L2 difference from all points, "own" the operator's whole output with these sources.
Kinds: "thinned" are M regularly chosen points with trapezoidal weights; "random" are M points drawn by their weights,
drawn again at each step; "averages" are those of the library; "near" attends to the points of a query's own cell and
the cells around it as they are and to the averages of the others, for which every score is computed here.
"""

import argparse
import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from operformer import TNO, Grid
from operformer.domain.quadrature import trapezoidal_weights
from operformer.evaluation.loss import relative_l2
from operformer.operators.attention import Measure, log_density
from operformer.operators.sources import average_over_cells, per_axis
from operformer.problems import Darcy
from operformer.runs.provenance import provenance
from operformer.training.normalisation import fit_normalisation


@dataclass(frozen=True)
class Chosen:
    """Some of the points as sources."""

    index: torch.Tensor

    def average(self, v):
        """(batch, n, c) -> (batch, m, c)."""
        return v.index_select(1, self.index)


def thinned(grid, most):
    """Points nearest to equispaced ones, with the trapezoidal rule of what is kept."""
    m, index, weights = per_axis(most, grid.dim), torch.zeros(1, dtype=torch.long), torch.ones(1, dtype=torch.float64)
    for axis in grid.axes:
        kept = torch.linspace(0, len(axis) - 1, m).round().long()
        index = (index.unsqueeze(-1) * len(axis) + kept).flatten()
        weights = (weights.unsqueeze(-1) * trapezoidal_weights(axis[kept])).flatten()
    return Measure(log_density(weights), cells=Chosen(index))


def random(grid, most):
    """Points drawn with probability proportional to their weight; by importance all then weigh the same."""
    return Measure(cells=Chosen(torch.multinomial(grid.weights.flatten(), most, replacement=True)))


KINDS = {"thinned": thinned, "random": random, "averages": average_over_cells}


class Sourced(TNO):
    """A TNO whose sources are of any kind."""

    sourcing, most = None, None

    def measure(self, grid, most):
        """What is attended to."""
        if self.sourcing is None:
            return super().measure(grid, most)
        make = partial(KINDS[self.sourcing], grid, self.most)
        return make() if self.sourcing == "random" else self.on(grid, make, f"{self.sourcing} {self.most}")


def fresh(arguments, samples):
    torch.manual_seed(0)
    operator = Sourced(
        2, 1, 1, hidden_channels=arguments.width, n_layers=arguments.layers, n_heads=arguments.heads, waves=8
    )
    fit_normalisation(operator, samples)
    return operator


def turned(u, z, generator):
    """The same pair seen from another side: a symmetry of the square, under which the law and the equation stay."""
    which = torch.randint(8, (), generator=generator).item()
    for flag, change in ((1, lambda t: t.flip(-1)), (2, lambda t: t.flip(-2)), (4, lambda t: t.transpose(-1, -2))):
        if which & flag:
            u, z = change(u), change(z)
    return u, z


def train(operator, samples, arguments):
    """Some epochs of one cycle of AdamW."""
    generator = torch.Generator().manual_seed(1)
    steps = arguments.epochs * (len(samples) // arguments.batch)
    optimizer = torch.optim.AdamW(operator.parameters(), arguments.rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, arguments.rate, steps, pct_start=0.2)
    started = time.process_time()
    for _ in range(arguments.epochs):
        for chosen in torch.randperm(len(samples), generator=generator).split(arguments.batch):
            if len(chosen) < arguments.batch:
                continue
            u, z = turned(samples.u[chosen], samples.z[chosen], generator)
            loss = relative_l2(operator(u, samples.grid), z, samples.grid).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(operator.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return time.process_time() - started


@torch.no_grad()
def test_error(operator, samples):
    found = [relative_l2(operator(part.u, part.grid), part.z, part.grid) for part in samples.blocks(16)]
    return float(torch.cat(found).mean())


def latent(operator, samples):
    """What the attention of each layer sees."""
    seen = []
    hooks = [
        layer.attention.register_forward_hook(lambda module, given, out: seen.append((module, given[0], out)))
        for layer in operator.network.layers
    ]
    operator(samples.u, samples.grid)
    for hook in hooks:
        hook.remove()
    return seen


def near(module, v, grid, most):
    """Attention to the averages of far cells and to the points of near ones, by all scores at once."""
    m = per_axis(most, grid.dim)
    cell = (grid.points.flatten(0, -2) * m).long().clamp(max=m - 1)
    centres = torch.cartesian_prod(*[torch.arange(m)] * grid.dim)
    near_points = ((cell.unsqueeze(1) - cell.unsqueeze(0)).abs() <= 1).all(-1)
    near_cells = ((cell.unsqueeze(1) - centres.unsqueeze(0)).abs() <= 1).all(-1)
    mass = torch.zeros(m**grid.dim, dtype=torch.float64)
    index = (cell * torch.tensor([m ** (grid.dim - 1 - k) for k in range(grid.dim)])).sum(-1)
    weights = grid.weights.flatten()
    mass.index_add_(0, index, weights)
    shares = torch.zeros(m**grid.dim, len(weights), dtype=torch.float64)
    shares[index, torch.arange(len(weights))] = weights / mass[index]
    averages = torch.einsum("mn,bnc->bmc", shares.to(v), v)
    source = torch.cat([averages, v], 1)
    log_weights = torch.cat([mass, weights]).log()
    bias = torch.where(torch.cat([~near_cells, near_points], 1), log_weights, -torch.inf).to(v)
    query, key, value = (module._split(t) for t in (module.query(v), module.key(source), module.value(source)))
    scores = module.scale * query @ key.transpose(-1, -2) + bias
    return module.merge((scores.softmax(-1) @ value).transpose(-3, -2).flatten(-2))


@torch.no_grad()
def differences(operator, samples, most):
    """Of each kind: the mean relative L2 difference of the attention's output, and of the operator's."""
    flat = Grid.scattered(samples.grid.points.flatten(0, -2), samples.grid.weights.flatten())
    full, seen = operator(samples.u, samples.grid), latent(operator, samples)
    rows = {}
    for kind in (*KINDS, "near"):
        torch.manual_seed(2)
        errors = []
        for module, v, exact in seen:
            if kind == "near":
                found = near(module, v, samples.grid, most)
            else:
                found = module(v, KINDS[kind](samples.grid, most))
            errors.append(relative_l2(found.transpose(1, 2), exact.transpose(1, 2), flat).mean())
        rows[kind] = {"attention": float(torch.stack(errors).mean())}
        if kind != "near":
            operator.sourcing, operator.most = kind, most
            rows[kind]["own"] = float(relative_l2(operator(samples.u, samples.grid), full, samples.grid).mean())
            operator.sourcing = None
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=33, help="nodes along each axis")
    parser.add_argument("--sources", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--trained", type=int, nargs="*", default=[64, 256], help="sources to train with")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="to train with")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    both = Darcy("lognormal").sample(arguments.samples + 64, arguments.points).to(dtype=torch.float32)
    samples, tests = both[: arguments.samples], both[arguments.samples :]
    rows = []

    def keep(row):
        rows.append(row)
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
        if arguments.out:
            settings = {name: value for name, value in vars(arguments).items() if name != "out"}
            text = json.dumps({"made": provenance(), "settings": settings, "rows": rows}, indent=2)
            arguments.out.write_text(text + "\n")

    full = fresh(arguments, samples)
    seconds = train(full, samples, arguments)
    keep({"kind": "all points", "sources": arguments.points**2, "test": test_error(full, tests), "seconds": seconds})
    for most in arguments.sources:
        for kind, row in differences(full, tests[:8], most).items():
            keep({"kind": kind, "sources": most, **row})
    for most in arguments.trained:
        for kind in arguments.kinds:
            operator = fresh(arguments, samples)
            operator.sourcing, operator.most = kind, most
            seconds = train(operator, samples, arguments)
            keep({"kind": kind, "sources": most, "test": test_error(operator, tests), "seconds": seconds})


if __name__ == "__main__":
    main()
