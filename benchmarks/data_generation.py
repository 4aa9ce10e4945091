"""How fast each problem is drawn and solved; on the CPU, Darcy flow against scipy's sparse LU in the same run.

    python benchmarks/data_generation.py [--device cpu] [--scale small] [--only NAME] [--out figures.json]

Scale "small" takes a few samples of each, "paper" the paper's sets (4000 of Darcy, 10000 of Kolmogorov at 416 x 416),
which are meant for a GPU. Times reach from the seed to float64 pairs on the device, on a grid of the resolution.
"""

import argparse
import json
import time
from pathlib import Path

import scipy.sparse as sparse
import torch
from scipy.sparse.linalg import splu

from operformer.problems import ControlledODE, Darcy, Kolmogorov, Lorenz63

PROBLEMS = {
    "Lorenz63": (Lorenz63(), 200, 2000, 10000),
    "ControlledODE": (ControlledODE(), 200, 2000, 10000),
    "Darcy lognormal": (Darcy("lognormal"), 64, 32, 4000),
    "Darcy piecewise": (Darcy("piecewise"), 64, 32, 4000),
    "Darcy lognormal, large": (Darcy("lognormal"), 416, 8, 4000),
    "Darcy piecewise, large": (Darcy("piecewise"), 416, 8, 4000),
    "Darcy of Li et al.": (Darcy.of_li_et_al(), 421, 8, 1200),
    "Kolmogorov": (Kolmogorov(), 416, 4, 10000),
}


def seconds(run, device):
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    result = run()
    if device == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - started


def sparse_lu(a, kind):
    """The same equations, assembled face by face and factorised; the unknowns of one coefficient."""
    n = len(a)
    inner = a if kind == "cells" else a[1:-1, 1:-1]
    h = 1 / n if kind == "cells" else 1 / (n - 1)
    size = len(inner)
    matrix = sparse.csc_matrix((size * size, size * size))
    for axis in (0, 1):
        swapped = a.T if axis else a
        rows = swapped if kind == "cells" else swapped[:, 1:-1]
        faces = torch.sqrt(rows[1:] * rows[:-1])
        if kind == "cells":
            faces = torch.cat([2 * rows[:1], faces, 2 * rows[-1:]])
        ends = torch.arange(size)
        difference = sparse.diags([1.0, -1.0], [0, -1], shape=(size + 1, size))
        line = sparse.kron(difference, sparse.eye(size))
        weighed = line.T @ sparse.diags(faces.flatten().numpy()) @ line / h**2
        if axis:
            order = (ends[:, None] * size + ends).T.flatten().numpy()
            weighed = weighed.tocsc()[order][:, order]
        matrix = matrix + weighed
    return torch.from_numpy(splu(matrix.tocsc()).solve(torch.ones(size * size).double().numpy())).view(size, size)


def measure(name, scale, device):
    problem, resolution, small, paper = PROBLEMS[name]
    count = small if scale == "small" else paper
    problem.sample(1, 16, device=device)  # kernels and libraries are loaded
    samples, taken = seconds(lambda: problem.sample(count, resolution, seed=1, device=device), device)
    row = {"problem": name, "resolution": resolution, "samples": count, "seconds": round(taken, 3)}
    row["samples per second"] = round(count / taken, 2)
    row |= {f"worst {check}": float(f"{values.max():.2e}") for check, values in samples.checks.items()}
    if isinstance(problem, Darcy) and device == "cpu" and scale == "small":
        few = samples.u[:2, 0]
        solved, lu_seconds = seconds(lambda: [sparse_lu(a, samples.grid.kind) for a in few], device)
        inside = slice(None) if samples.grid.kind == "cells" else slice(1, -1)
        ours = [z[0, inside, inside] for z in samples.z[:2]]
        differences = [float((one - other).norm() / other.norm()) for one, other in zip(ours, solved, strict=True)]
        row["seconds of LU per sample"] = round(lu_seconds / 2, 3)
        row["LU over ours"] = round(lu_seconds / 2 / (taken / count), 2)
        row["difference from LU"] = float(f"{max(differences):.1e}")
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--scale", choices=["small", "paper"], default="small")
    parser.add_argument("--only", default="", help="the problems whose name contains this")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = torch.cuda.get_device_name() if arguments.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{device}, torch {torch.__version__}")
    rows = [measure(name, arguments.scale, arguments.device) for name in PROBLEMS if arguments.only in name]
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
