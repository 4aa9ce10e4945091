"""Hard patches beside blended ones, on a small training: lognormal Darcy flow on 48 x 48 cells, 4 x 4 patches.

    python benchmarks/blended_patches.py [--operators FANO ViTNO] [--updates 250] [--rate 5e-3] [--seed 0]
        [--out docs/blending.json]

200 training samples, batches of 4, AdamW with one cycle, relative H1 loss, one core of a CPU. Printed are mean relative
errors of 40 other samples in L2 and H1, at 48 and on fresh samples at 96, the RMS difference of the error across faces
over that inside patches, and the time of an update. The file also holds the errors of one sample at 96, for the figure.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from operformer import FANO, ViTNO
from operformer.evaluation.errors import evaluate
from operformer.evaluation.loss import relative_h1
from operformer.problems import Darcy
from operformer.runs.provenance import provenance
from operformer.training.normalisation import fit_normalisation
from operformer.training.schedule import make_schedule

TRAIN, TEST, SIZE, FINE, BATCH = 200, 40, 48, 96, 4
MAKERS = {"FANO": FANO, "ViTNO": ViTNO}
SETTINGS = {"hidden_channels": 32, "n_layers": 3, "n_heads": 4, "basis": "cosine", "waves": 8}
COLUMNS = ("L2 at 48", "H1 at 48", "H1 at 96", "jumps at 48", "jumps at 96", "ms")


def fit(operator, samples, given):
    """Milliseconds of an update."""
    fit_normalisation(operator, samples)
    optimizer = torch.optim.AdamW(operator.parameters(), given.rate, weight_decay=0.0)
    schedule = make_schedule("one-cycle", optimizer, given.updates)
    draws, done, started = torch.Generator().manual_seed(given.seed), 0, time.process_time()
    while done < given.updates:
        for batch in torch.randperm(TRAIN, generator=draws).split(BATCH)[: given.updates - done]:
            loss = relative_h1(operator(samples.u[batch], samples.grid), samples.z[batch], samples.grid).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(operator.parameters(), 1.0)
            optimizer.step()
            schedule.after_update()
            done += 1
    return 1e3 * (time.process_time() - started) / done


def measure(name, overlap, sets, given):
    """A row of the table, and the error of one sample at the finer resolution."""
    torch.manual_seed(given.seed)
    operator = MAKERS[name]((4, 4), 8, 1, 1, overlap=overlap, **SETTINGS)
    took = fit(operator, sets["train"], given)
    coarse, fine = evaluate(operator, sets[SIZE]), evaluate(operator, sets[FINE])
    with torch.no_grad():
        error = (operator(sets[FINE].u[:1], sets[FINE].grid) - sets[FINE].z[:1])[0, 0] / sets[FINE].z[0].abs().max()
    found = (coarse.mean, coarse.h1.mean, fine.h1.mean, coarse.jumps.face_ratio, fine.jumps.face_ratio, took)
    return {"operator": name, "overlap": overlap, **dict(zip(COLUMNS, found, strict=True))}, error


def shown(row):
    """Errors in percent."""
    texts = [f"{100 * row[key]:.1f} %" for key in COLUMNS[:3]] + [f"{row[key]:.2f}" for key in COLUMNS[3:5]]
    return f"| {row['operator']}, overlap {row['overlap']} | {' | '.join(texts)} | {row['ms']:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", nargs="+", default=list(MAKERS), choices=list(MAKERS))
    parser.add_argument("--updates", type=int, default=250)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for rows and errors")
    given = parser.parse_args()
    torch.set_num_threads(1)
    drawn = Darcy("lognormal").sample(TRAIN + TEST, SIZE, seed=0).to(dtype=torch.float32)
    sets = {"train": drawn[:TRAIN], SIZE: drawn[TRAIN:]}
    sets[FINE] = Darcy("lognormal").sample(TEST, FINE, seed=1).to(dtype=torch.float32)
    print(f"| | {' | '.join(COLUMNS)} |\n|---{len(COLUMNS) * '|---'}|")
    rows, errors = [], []
    for name in given.operators:
        for overlap in (0.0, 0.25):
            row, error = measure(name, overlap, sets, given)
            rows.append(row)
            print(shown(row), flush=True)
            errors.append([[round(1e5 * x) for x in line] for line in error.tolist()])
            if given.out:  # of the first operator, in parts of 1e-5 of the largest value of the truth
                kept = {"made": provenance(), "rows": rows, "errors": errors[:2], "seed": given.seed}
                given.out.write_text(json.dumps(kept | {"updates": given.updates, "rate": given.rate}) + "\n")


if __name__ == "__main__":
    main()
