"""Hard patches beside blended ones at the paper's size: ViTNO or FANO, lognormal Darcy flow on 416 x 416 cells.

    python benchmarks/blended_at_size.py [--operator ViTNO] [--overlaps 0 0.25] [--train 400] [--epochs 8] [--toy]

The paper's operator (13 x 13 patches, its modes, width 128, 6 layers, 8 heads, last layer of 64 modes) but for the
overlap; the same samples, seed, updates and rate for both, one cycle to 2e-3 in batches of 4, relative H1 loss, no
augmentation. Printed are median relative errors of 24 test samples at 416 and of 8 at 832, the difference of the error
between neighbours across faces over that inside patches, and the seconds of the training. Two minutes of one H200.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch

from operformer import FANO, Training, ViTNO, evaluate, train
from operformer.problems import Darcy

OPERATORS = {"ViTNO": ViTNO, "FANO": FANO}
MODES, OPTIMIZER = {"ViTNO": 12, "FANO": 9}, {"ViTNO": "muon", "FANO": "adamw"}
PAPER = {"n_patches": (13, 13), "hidden_channels": 128, "n_layers": 6, "n_heads": 8, "last": 64}
TOY = {"n_patches": (3, 3), "hidden_channels": 16, "n_layers": 1, "n_heads": 2, "last": 4}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operator", default="ViTNO", choices=list(MODES))
    parser.add_argument("--overlaps", nargs="+", type=float, default=[0.0, 0.25])
    parser.add_argument("--train", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--toy", action="store_true", help="48 x 48 cells and 3 x 3 patches, for a CPU")
    given = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    size, settings = (48, TOY) if given.toy else (416, PAPER)
    modes = 3 if given.toy else MODES[given.operator]
    device, first_test = "cuda" if on_gpu else "cpu", given.train + 16
    drawn = Darcy("lognormal").sample(first_test + 24, size, device=device).to(dtype=torch.float32)
    fine = Darcy("lognormal").sample(8, 2 * size, first=first_test, device=device).to(dtype=torch.float32)
    how = Training(
        epochs=given.epochs,
        batch_size=4,
        learning_rate=2e-3,
        schedule="one-cycle",
        loss="h1",
        optimizer=OPTIMIZER[given.operator],
        averages="float16" if on_gpu else "full",
        products="tf32" if on_gpu else "full",
        compile=on_gpu,
    )
    print(f"| overlap | L2 at {size} | H1 at {size} | H1 at {2 * size} | jumps at {size} | at {2 * size} | seconds |")
    print("|---|---|---|---|---|---|---|")
    for overlap in given.overlaps:
        torch.manual_seed(0)
        torch.compiler.reset()
        operator = OPERATORS[given.operator](n_modes=modes, in_channels=1, out_channels=1, overlap=overlap, **settings)
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            trained = train(operator, drawn[: given.train], drawn[given.train : first_test], how, Path(folder) / "run")
        seconds, trained = time.perf_counter() - started, trained.to(device)
        coarse, finer = evaluate(trained, drawn[first_test:]), evaluate(trained, fine)
        errors = " | ".join(f"{100 * e:.2f} %" for e in (coarse.median, coarse.h1.median, finer.h1.median))
        jumps = " | ".join(f"{found.jumps.face_ratio:.2f}" for found in (coarse, finer))
        print(f"| {overlap} | {errors} | {jumps} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
