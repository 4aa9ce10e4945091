"""Inference of TNO, ViTNO and FANO on a CPU beside their literal forms, in one run.

    python benchmarks/cpu_inference.py [--cases TNO-32 TNO-64 ViTNO-13 FANO-13 ViTNO-4 FANO-4] [--width 128]
        [--layers 6] [--repetitions 5] [--compile] [--processor] [--profile] [--out table.json]

TNO-64 is a TNO on 64 x 64 nodes, whose weights differ; FANO-13 has 13 x 13 patches on 104 x 104 cells. Float32,
one sample. Literal forms: scores of all pairs of points for the TNO, FFTs and scores over points for the others. Times
are medians of calls that take turns; "ratio" is how many times as fast as the literal form ours is; "difference" is the
largest one between them, relative to the largest value.
"""

import argparse
import json
import statistics
import time
from copy import deepcopy
from pathlib import Path

import torch
from literal_forms import as_literal
from torch import nn

from operformer import FANO, TNO, Grid, ViTNO


class EagerAttention(nn.Module):
    """softmax(scale Q K^T + log w) V with all scores in memory, as Appendix B.1 writes it, in the dtype of v."""

    def __init__(self, original):
        super().__init__()
        self.original = original

    def forward(self, v, log_weights, source=None):
        """Self-attention of v (batch, n, c)."""
        a = self.original
        parts = (t.unflatten(-1, (a.n_heads, -1)).transpose(1, 2) for t in (a.query(v), a.key(v), a.value(v)))
        query, key, value = parts
        scores = a.scale * (query @ key.transpose(-1, -2))
        if log_weights is not None:
            scores = scores + log_weights.to(scores.dtype)
        return a.merge((torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2))


def literal(operator):
    if not isinstance(operator, TNO):
        return as_literal(operator, stores_complex=True)
    copy = deepcopy(operator)
    for layer in copy.network.layers:
        layer.attention = EagerAttention(layer.attention)
    return copy


def make(case, arguments):
    """The operator, a grid, and a smooth function on it."""
    name, number = case.split("-")
    size = {"in_channels": 1, "out_channels": 1, "hidden_channels": arguments.width, "n_layers": arguments.layers}
    torch.manual_seed(0)
    if name == "TNO":
        operator, grid = TNO(2, **size), Grid.uniform((int(number), int(number)))
    else:
        # 8 points resolve 4 modes; 26 resolve those of the paper.
        n_modes = 4 if int(number) == 13 else {"ViTNO": 12, "FANO": 9}[name]
        kind = {"ViTNO": ViTNO, "FANO": FANO}[name]
        operator = kind((int(number), int(number)), n_modes, last=arguments.last or None, overlap=0, **size)
        grid = Grid.uniform((104, 104), kind="cells")
    x = grid.points.float()
    return operator.eval(), grid, (torch.sin(6 * x[..., 0] * x[..., 1]) + torch.cos(5 * x[..., 0]))[None, None]


def measure(case, arguments):
    operator, grid, u = make(case, arguments)
    forms = {"ours": operator, "literal": literal(operator)}
    if arguments.compile:
        forms["ours, compiled"] = torch.compile(operator)
    clock = time.process_time if arguments.processor else time.perf_counter
    times = {name: [] for name in forms}
    with torch.no_grad():
        outputs = {name: form(u, grid) for name, form in forms.items()}
        for _ in range(arguments.repetitions):
            for name, form in forms.items():
                started = clock()
                form(u, grid)
                times[name].append(1e3 * (clock() - started))
        if arguments.profile:
            profile(case, operator, u, grid)
    medians = {name: statistics.median(values) for name, values in times.items()}
    row = {"case": case} | {f"{name} ms": value for name, value in medians.items()}
    row |= {f"ratio, {name}": medians["literal"] / medians[name] for name in forms if name != "literal"}
    difference = (outputs["ours"] - outputs["literal"]).abs().max() / outputs["literal"].abs().max()
    row["difference"] = float(difference)
    print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
    return row


def profile(case, operator, u, grid):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        operator(u, grid)
    entries = sorted(found.key_averages(), key=lambda entry: -entry.self_cpu_time_total)
    total = sum(entry.self_cpu_time_total for entry in entries)
    print(f"{case}: where the time of ours goes")
    for entry in entries[:12]:
        share = entry.self_cpu_time_total / total
        print(f"  {share:6.1%} {entry.self_cpu_time_total / 1e3:9.2f} ms x{entry.count:<4d} {entry.key}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cases = ["TNO-32", "TNO-64", "ViTNO-13", "FANO-13", "ViTNO-4", "FANO-4"]
    parser.add_argument("--cases", nargs="+", choices=cases, default=cases)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--last", type=int, default=32, help="of the last layer of ViTNO and FANO; 0 is without")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="ours by torch.compile as well")
    parser.add_argument("--processor", action="store_true", help="its time, on a CPU that does other things as well")
    parser.add_argument("--profile", action="store_true", help="the operations of one call")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    print(f"inference, float32, one sample, width {arguments.width}, {torch.get_num_threads()} threads")
    rows = [measure(case, arguments) for case in arguments.cases]
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
