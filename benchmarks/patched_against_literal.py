"""One training step of FANO and ViTNO against their literal forms, on the CPU, in one run.

    python benchmarks/patched_against_literal.py [--points 128] [--patches 4] [--modes 9] [--width 64] [--layers 4]
        [--batch 1 4 8]

The forms take turns, so that what else the machine does hits all alike. Printed: seconds, the median of each, and how
many times as fast as the literal form ours is, as it is and compiled.
"""

import argparse
import json
import statistics
import time

import torch
from literal_forms import as_literal

from operformer import FANO, Grid, ViTNO
from operformer.evaluation.loss import relative_h1


def seconds_of_a_step(operator, optimizer, u, z, grid):
    started = time.perf_counter()
    relative_h1(operator(u, grid), z, grid).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - started


def compare(make, settings, points, batch, repetitions):
    torch.manual_seed(0)
    grid = Grid.uniform((points, points), kind="cells")
    x = grid.points.float()
    u = torch.randn(batch, 1, 1, 1) * torch.sin(6 * x[..., 0] * x[..., 1]) + torch.cos(5 * x[..., 0])
    z = u.flip(-1) + u.square()
    operator = make(**settings)
    literal = as_literal(operator, stores_complex=True)
    # Real weights go through torch.compile and the fused optimizer. Complex ones do not: the literal form's FFTs were
    # slower compiled than not when tried once, and fused AdamW refuses complex parameters.
    rivals = {"ours": operator, "ours, compiled": torch.compile(operator), "literal": literal}
    # What the literal form does not use, it shall not pay for.
    used = [parameter for name, parameter in literal.named_parameters() if "mixing" not in name]
    optimizers = {name: torch.optim.AdamW(operator.parameters(), fused=True) for name in rivals}
    optimizers["literal"] = torch.optim.AdamW(used)
    times = {name: [] for name in rivals}
    for repetition in range(repetitions + 1):
        for name, rival in rivals.items():
            seconds = seconds_of_a_step(rival, optimizers[name], u, z, grid)
            if repetition:
                times[name].append(seconds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    row = {"operator": make.__name__, "batch": batch, **{name: round(value, 4) for name, value in medians.items()}}
    for name in ("ours", "ours, compiled"):
        row[f"ratio, {name}"] = round(medians["literal"] / medians[name], 2)
    print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("points", 128), ("patches", 4), ("modes", 9), ("width", 64), ("layers", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    settings = {
        "n_patches": (given.patches, given.patches),
        "n_modes": given.modes,
        "in_channels": 1,
        "out_channels": 1,
        "hidden_channels": given.width,
        "n_layers": given.layers,
        "n_heads": 8,
    }
    print(f"one training step, {given.points} x {given.points}, {torch.get_num_threads()} threads")
    rows = [
        compare(make, settings, given.points, batch, given.repetitions)
        for make in (FANO, ViTNO)
        for batch in given.batch
    ]
    print(json.dumps({"settings": settings, "rows": rows}))


if __name__ == "__main__":
    main()
