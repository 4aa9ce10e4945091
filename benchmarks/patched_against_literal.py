"""One training step of FANO and ViTNO against their literal forms, on the CPU, in one run.

    python benchmarks/patched_against_literal.py [--points 128] [--patches 4] [--modes 9] [--width 64] [--layers 4]

Both forms take turns, so that what else the machine does hits both alike. Printed: the median of each and their ratio.
"""

import argparse
import json
import statistics
import time

import torch

from operformer import FANO, Grid, ViTNO
from operformer.learning.loss import relative_h1
from operformer.operators.literal_patched import as_literal


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
    # What the literal form does not use, it shall not pay for.
    rivals = {"ours": operator, "literal": literal}
    used = {
        "ours": list(operator.parameters()),
        "literal": [p for n, p in literal.named_parameters() if "mixing" not in n],
    }
    optimizers = {name: torch.optim.AdamW(parameters) for name, parameters in used.items()}
    times = {name: [] for name in rivals}
    for repetition in range(repetitions + 1):
        for name, rival in rivals.items():
            seconds = seconds_of_a_step(rival, optimizers[name], u, z, grid)
            if repetition:
                times[name].append(seconds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = medians["literal"] / medians["ours"]
    kind = make.__name__
    print(f"{kind:6} ours {medians['ours']:.3f} s   literal {medians['literal']:.3f} s   ratio {ratio:.2f}", flush=True)
    return {"operator": kind, **medians, "ratio": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("points", 128), ("patches", 4), ("modes", 9), ("width", 64), ("layers", 4), ("batch", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
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
    print(f"one training step, batch {given.batch}, {given.points} x {given.points}, {torch.get_num_threads()} threads")
    rows = [compare(make, settings, given.points, given.batch, given.repetitions) for make in (FANO, ViTNO)]
    print(json.dumps({"settings": settings, "rows": rows}))


if __name__ == "__main__":
    main()
