"""Ways to train one operator on one problem, side by side: the same draws, seed, epochs and device.

    python benchmarks/recipes.py [darcy-64-tno] [--recipe smoke|authors|same-operator|best] [--with waves ema ...]
        [--changes "operator.n_modes=6 training.ema=0.9" ...] [--out rows.json] [data.train=600 training.epochs=20 ...]

The first row is the run as it is, with the settings that are given at the end; each way of --with changes what its
line in WAYS says; hot and cold are three times and a third of its learning rate; of --changes each is a row, too.
Printed: seconds, the median and the mean relative L2 error of the validation samples (never of the test samples), and
the ratio of the median to that of the first row.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from operformer.evaluation.errors import relative_errors
from operformer.problems.problem import Draws
from operformer.runs import train_run
from paper.recipes import find_run

WAYS = {
    "base": [],
    "waves": ["operator.waves=8"],
    "waves-4": ["operator.waves=4"],
    "waves-16": ["operator.waves=16"],
    "ema": ["training.ema=0.999"],
    "augment": ["training.augment=true"],
    "muon": ["training.optimizer=muon"],
    "decay": ["training.weight_decay=1e-2"],
    "l2": ["training.loss=l2"],
    "cosine": ["training.schedule=cosine"],
    "hot": ["training.learning_rate={hot}"],
    "cold": ["training.learning_rate={cold}"],
    "all": ["operator.waves=8", "training.augment=true", "training.ema=0.999"],
    "waves-muon": ["operator.waves=8", "training.optimizer=muon"],
    "extension": ["operator.basis=extended-fourier"],
    "large-patches": ["operator.n_patches=[2,2]", "operator.n_modes=8"],
    "large-patches-extension": ["operator.n_patches=[2,2]", "operator.n_modes=8", "operator.basis=extended-fourier"],
    "all-muon": [
        "operator.waves=8",
        "training.augment=true",
        "training.ema=0.999",
        "training.optimizer=muon",
    ],
}


def measure(experiment, draws):
    """Train in a folder that is thrown away; seconds and the errors of the validation samples."""
    data = experiment.data
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        operator = train_run(experiment, Path(folder), draws)
        seconds = time.perf_counter() - started
        device = operator.input_mean.device
        pairs = draws.sample(experiment.problem, data.train + data.validation, data.resolution, data.seed, device)
        errors = relative_errors(operator, pairs[data.train :].to(dtype=operator.input_mean.dtype), "l2")
    return {"seconds": seconds, "median": float(errors.median()), "mean": float(errors.mean())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", default="darcy-64-tno")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--recipe", choices=["smoke", "authors", "same-operator", "best"], default="smoke")
    parser.add_argument("--with", dest="ways", nargs="+", default=[], choices=list(WAYS))
    parser.add_argument("--changes", nargs="+", default=[], metavar="SETTINGS", help="several in one argument: one row")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_intermixed_args()  # settings may stand behind the options
    draws, rows = Draws(kept=2), []

    def find(*changes):
        return find_run(arguments.experiment, arguments.recipe, [*arguments.overrides, *changes])

    rate = find().training.learning_rate
    chosen = arguments.ways or ([] if arguments.changes else ["waves", "ema", "augment"])
    ways = {name: WAYS[name] for name in ("base", *chosen)} | {text: text.split() for text in arguments.changes}
    for name, settings in ways.items():
        changes = [change.format(hot=3 * rate, cold=rate / 3) for change in settings]
        row = {"way": name, **measure(find(*changes), draws)}
        rows.append(row | {"ratio": row["median"] / (rows[0]["median"] if rows else row["median"])})
        print(
            "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v:12s}" for k, v in rows[-1].items()),
            flush=True,
        )
        if arguments.out:
            given = {key: vars(arguments)[key] for key in ("experiment", "recipe", "overrides")}
            arguments.out.write_text(json.dumps(given | {"rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
