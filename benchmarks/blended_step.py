"""What blending costs: training step and inference of the paper's ViTNO and FANO, hard patches beside blended ones.

    python benchmarks/blended_step.py [--scale paper|toy] [--operators ViTNO FANO] [--forms eager graphed full]
        [--overlap 0.25] [--batch 4] [--profile] [--out rows.json]

Lognormal Darcy flow at 416 x 416, 13 x 13 patches, width 128, 6 layers, 8 heads, a last layer of 64 modes. A step is
forward, relative H1 loss, backward and AdamW. Times are medians in ms per sample, and ratios are blended over hard.
"eager" and "graphed" average in float16, with products in TF32; "graphed" is compiled and launched as CUDA graphs, as
trainings are. "full" is float32 throughout. H1 is the relative H1 difference of one output from the same weights' in
float64. On a CPU nothing is graphed, and the toy scale is meant. One H200 needs less than two minutes, most of them for
compiling; rows are printed as they come.
"""

import argparse
import gc
import json
import statistics
import time
from pathlib import Path

import torch

from operformer import FANO, ViTNO, backend, set_precision
from operformer.domain.quadrature import h1_norm
from operformer.evaluation.loss import relative_h1
from operformer.operators.production import Graphed, compiled
from operformer.problems import Darcy
from operformer.runs.provenance import provenance
from operformer.training.normalisation import fit_normalisation
from operformer.training.update import GraphedPass

CLASSES = {"ViTNO": ViTNO, "FANO": FANO}
SETTINGS = {
    "paper": {"n_patches": (13, 13), "hidden_channels": 128, "n_layers": 6, "n_heads": 8, "last": 64},
    "toy": {"n_patches": (3, 3), "hidden_channels": 32, "n_layers": 2, "n_heads": 4, "last": 5},
}
MODES = {"paper": {"ViTNO": 12, "FANO": 9}, "toy": {"ViTNO": 3, "FANO": 3}}
RESOLUTION = {"paper": 416, "toy": 48}


def median_ms(action, repetitions):
    """After three calls that are not counted: the third records a graph."""
    times = []
    for _ in range(repetitions + 3):
        synchronise()
        started = time.perf_counter()
        action()
        synchronise()
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times[3:])


def synchronise():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def h1_difference(operator, samples, averages):
    """Of one output, from that of the same weights in float64."""
    u, grid = samples.u[:1], samples.grid
    with torch.no_grad():
        set_precision(operator.float(), averages)
        found = operator(u, grid).double()
        exact = set_precision(operator.double(), None)(u.double(), grid)
    set_precision(operator.float(), averages)
    return float(h1_norm(found - exact, grid) / h1_norm(exact, grid))


def measure(name, overlap, form, samples, given):
    """One row."""
    torch.manual_seed(0)
    on_gpu, averages = samples.u.is_cuda, None if form == "full" else torch.float16
    torch.set_float32_matmul_precision("highest" if form == "full" else "high")
    settings = SETTINGS[given.scale] | {"n_modes": MODES[given.scale][name], "overlap": overlap}
    operator = CLASSES[name](in_channels=1, out_channels=1, **settings).to(samples.u.device)
    fit_normalisation(operator, samples)
    row = {"operator": name, "overlap": overlap, "form": form}
    if form != "graphed":
        row["H1"] = h1_difference(operator, samples, averages)
    set_precision(operator, averages)
    row["backends"] = backend(operator, samples.grid)
    is_graphed = form == "graphed" and on_gpu
    run = Graphed(compiled(operator, dynamic=False)) if is_graphed else operator
    graphed = GraphedPass(operator, relative_h1, warm=1) if is_graphed else None
    optimizer = torch.optim.AdamW(operator.parameters(), 1e-4, fused=True)
    scale, batch = 4096.0 if averages else 1.0, samples[: given.batch]

    def step():
        if graphed is not None:
            graphed(batch, scale)
        else:
            (scale * relative_h1(run(batch.u, batch.grid), batch.z, batch.grid).mean()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=graphed is None)

    def infer():
        with torch.no_grad():
            run(batch.u, batch.grid)

    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    row["step ms"] = median_ms(step, given.repetitions) / len(batch)
    row["memory GiB"] = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None
    row["inference ms"] = median_ms(infer, given.repetitions) / len(batch)
    if given.profile and on_gpu:
        print("\n".join(profile(step)), flush=True)
    return row


def profile(step):
    """The kernels of a step, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        step()
        torch.cuda.synchronize()
    entries = sorted(found.key_averages(), key=lambda entry: -entry.self_device_time_total)[:20]
    return [f"  {entry.self_device_time_total / 1e3:8.3f} ms x{entry.count:<4d} {entry.key[:100]}" for entry in entries]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=list(SETTINGS), default="paper" if torch.cuda.is_available() else "toy")
    parser.add_argument("--operators", nargs="+", default=["ViTNO", "FANO"], choices=list(CLASSES))
    parser.add_argument("--forms", nargs="+", default=["eager", "graphed"], choices=["eager", "graphed", "full"])
    parser.add_argument("--overlap", type=float, default=0.25)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--profile", action="store_true", help="the kernels of each step")
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    samples = Darcy("lognormal").sample(max(given.batch, 8), RESOLUTION[given.scale], device=device)
    samples, rows = samples.to(dtype=torch.float32), []
    for form in given.forms:
        for name in given.operators:
            pair = []
            for overlap in (0.0, given.overlap):
                torch.compiler.reset()
                pair.append(measure(name, overlap, form, samples, given))
                print(
                    *(f"{k} {v:.4g} " if isinstance(v, float) else f"{k} {v} " for k, v in pair[-1].items()), flush=True
                )
                gc.collect()
            step, inference = (pair[1][key] / pair[0][key] for key in ("step ms", "inference ms"))
            print(f"{name}, {form}: blended over hard, step {step:.2f}, inference {inference:.2f}", flush=True)
            rows += pair
    if given.out:
        given.out.write_text(json.dumps({"made": provenance(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
