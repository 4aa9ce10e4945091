"""Training step and inference at the paper's sizes: TNO, ViTNO, FANO, FNO, AFNO and their literal forms.

    python benchmarks/operator_speed.py [--scale toy|paper] [--operators TNO FANO FNO] [--forms compiled eager literal]
        [--precisions full tf32 fp16] [--batch 0] [--steps 0] [--together] [--out table.json]

A step is forward, relative H1 loss, backward and AdamW; times are medians, per sample. "H1" is the relative H1
difference of the output from float64's, on a Darcy coefficient, the operator normalised as for a training. "floor" is
the time that the counted operations take at the card's peak plus that of moving the latent function: 4 passes forward
and 6 backward in every layer, in float32. Precisions: full is float32, tf32 lets matrix products round to TF32, fp16
rounds what is averaged as well and uses the fused kernels. Forms: "graphed" is compiled and launched as a CUDA graph,
in fp16; "literal" of the FNO is neuraloperator's own forward pass, by FFTs, whose convolutions round to TF32 in any
precision, torch's default on a GPU; that of the AFNO is in complex numbers. FNO and AFNO average nothing, so tf32 is
their last precision. Batches of the large grids are of 16, of 8 in the wider precisions and of 2 in the literal forms
of attention, for want of memory; AFNO's are half as large. AFNO's floor has no FFTs and counts products with zeros.
With --steps each row trains for so many steps on 64 pairs instead and prints the mean of the last losses. With
--together each operator has a process of its own for that; what is timed is compiled side by side before, and then
found in the compiler's cache.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from literal_forms import as_literal, as_literal_afno, as_literal_fno
from torch.utils.flop_counter import FlopCounterMode

from operformer import FANO, TNO, ViTNO, set_precision
from operformer.domain.quadrature import h1_norm
from operformer.evaluation.loss import relative_h1
from operformer.operators.attention import MultiHeadAttention
from operformer.operators.baselines import AFNO, FNO
from operformer.operators.production import Graphed, compiled
from operformer.problems import Darcy
from operformer.runs.provenance import provenance
from operformer.training.normalisation import fit_normalisation
from operformer.training.update import GraphedPass

# Dense peak rates of one H200: operations per second in float32 and TF32 and half precision; bytes per second.
PEAK = {"full": 67e12, "tf32": 495e12, "fp16": 495e12}
BANDWIDTH = 4.8e12
WIDTH, LAYERS, HEADS = 128, 6, 8
BASELINES = {"FNO": as_literal_fno, "AFNO": as_literal_afno}


def make(name, scale):
    """How to make the operator, its resolution and a good batch size."""
    if scale == "toy":
        small = {"in_channels": 1, "out_channels": 1, "hidden_channels": 32, "n_layers": 2, "n_heads": 2}
        patched = {"n_patches": (2, 2), "n_modes": 3, "last": 5, "overlap": 0, **small}
        return {
            "TNO": (lambda: TNO(2, **small), 16, 2),
            "ViTNO": (lambda: ViTNO(**patched), 32, 2),
            "FANO": (lambda: FANO(**patched), 32, 2),
            "FNO": (lambda: FNO(2, 1, 1, hidden_channels=16), 32, 2),
            "AFNO": (lambda: AFNO((32, 32), 1, 1, hidden_channels=16), 32, 2),
        }[name]
    size = {"in_channels": 1, "out_channels": 1, "hidden_channels": WIDTH, "n_layers": LAYERS, "n_heads": HEADS}
    return {
        "TNO": (lambda: TNO(2, **size), 64, 16),
        "ViTNO": (lambda: ViTNO((13, 13), 12, last=64, overlap=0, **size), 416, 16),
        "FANO": (lambda: FANO((13, 13), 9, last=64, overlap=0, **size), 416, 16),
        "FNO": (lambda: FNO(2, 1, 1), 416, 16),
        "AFNO": (lambda: AFNO((416, 416), 1, 1), 416, 8),
    }[name]


class LiteralAttention(MultiHeadAttention):
    """All n x n scores in memory, as the authors compute them."""

    def forward(self, v, log_weights, source=None):
        """Attention of v to itself."""
        query, key, value = (self._split(t) for t in (self.query(v), self.key(v), self.value(v)))
        scores = self.scale * query @ key.transpose(-1, -2)
        scores = scores if log_weights is None else scores + log_weights.to(scores)
        return self.merge((torch.softmax(scores, -1) @ value).transpose(-3, -2).flatten(-2))


def literal(name, operator):
    if name in BASELINES:
        return BASELINES[name](operator)
    if name != "TNO":
        return as_literal(operator, stores_complex=True)
    for layer in operator.network.layers:
        layer.attention.__class__ = LiteralAttention
    return operator


def set_products(precision):
    torch.set_float32_matmul_precision("highest" if precision == "full" else "high")


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


def h1_difference(operator, pairs, precision):
    """Relative H1 difference of the output from that of the same weights in float64."""
    u, grid = pairs.u[:1], pairs.grid
    with torch.no_grad():
        exact = operator.double()(u.double(), grid)
        set_precision(operator.float(), torch.float16 if precision == "fp16" else None)
        found = operator(u, grid).double()
    return float(h1_norm(found - exact, grid) / h1_norm(exact, grid))


def measure(name, form, precision, arguments, known):
    maker, resolution, batch = make(name, arguments.scale)
    device = arguments.device
    torch.manual_seed(0)
    operator = maker().to(device)
    if form == "literal" and name not in BASELINES:
        batch = min(batch, 2)
    elif resolution > 64 and precision != last_precision(name):
        batch //= 2  # functions take twice the memory
    batch = arguments.batch or batch
    set_products(precision)
    pairs = Darcy("lognormal").sample(max(batch, 16), resolution, device=device).to(dtype=torch.float32)
    fit_normalisation(operator, pairs)
    pairs = pairs[:batch]
    u, z, grid = pairs.u, pairs.z, pairs.grid
    row = {"operator": name, "form": form, "precision": precision, "batch": batch}
    if form == "literal":
        operator = literal(name, operator).to(device)
    else:
        if (name, precision) not in known and not arguments.rehearse:
            found = {"floor ms": 1e3 * floor(operator, u, grid, precision)}
            known[name, precision] = found | {"H1": h1_difference(operator, pairs, precision)}
        row |= known.get((name, precision), {})
        set_precision(operator.float(), torch.float16 if precision == "fp16" else None)
    fast = compiled(operator, dynamic=False)
    run = {"compiled": fast, "graphed": Graphed(fast)}.get(form, operator)
    graphed = GraphedPass(operator, relative_h1, warm=1) if form == "graphed" else None
    optimizer = torch.optim.AdamW(operator.parameters(), 1e-4, fused=form != "literal")
    scale = 4096.0 if precision == "fp16" else 1.0

    def step():
        if graphed is not None:
            graphed(pairs, scale)
        else:
            (scale * relative_h1(run(u, grid), z, grid).mean()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=graphed is None)

    def infer():
        with torch.no_grad():
            run(u, grid)

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(2):  # which compile
        step()
    infer()
    if arguments.rehearse:
        return row
    seconds = median_time(step, device, arguments.repetitions)
    row["step ms"] = 1e3 * seconds / batch
    row["samples/s"] = batch / seconds
    row["memory GiB"] = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
    row["inference ms"] = 1e3 * median_time(infer, device, arguments.repetitions) / batch
    if arguments.profile and precision == last_precision(name):
        profile(step, f"{name}, {form}, {precision}")
    return row


def train(name, form, precision, arguments):
    """The mean H1 loss of the last tenth of so many steps, from the same weights and batches in every form."""
    maker, resolution, _ = make(name, arguments.scale)
    batch, device = 2, arguments.device
    torch.manual_seed(0)
    operator = maker().to(device)
    set_products(precision)
    pairs = Darcy("lognormal").sample(64, resolution, device=device).to(dtype=torch.float32)
    fit_normalisation(operator, pairs)
    if form == "literal":
        operator = literal(name, operator).to(device)
    else:
        set_precision(operator, torch.float16 if precision == "fp16" else None)
    optimizer = torch.optim.AdamW(operator.parameters(), 2e-4)
    scale = 4096.0 if precision == "fp16" else 1.0
    losses = []
    for number in range(arguments.steps):
        first = batch * number % len(pairs)
        some = pairs[first : first + batch]
        loss = relative_h1(operator(some.u, some.grid), some.z, some.grid).mean()
        (scale * loss).backward()
        for parameter in operator.parameters():
            if parameter.grad is not None:
                parameter.grad /= scale
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return float(torch.stack(losses[-max(1, arguments.steps // 10) :]).mean())


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


def forms_of(arguments):
    """Those of the forms asked for that there are: graphs are CUDA's and for timing."""
    absent = {"graphed": arguments.device == "cpu" or bool(arguments.steps), "compiled": bool(arguments.steps)}
    if arguments.rehearse:
        absent |= {"graphed": True, "eager": True, "literal": True}
    return [form for form in arguments.forms if not absent.get(form)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=["toy", "paper"], default="paper")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--operators", nargs="+", default=["TNO", "ViTNO", "FANO", "FNO", "AFNO"])
    parser.add_argument("--forms", nargs="+", default=["graphed", "compiled", "eager", "literal"])
    parser.add_argument("--precisions", nargs="+", default=["full", "tf32", "fp16"])
    parser.add_argument("--batch", type=int, default=0, help="0 is each operator's own")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--steps", type=int, default=0, help="train for so many steps in place of timing")
    parser.add_argument("--profile", action="store_true", help="the kernels of a compiled step")
    parser.add_argument("--together", action="store_true", help="compile side by side, in several processes")
    parser.add_argument("--rehearse", action="store_true", help="compile, so that the next run finds it in its cache")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.together and arguments.steps:
        return keep(side_by_side(arguments), arguments.out)
    if arguments.together:
        side_by_side(arguments, "--rehearse")
    rows = []
    for row in rows_of(arguments):
        rows.append(row)
        if not arguments.rehearse:
            told = (
                f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
            )
            print("  ".join(told), flush=True)
        keep(rows, arguments.out)
    return None


