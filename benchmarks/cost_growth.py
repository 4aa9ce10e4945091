"""How time and memory grow: fitted exponents in points, patches and width, for TNO, ViTNO and FANO.

    python benchmarks/cost_growth.py [--scale toy|paper] [--operators TNO TNO-sources ViTNO FANO] [--axes 64 128 256]
        [--patches 4 8 16] [--widths 64 128 256] [--repetitions 3] [--precision tf32] [--out growth.json]

Time and peak memory of inference and of a training step (forward, mean square, backward; no optimizer), for one sample
or ``--batch`` of them. Three studies: points along each axis with the patches fixed, so that N grows fourfold for
twice as many; patches along each axis at a fixed resolution; width. An exponent p says that twice as much costs 2^p
times; it is the slope of least squares in log-log over the last three values. Memory is CUDA's peak; on a CPU there is
time only. On a GPU actions are recorded as CUDA graphs, so that small sizes do not show how fast a CPU launches; memory
is that of the calls before. What does not fit into memory is said and left out, and so is all that is larger.
TNO-sources attends to averages over ``--sources`` cells; the plain TNO is measured up to ``--longest`` seconds for
a call.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from operformer import FANO, TNO, Grid, ViTNO, set_precision
from operformer.kernels.recording import CudaGraphs
from operformer.runs.provenance import provenance

OPERATORS = ["TNO", "TNO-sources", "ViTNO", "FANO"]


@dataclass(frozen=True)
class Size:
    """What a study changes one by one: points, patches along each axis, and the width."""

    points: int
    patches: int
    width: int


def make(name, size, arguments):
    network = {"in_channels": 1, "out_channels": 1, "hidden_channels": size.width, "n_layers": arguments.layers}
    torch.manual_seed(0)
    if name.startswith("TNO"):
        sources = arguments.sources if name == "TNO-sources" else None
        return TNO(2, **network, n_heads=arguments.heads, sources=sources)
    kind = {"ViTNO": ViTNO, "FANO": FANO}[name]
    return kind((size.patches, size.patches), arguments.modes, **network, n_heads=arguments.heads, overlap=0)


def measure(name, size, arguments):
    """Medians and peaks of inference and of a step, or None where memory does not suffice."""
    device = arguments.device
    grid = Grid.uniform((size.points, size.points), kind="cells").to(device)
    x = grid.points.float()
    u = (torch.sin(6 * x[..., 0] * x[..., 1]) + torch.cos(5 * x[..., 0])).expand(arguments.batch, 1, -1, -1)
    held = 0
    if device == "cuda":
        _multiply_once()
        held = torch.cuda.memory_allocated()  # by workspaces, and by graphs of sizes before
    try:
        operator = make(name, size, arguments).to(device)
        set_precision(operator, torch.float16 if arguments.precision == "fp16" else None)

        def infer():
            with torch.no_grad():
                return operator(u, grid)

        def step():
            loss = operator(u, grid).square().mean()
            loss.backward()
            return loss.detach()

        row = {"operator": name, "points": size.points**2, "patches": size.patches**2, "width": size.width}
        for what, action in (("inference", infer), ("step", step)):
            row[f"{what} ms"], row[f"{what} GiB"] = timed(action, operator, arguments, held)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        print(f"{name:12s} {size}: out of memory, left out", flush=True)
        return None
    finally:
        operator = None
        if device == "cuda":
            torch.cuda.empty_cache()
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
    numbers = "  ".join(f"{key} {value}" for key, value in shown.items() if key != "operator" and value is not None)
    print(f"{name:12s} {numbers}", flush=True)
    return row


def _multiply_once():
    """Products of both precisions there and back, whose workspaces stay and are not an operator's."""
    for dtype in (torch.float32, torch.float16):
        matrix = torch.ones(64, 64, device="cuda", dtype=dtype, requires_grad=True)
        (matrix @ matrix).sum().backward()


def timed(action, operator, arguments, held):
    """Median of milliseconds, and the peak of GiB above ``held`` bytes, of one call; the first is not counted."""
    times, memory, on_gpu = [], None, arguments.device == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        action()
        memory = (torch.cuda.max_memory_allocated() - held) / 2**30
        action = CudaGraphs(list(operator.parameters()))(action)
    clock = time.process_time if arguments.processor else time.perf_counter
    for repetition in range(arguments.repetitions + 1):
        if on_gpu:
            torch.cuda.synchronize()
        started = clock()
        action()
        if on_gpu:
            torch.cuda.synchronize()
        elapsed = clock() - started
        if repetition:
            times.append(elapsed)
        if elapsed > arguments.longest / 2 and times:
            break
    return 1e3 * statistics.median(times), memory


