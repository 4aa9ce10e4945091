"""How many files of the package a value passes on its way through a training, a forward pass and a prediction.

    python .ci/walk.py [--before 17ed50f] [--json FILE]

Prints a table with one column for each of two trees, an earlier revision and the working tree:

    files      different files of operformer/ whose functions are entered, or whose generators resume
    pairs      different ordered pairs of files, the caller's and the callee's; the caller is the nearest function of
               the package up the stack, so that a call through torch counts as one from file to file
    changes    how often a function is entered in another file than the function entered before it, in the same thread

The training is one of a TNO on Lorenz 63 (8 samples, one epoch, its data drawn on the way), the forward pass the second
call of a FANO on a grid of 416 x 416 cells, the prediction that of the trained operator for a file. Each is done twice,
and the second time is counted: by then all is imported. The body of a module or class is not counted, and neither is
what other processes do. Changes depend a little on timing, as of the threads that show progress.
"""

import argparse
import inspect
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

from earlier import BEFORE, ROOT, print_table, run_with, tree_at

TRAINING = (
    *("train", "lorenz-y", "data.train=8", "data.validation=4", "data.test=4"),
    *("training.epochs=1", "training.batch_size=4", "training.device=cpu"),
)
COUNTS = ("files", "pairs", "changes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=BEFORE, metavar="REV")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--of", metavar="TREE", type=Path, help="only print the counts of this tree, as JSON")
    arguments = parser.parse_args()
    if arguments.of:
        print(json.dumps(measure(arguments.of.resolve())))
        return
    with tree_at(arguments.before) as tree:
        columns = {"before": counts_of(tree)} if tree else {}
    columns["now"] = counts_of(ROOT)
    rows = [
        [action if count == COUNTS[0] else "", count, *(f"{column[action][count]:,}" for column in columns.values())]
        for action in columns["now"]
        for count in COUNTS
    ]
    print_table([["", "", *columns], *rows], left=2)
    if arguments.json:
        arguments.json.write_text(json.dumps(columns, indent=2) + "\n")


def counts_of(tree):
    return json.loads(run_with(tree, __file__, "--of", tree))


def measure(tree):
    """The counts of each action, with the package of a tree, which has to be the one that is imported."""
    import operformer

    package = Path(operformer.__file__).parent
    if package != tree / "operformer":
        sys.exit(f"another operformer is imported: {package}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        return {name: counted(action, package) for name, action in actions().items()}


def actions():
    """What is counted; each takes the number of its repetition, the path of the files that it writes."""
    import numpy
    import torch

    from operformer import FANO, Grid

    torch.manual_seed(0)
    operator = FANO((13, 13), 9, 1, 1, hidden_channels=8, n_heads=2, n_layers=6).eval()
    grid = Grid.uniform((416, 416), kind="cells")
    u = torch.rand(1, 1, 416, 416)
    numpy.savez("inputs.npz", u=numpy.random.default_rng(0).standard_normal((3, 1, 100)).astype("float32"))

    def forward(_):
        with torch.no_grad():
            operator(u, grid)

    return {
        "training": lambda time: command(*TRAINING, "--out", f"run{time}"),
        "forward pass": forward,
        "prediction": lambda time: command("predict", f"run{time}", "inputs.npz", "--out", f"predicted{time}.npz"),
    }


def command(*arguments):
    from operformer.cli import main

    try:
        main(arguments)
    except SystemExit as done:
        if done.code:
            sys.exit(f"operformer {' '.join(arguments)} ended with {done.code}")


def counted(action, package):
    """The counts of an action's second time."""
    action(0)
    walk = Walk(package)
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        action(1)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {"files": len(walk.files), "pairs": len(walk.pairs), "changes": walk.changes}


class Walk:
    """A profiler that counts files, pairs of them and changes from one to another."""

    def __init__(self, package):
        self.inside = f"{package}{os.sep}"
        self.files, self.pairs, self.changes = set(), set(), 0
        self.last = {}  # file that was entered last, by thread

    def __call__(self, frame, event, _):
        """Called by the interpreter when a function is entered or a generator resumed."""
        if event != "call" or not self.is_ours(frame):
            return
        file, thread = frame.f_code.co_filename, threading.get_ident()
        self.files.add(file)
        self.changes += self.last.get(thread, file) != file
        self.last[thread] = file
        caller = frame.f_back
        while caller is not None and not self.is_ours(caller):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != file:
            self.pairs.add((caller.f_code.co_filename, file))

    def is_ours(self, frame):
        """Whether a frame is of a function of the package, not of the body of a module or class."""
        return frame.f_code.co_filename.startswith(self.inside) and frame.f_code.co_flags & inspect.CO_OPTIMIZED


if __name__ == "__main__":
    main()
