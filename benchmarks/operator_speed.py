"""Training step and inference of TNO, ViTNO and FANO at the paper's sizes, beside their literal forms: one table.

    python benchmarks/operator_speed.py [--scale toy|paper] [--operators TNO FANO] [--forms compiled eager literal]
        [--precisions full tf32 fp16] [--batch 0] [--out table.json]

A step is forward, relative H1 loss, backward and a fused AdamW; times are medians, per sample. "H1" is the relative
H1 difference of the output from float64's, on one Darcy coefficient. "floor" is the time that the counted operations
take at the card's peak plus that of moving the latent function: 4 passes forward and 6 backward in every layer, in
float32. Precisions: full is float32, tf32 lets matrix products round to TF32, fp16 rounds q, k, v in averages as well.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from operformer import FANO, TNO, ViTNO, set_precision
from operformer.domain.quadrature import h1_norm
from operformer.learning.loss import relative_h1
from operformer.operators.literal_patched import as_literal
from operformer.problems import Darcy

# Dense peak rates of one H200: operations per second in float32 and TF32 and half precision; bytes per second.
PEAK = {"full": 67e12, "tf32": 495e12, "fp16": 495e12}
BANDWIDTH = 4.8e12
WIDTH, LAYERS, HEADS = 128, 6, 8


def make(name, scale):
    """The operator, its resolution and a good batch size."""
    if scale == "toy":
        small = {"in_channels": 1, "out_channels": 1, "hidden_channels": 16, "n_layers": 2, "n_heads": 2}
        patched = {"n_patches": (2, 2), "n_modes": 3, "final_modes": 5, **small}
        sizes = {"TNO": (lambda: TNO(2, **small), 16, 2), "ViTNO": (lambda: ViTNO(**patched), 32, 2)}
        return (sizes | {"FANO": (lambda: FANO(**patched), 32, 2)})[name]
    size = {"in_channels": 1, "out_channels": 1, "hidden_channels": WIDTH, "n_layers": LAYERS, "n_heads": HEADS}
    return {
        "TNO": (lambda: TNO(2, **size), 64, 16),
        "ViTNO": (lambda: ViTNO((13, 13), 12, final_modes=64, **size), 416, 8),
        "FANO": (lambda: FANO((13, 13), 9, final_modes=64, **size), 416, 8),
    }[name]


def build(name, form, scale, device):
    maker, resolution, batch = make(name, scale)
    torch.manual_seed(0)
    operator = maker().to(device)
    if form == "literal":
        if name == "TNO":
            return None, resolution, batch
        return as_literal(operator, stores_complex=True).to(device), resolution, 2 if scale == "paper" else batch
    return operator, resolution, batch


def set_products(precision):
    torch.backends.cuda.matmul.allow_tf32 = precision != "full"
    torch.backends.cudnn.allow_tf32 = precision != "full"


def median_time(action, device, repetitions):
    times = []
    for repetition in range(repetitions + 3):
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        action()
        if device == "cuda":
            torch.cuda.synchronize()
        if repetition >= 3:
            times.append(time.perf_counter() - started)
    return statistics.median(times)


def floor(operator, u, grid, precision):
    """Seconds for one sample: operations at the peak rate, and the passes over the latent function."""
    with FlopCounterMode(display=False) as counter:
        operator(u[:1], grid).sum().backward()
    operator.zero_grad()
    points, width, layers = u[0, 0].numel(), operator.settings["hidden_channels"], operator.settings["n_layers"]
    moved = 10 * layers * points * width * 4
    return counter.get_total_flops() / PEAK[precision] + moved / BANDWIDTH


def h1_difference(operator, u, grid):
    """Relative H1 difference of the output from that of the same weights in float64."""
    with torch.no_grad():
        found = operator(u[:1], grid).double()
        exact = operator.double()(u[:1].double(), grid)
        operator.float()
    return float(h1_norm(found - exact, grid) / h1_norm(exact, grid))


def measure(name, form, precision, arguments):
    device = arguments.device
    operator, resolution, batch = build(name, form, arguments.scale, device)
    if operator is None:
        return None
    batch = arguments.batch or batch
    set_products(precision)
    pairs = Darcy("lognormal").sample(batch, resolution, device=device).to(dtype=torch.float32)
    u, z, grid = pairs.u, pairs.z, pairs.grid
    row = {"operator": name, "form": form, "precision": precision, "batch": batch}
    if form != "literal":
        set_precision(operator, torch.float16 if precision == "fp16" else None)
        row["floor ms"] = 1e3 * floor(operator, u, grid, precision)
        row["H1"] = h1_difference(operator, u, grid)
    run = torch.compile(operator) if form == "compiled" else operator
    fused = form != "literal"
    optimizer = torch.optim.AdamW(operator.parameters(), 1e-4, fused=fused)

    def step():
        relative_h1(run(u, grid), z, grid).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    def infer():
        with torch.no_grad():
            run(u, grid)

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = median_time(step, device, arguments.repetitions)
    row["step ms"] = 1e3 * seconds / batch
    row["samples/s"] = batch / seconds
    row["memory GiB"] = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")
    row["inference ms"] = 1e3 * median_time(infer, device, arguments.repetitions) / batch
    if arguments.profile and form == "compiled":
        profile(step, f"{name}, {form}, {precision}")
    return row


def profile(step, title):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        step()
        torch.cuda.synchronize()
    print(title)
    entries = sorted(found.key_averages(), key=lambda entry: -entry.self_device_time_total)
    total = sum(entry.self_device_time_total for entry in entries)
    for entry in entries[:25]:
        share = entry.self_device_time_total / total
        print(f"  {share:6.1%} {entry.self_device_time_total / 1e3:8.3f} ms x{entry.count:<4d} {entry.key[:110]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=["toy", "paper"], default="paper")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--operators", nargs="+", default=["TNO", "ViTNO", "FANO"])
    parser.add_argument("--forms", nargs="+", default=["compiled", "eager", "literal"])
    parser.add_argument("--precisions", nargs="+", default=["full", "tf32", "fp16"])
    parser.add_argument("--batch", type=int, default=0, help="0 is each operator's own")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--profile", action="store_true", help="the kernels of a compiled step")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.operators:
        for form in arguments.forms:
            for precision in arguments.precisions if form != "literal" else ["full"]:
                torch.compiler.reset()
                row = measure(name, form, precision, arguments)
                if row is not None:
                    rows.append(row)
                    print(
                        "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()),
                        flush=True,
                    )
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