def study(name, variable, sizes, arguments):
    """The rows of one operator in one variable, from small to large, as long as memory and patience last."""
    rows = []
    for size in sizes:
        row = measure(name, size, arguments)
        if row is None:
            break
        rows.append(row)
        # Twice as many points along an axis may cost sixteen times as much.
        if 16e-3 * row["step ms"] > arguments.longest and variable == "points":
            print(f"{name:12s} is left here: the next step would take more than {arguments.longest:g} s", flush=True)
            break
    return {"operator": name, "variable": variable, "rows": rows, "exponents": exponents(rows, variable)}


def exponents(rows, variable, last=3):
    """The slopes in log-log over the last rows, for every column that was measured."""
    if len(rows) < 2:
        return {}
    used = rows[-last:]
    found = {}
    for column in ("inference ms", "inference GiB", "step ms", "step GiB"):
        values = [row[column] for row in used]
        if None not in values:
            found[column] = float(np.polyfit(np.log([row[variable] for row in used]), np.log(values), 1)[0])
    return found


def sizes_of(variable, arguments):
    """The sizes of a study: one thing grows, the others stay."""
    axes, patches, width = arguments.axes, arguments.patches[0], arguments.widths[0]
    middle, second = axes[len(axes) // 2], axes[min(1, len(axes) - 1)]
    if variable == "points":
        return [Size(n, patches, width) for n in axes]
    if variable == "patches":
        return [Size(middle, p, width) for p in arguments.patches if middle % p == 0]
    return [Size(second, patches, w) for w in arguments.widths]


def report(studies):
    print("\nexponents: cost ~ variable^p, least squares over the last three values")
    for one in studies:
        named = ((column.replace("ms", "time").replace("GiB", "memory"), p) for column, p in one["exponents"].items())
        fits = "  ".join(f"{column} {p:.2f}" for column, p in named)
        print(f"{one['operator']:12s} in {one['variable']:8s} {fits or 'too few values'}")


SCALES = {
    "toy": {"axes": [16, 32, 64], "patches": [2, 4], "widths": [16, 32, 64], "layers": 2, "modes": 3, "sources": 64},
    "paper": {
        "axes": [64, 128, 256, 512, 1024],
        "patches": [4, 8, 16, 32],
        "widths": [128, 256, 512],
        "layers": 6,
        "modes": 4,
        "sources": 1024,
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=list(SCALES), default="paper" if torch.cuda.is_available() else "toy")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--operators", nargs="+", choices=OPERATORS, default=OPERATORS)
    parser.add_argument("--variables", nargs="+", choices=["points", "patches", "width"])
    parser.add_argument("--axes", type=int, nargs="+", help="points along each axis")
    parser.add_argument("--patches", type=int, nargs="+", help="along each axis; the other studies have the first")
    parser.add_argument("--widths", type=int, nargs="+", help="the other studies have the first")
    for name in ("layers", "modes", "sources"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--longest", type=float, default=5.0, help="seconds that one step may take")
    parser.add_argument("--precision", choices=["full", "tf32", "fp16"], default="fp16", help="on a GPU")
    parser.add_argument("--processor", action="store_true", help="its time, on a CPU that does other things as well")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    for name, value in SCALES[arguments.scale].items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.device == "cpu":
        arguments.precision = "full"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.precision != "full"
    studies = []
    for variable in arguments.variables or ["width", "patches", "points"]:  # the longest at the end
        for name in arguments.operators:
            if variable != "patches" or name in ("ViTNO", "FANO"):
                studies.append(study(name, variable, sizes_of(variable, arguments), arguments))
                keep(studies, arguments)
    report(studies)


def keep(studies, arguments):
    if arguments.out:
        settings = {name: value for name, value in vars(arguments).items() if name != "out"}
        values = {"made": provenance(), "settings": settings, "studies": studies}
        arguments.out.write_text(json.dumps(values, indent=2) + "\n")


if __name__ == "__main__":
    main()