def keep(rows, path):
    if path:
        path.write_text(json.dumps({"made": provenance(), "rows": rows}, indent=2) + "\n")


def rows_of(arguments):
    """One row after the other; of what is not possible, such as for want of memory, the reason."""
    known = {}
    for name in arguments.operators:
        for form in forms_of(arguments):
            for precision in precisions_of(name, form, arguments):
                row = {"operator": name, "form": form, "precision": precision}
                torch.compiler.reset()
                try:
                    if arguments.steps:
                        row[f"H1 loss at {arguments.steps}"] = train(name, form, precision, arguments)
                    else:
                        row |= measure(name, form, precision, arguments, known)
                except RuntimeError as failure:
                    row["failed"] = str(failure).splitlines()[0][:200]
                gc.collect()
                if arguments.device == "cuda":
                    torch.cuda.empty_cache()
                yield row


def precisions_of(name, form, arguments):
    """Literal forms are the authors', in float32; graphs are for the precision that trainings use."""
    last = last_precision(name)
    asked = [precision for precision in arguments.precisions if precision != "fp16" or last == "fp16"]
    return {"literal": ["full"], "graphed": [last]}.get(form, asked)


def last_precision(name):
    return "tf32" if name in BASELINES else "fp16"


def side_by_side(arguments, *more):
    """The rows of all operators, each from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tables = {name: Path(folder) / f"{name}.json" for name in arguments.operators}
        given = ["--forms", *arguments.forms, "--precisions", *arguments.precisions, *more]
        for option in ("scale", "device", "batch", "repetitions", "steps"):
            given += [f"--{option}", str(getattr(arguments, option))]
        started = [
            subprocess.Popen([sys.executable, __file__, "--operators", name, "--out", str(path), *given])
            for name, path in tables.items()
        ]
        for process in started:
            process.wait()
        return [row for path in tables.values() if path.is_file() for row in json.loads(path.read_text())["rows"]]


if __name__ == "__main__":
    main()
