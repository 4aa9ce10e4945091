"""First weights of the spectral layers, compared on a short training: lognormal Darcy flow, 48 x 48, 4 x 4 patches.

    python benchmarks/initial_scale.py [--operators ViTNO FANO] [--starts before authors library]
        [--optimizers adamw muon] [--rates 2e-3] [--seeds 0 1 2] [--last 8] [--updates 300] [--jobs 2]
        [--out rows.jsonl]
    python benchmarks/initial_scale.py --table rows.jsonl

Each row is one training: 200 samples, batches of 4, one cycle, relative H1 loss, on one core of a CPU. Printed are the
mean relative errors of 40 test samples in H1 and L2. The starts of R(k) are

    before   each entry independent, uniform in +-1/sqrt(in): as in nn.Linear, for every k
    authors  real and imaginary part uniform in [0, 1) / (in out)
    library  as the operator's constructor draws them
    large    one matrix for all k of the lift or map, as large as in nn.Linear; last layers zero
    small    independent matrices, as small as the library's lift; last layers zero
"""

import argparse
import json
import time
from collections import defaultdict
from itertools import product
from math import sqrt
from multiprocessing import get_context
from pathlib import Path

import torch

from operformer.domain import Samples
from operformer.evaluation.loss import LOSSES
from operformer.operators.integral import SpectralMixing
from operformer.problems import LAWS
from operformer.training.normalisation import fit_normalisation
from operformer.training.optimizer import make_optimizer
from operformer.training.schedule import make_schedule
from paper.recipes import find_run

TRAIN, TEST, SIZE, BATCH = 200, 40, 48, 4


def independent(mixing, weight, width=None):
    """Independent for every k, uniform in +-1/sqrt(width); of the number of columns if not given."""
    bound = 1 / sqrt(width or weight.shape[1])
    weight[: mixing.n_single].uniform_(-bound, bound)
    weight[mixing.n_single :].uniform_(-bound / sqrt(2), bound / sqrt(2))


def authors(mixing, weight):
    """As in the code of Li et al. and of the paper's authors; a map of c channels to c, if several are side by side."""
    weight.uniform_(0, 1).div_(weight.shape[1] * min(weight.shape[1:]) if weight.shape[1] > 8 else weight[0].numel())


def small(mixing, weight):
    """Independent, but as small as the library's lift."""
    independent(mixing, weight, max(weight.shape[1:]) if weight.shape[1] <= 8 else weight.shape[1])


def large(mixing, weight):
    """The same matrix for every k as the library's lift, but as large as nn.Linear has it."""
    mixing.start_pointwise(weight.shape[1])


def zero(mixing, weight):
    weight.zero_()


# Of the lift and the maps of an attention, and of the last layer; None leaves what the constructor drew.
STARTS = {
    "before": (independent, independent),
    "authors": (authors, authors),
    "library": (None, None),
    "before-last0": (independent, zero),
    "authors-last0": (authors, zero),
    "small": (small, zero),
    "large": (large, zero),
}


def make(operator, start, seed, last, extra=()):
    """The catalogue's operator at smoke scale, with these first weights."""
    name = {"ViTNO": "darcy-416-vitno", "FANO": "darcy-416-fano"}[operator]
    torch.manual_seed(seed)
    made = find_run(name, "smoke", [f"operator.last={last or '[]'}", *extra]).make_operator()
    of_maps, of_last = STARTS[start]
    with torch.no_grad():
        for key, module in made.named_modules():
            fill = of_last if "last_layers" in key else of_maps
            if isinstance(module, SpectralMixing) and fill is not None:
                fill(module, module.weight)
    return made


def measure(job):
    """One training and its errors."""
    torch.set_num_threads(1)
    train, test = samples()
    operator = make(job["operator"], job["start"], job["seed"], job["last"], job["extra"])
    fit_normalisation(operator, train)
    optimizer = make_optimizer(job["optimizer"], operator, job["rate"], 0.0)
    schedule = make_schedule("one-cycle", optimizer, job["updates"])
    draws, loss_of = torch.Generator().manual_seed(job["seed"]), LOSSES["h1"]
    started, losses = time.process_time(), []
    while len(losses) < job["updates"]:
        for batch in torch.randperm(TRAIN, generator=draws).split(BATCH):
            loss = loss_of(operator(train.u[batch], train.grid), train.z[batch], train.grid).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(operator.parameters(), 1.0)
            optimizer.step()
            schedule.after_update()
            losses.append(float(loss.detach()))
    with torch.no_grad():
        found = operator(test.u, test.grid)
    errors = {norm: float(LOSSES[norm](found, test.z, test.grid).mean()) for norm in ("h1", "l2")}
    return (
        job | errors | {"train": sum(losses[-50:]) / 50, "first": losses[0], "seconds": time.process_time() - started}
    )


def samples():
    """Training and test samples; drawn once for each process."""
    if not _kept:
        drawn = LAWS["darcy-lognormal"].sample(TRAIN + TEST, SIZE, seed=0).to(dtype=torch.float32)
        _kept.append((drawn[:TRAIN], drawn[TRAIN:]))
    return _kept[0]


_kept: list[tuple[Samples, Samples]] = []


def table(rows):
    """Means over seeds, one line for each way."""
    groups = defaultdict(list)
    for row in rows:
        last = "-" if not row["last"] else row["last"]
        groups[row["operator"], row["optimizer"], row["rate"], last, " ".join(row["extra"]), row["start"]].append(row)
    lines = ["operator, optimiser, rate, last layer, first weights: H1 (each seed), L2"]
    for key, found in groups.items():
        each = " ".join(f"{100 * row['h1']:.1f}" for row in found)
        h1, l2, train = (100 * sum(row[n] for row in found) / len(found) for n in ("h1", "l2", "train"))
        lines.append(f"{', '.join(map(str, key))}: {h1:.1f} % ({each}), {l2:.1f} %, training {train:.1f} %")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", nargs="+", default=["ViTNO", "FANO"], choices=["ViTNO", "FANO"])
    parser.add_argument("--starts", nargs="+", default=["before", "authors", "library"], choices=list(STARTS))
    parser.add_argument("--optimizers", nargs="+", default=["adamw", "muon"], choices=["adamw", "muon"])
    parser.add_argument("--rates", nargs="+", type=float, default=[2e-3])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--last", type=int, default=0, help="modes of the last layer; 0 is none")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--extra", nargs="*", default=[], help="further settings, such as operator.waves=8")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, nargs="+", help="print the means of the rows of these files and stop")
    given = parser.parse_args()
    if given.table:
        print(table([json.loads(line) for path in given.table for line in path.read_text().splitlines()]))
        return
    ways = product(given.seeds, given.operators, given.optimizers, given.rates, given.starts)
    keys = ("seed", "operator", "optimizer", "rate", "start")
    same = {"last": given.last, "updates": given.updates, "extra": given.extra}
    jobs, rows = [dict(zip(keys, way, strict=True)) | same for way in ways], []
    with get_context("spawn").Pool(given.jobs) as pool:
        for row in pool.imap(measure, jobs):
            rows.append(row)
            if given.out:
                with given.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
