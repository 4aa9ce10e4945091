"""A second call on a grid builds nothing: inference with the same grid again beside a new, equal one at each call.

    python benchmarks/second_call.py [--before REV] [--processes 5] [--width 32] [--layers 4] [--repetitions 51]
        [--processor] [--out table.json]

An operator makes a partition, basis values and matrices of a grid. "same grid" passes one `Grid` to all calls, so that
they are there from the second call on. "new grid" passes a freshly made, equal `Grid` to each call, so that they are
made each time; making the `Grid` itself is not timed. ViTNO and FANO have 4 x 4 patches on 64 x 64 cells, the TNO
16 x 16 nodes. Float32, one sample, on a GPU if there is one. Times are medians of calls that take turns, in ms; "ratio"
is new over same. With --before, "before" is the time with the same grid in the package of an earlier git revision, and
"before ratio" is before over same. Both packages then run in several processes, which take turns, and times are medians
over those: two processes with the same code can differ by a fifth. "--before HEAD" shows how much is left of that.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch

from operformer import FANO, TNO, Grid, ViTNO

ROOT = Path(__file__).resolve().parents[1]
CASES = ("TNO", "ViTNO", "FANO")


def make(case, arguments, device):
    """The operator, and how to make its grid."""
    size = {"in_channels": 1, "out_channels": 1, "hidden_channels": arguments.width, "n_layers": arguments.layers}
    torch.manual_seed(0)
    if case == "TNO":
        return TNO(dim=2, **size).to(device).eval(), lambda: Grid.uniform((16, 16)).to(device)
    operator = {"ViTNO": ViTNO, "FANO": FANO}[case](n_patches=(4, 4), n_modes=6, overlap=0, **size)
    return operator.to(device).eval(), lambda: Grid.uniform((64, 64), kind="cells").to(device)


def milliseconds(operator, u, grid, arguments):
    clock = time.process_time if arguments.processor else time.perf_counter
    synchronise = torch.cuda.synchronize if u.is_cuda else lambda: None
    synchronise()
    started = clock()
    operator(u, grid)
    synchronise()
    return 1e3 * (clock() - started)


def measure(case, arguments, device):
    """Medians with the same grid and with new ones."""
    operator, new_grid = make(case, arguments, device)
    same = new_grid()
    u = torch.rand(1, 1, *same.shape, device=device)
    times = {"same grid": [], "new grid": []}
    with torch.no_grad():
        for _ in range(3):
            operator(u, same)
        for turn in range(arguments.repetitions):
            pairs = [("same grid", same), ("new grid", new_grid())]
            for name, grid in pairs if turn % 2 else reversed(pairs):
                times[name].append(milliseconds(operator, u, grid, arguments))
    return {name: statistics.median(values) for name, values in times.items()}


def measure_beside(arguments):
    """The medians of this package and of an earlier one, over processes that take turns; without the earlier, {}."""
    sys.path.insert(0, str(ROOT / ".ci"))
    from earlier import run_with, tree_at

    options = [f"--{name}={getattr(arguments, name)}" for name in ("width", "layers", "repetitions")]
    options += ["--json"] + ["--processor"] * arguments.processor
    with tree_at(arguments.before) as tree:
        if tree is None:
            return {}, {}
        turns = [
            [json.loads(run_with(t, __file__, *options)) for t in (ROOT, tree)] for _ in range(arguments.processes)
        ]
    return (medians_over(processes) for processes in zip(*turns, strict=True))


def medians_over(processes):
    """The median of each time over several processes."""
    names = ("same grid", "new grid")
    return {case: {name: statistics.median(p[case][name] for p in processes) for name in names} for case in CASES}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REV", help="a git revision to compare with, such as 17ed50f")
    parser.add_argument("--processes", type=int, default=5, help="of each package, with --before")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=51)
    parser.add_argument("--processor", action="store_true", help="its time, on a CPU that does other things as well")
    parser.add_argument("--json", action="store_true", help="only print the times, as JSON")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows, before = measure_beside(arguments) if arguments.before else ({}, {})
    rows = rows or {case: measure(case, arguments, device) for case in CASES}
    if arguments.json:
        print(json.dumps(rows))
        return
    threads = f", {torch.get_num_threads()} threads" if device.type == "cpu" else ""
    print(f"inference, float32, one sample, width {arguments.width}, {arguments.layers} layers, {device}{threads}")
    for case, row in rows.items():
        row["ratio"] = row["new grid"] / row["same grid"]
        if case in before:
            row["before"] = before[case]["same grid"]
            row["before ratio"] = row["before"] / row["same grid"]
        print(f"{case:<6}" + "".join(f"  {name} {value:8.2f}" for name, value in row.items()), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
