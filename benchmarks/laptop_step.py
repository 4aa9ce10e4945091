"""A training step on a CPU: a TNO with averages as sources and other operators beside neuraloperator's FNO.

    python benchmarks/laptop_step.py [--points 64] [--batch 4] [--sources 64 256] [--threads 2] [--repetitions 9]
        [--full] [--out table.json]

Forward, relative L2 loss, backward and AdamW, in float32; width 32, 4 layers, 12 modes, 4 heads, 4 x 4 patches. The
operators take turns, so that what else the machine does meets all of them. "ms" is the least wall time of a step,
"CPU ms" the least time that the processor was busy with it; "to FNO" is the ratio of the latter. --full adds attention
to all points.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import torch

from operformer import FANO, TNO, Grid, SpectralOperator, ViTNO
from operformer.evaluation.loss import relative_l2
from operformer.runs.provenance import provenance
from operformer.sharing.neuralop import UniformOnly

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from neuralop.models import FNO

SIZE = {"in_channels": 1, "out_channels": 1, "hidden_channels": 32, "n_layers": 4}


def operators(arguments):
    """Those that are compared, by name."""
    patched = {"n_patches": (4, 4), "n_modes": 8, "n_heads": 4, **SIZE}
    found = {"FNO": UniformOnly(FNO((12, 12), **SIZE)), "SpectralOperator": SpectralOperator((12, 12), **SIZE)}
    found |= {"FANO": FANO(**patched), "ViTNO": ViTNO(**patched)}
    for most in (*arguments.sources, *([None] if arguments.full else [])):
        found[f"TNO, {most or 'all'} sources"] = TNO(2, **SIZE, n_heads=arguments.heads, sources=most)
    return found


def stepper(operator, u, z, grid):
    optimizer = torch.optim.AdamW(operator.parameters(), 1e-4)

    def step():
        relative_l2(operator(u, grid), z, grid).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sources", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--full", action="store_true", help="attention to all points, too")
    parser.add_argument("--profile", action="store_true", help="what a step of each TNO spends its time on")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    grid = Grid.uniform((arguments.points,) * 2, kind="cells")
    u, z = torch.randn(2, arguments.batch, 1, *grid.shape)
    steps = {name: stepper(operator, u, z, grid) for name, operator in operators(arguments).items()}
    walls, busy = ({name: [] for name in steps} for _ in range(2))
    for repetition in range(arguments.repetitions + 1):
        for name, step in steps.items():
            wall, cpu = time.perf_counter(), time.process_time()
            step()
            if repetition:
                walls[name].append(1e3 * (time.perf_counter() - wall))
                busy[name].append(1e3 * (time.process_time() - cpu))
    rows, reference = [], min(busy["FNO"])
    for name in steps:
        least = min(busy[name])
        rows.append({"operator": name, "ms": min(walls[name]), "CPU ms": least, "to FNO": least / reference})
    for row in rows:
        print(f"{row['operator']:20} {row['ms']:8.1f} ms {row['CPU ms']:8.1f} CPU ms {row['to FNO']:6.2f} to FNO")
    if arguments.profile:
        for name in steps:
            if name.startswith("TNO"):
                profile(steps[name], name)
    if arguments.out:
        settings = {name: value for name, value in vars(arguments).items() if name != "out"}
        text = json.dumps({"made": provenance(), "settings": settings, "rows": rows}, indent=2)
        arguments.out.write_text(text + "\n")


def profile(step, title):
    """The operations that take most of a step."""
    with torch.profiler.profile() as found:
        step()
    print(title)
    entries = sorted(found.key_averages(), key=lambda entry: -entry.self_cpu_time_total)
    total = sum(entry.self_cpu_time_total for entry in entries)
    for entry in entries[:15]:
        print(f"  {entry.self_cpu_time_total / total:6.1%} x{entry.count:<4d} {entry.key[:80]}")


if __name__ == "__main__":
    main()
