"""The commands about runs: demo, train, status, evaluate, report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from operformer.commands.console import console, show

Override = Annotated[str, Parameter(help="Changed settings, such as training.epochs=5 operator.n_heads=2.")]


def demo(*, out: Path = Path("runs/demo")) -> None:
    """Train a TNO and a plain transformer on Lorenz 63, compare them on grids they never saw, write a report.

    Parameters
    ----------
    out
        The folder for the runs and the report; what is done there already is not done again.
    """
    from operformer.runs import evaluate_run, find_experiment, train_run

    folders = []
    for name in ("lorenz-y", "lorenz-y-transformer"):
        chosen = find_experiment(name)
        folder = out / str(chosen.operator["name"]).lower()
        train_run(chosen, folder)
        evaluate_run(folder)
        folders.append(folder)
    _report(folders, out / "report.html")


def train(experiment: str, *overrides: Override, out: Path | None = None) -> None:
    """Train an operator on a problem or on your own samples; the same command again resumes where it stopped.

    Parameters
    ----------
    experiment
        A .toml file, or the name of a run that comes with the library: darcy, lorenz, lorenz-y, lorenz-y-transformer.
    out
        The folder of the run; runs/NAME if not given.
    """
    from operformer.runs import find_experiment, is_first, train_run

    found = find_experiment(experiment, overrides)
    folder = out or Path("runs") / found.name
    train_run(found, folder)
    if is_first():
        console.print(f"trained: {folder}; next: operformer evaluate {folder}", soft_wrap=True)


def status(run: Path) -> None:
    """How a training stands: its epoch, loss, speed and time left, or that it was stopped or is done.

    Parameters
    ----------
    run
        The folder of the run.
    """
    from operformer.runs import describe_training

    console.print(describe_training(run), soft_wrap=True)


def evaluate(run: Path, *, set: Path | None = None) -> None:
    """Errors of a trained run at half to double its resolution and on irregular grids, or on another set.

    Parameters
    ----------
    run
        The folder of the run.
    set
        The folder of another set with truth at another resolution or on other points: errors there alone, which are
        kept beside those that the run has.
    """
    from operformer.runs import evaluate_on, evaluate_run, read_run
    from operformer.runs.report.tables import error_table, remarks, set_table

    if set is not None:
        show(set_table(evaluate_on(run, set)))
        return
    evaluate_run(run)
    done = read_run(run)
    show(error_table([done]))
    for line in remarks(done):
        console.print(line, soft_wrap=True)
    grids = done.experiment.problem.evaluation_grids(done.experiment.data.resolution)
    left_out = grids.keys() - {evaluation.label for evaluation in done.evaluations}
    if left_out:
        console.print(f"left out, since the operator does not take these grids: {', '.join(sorted(left_out))}")
    console.print(
        f"evaluated: {run / 'evaluation.json'}; next: operformer report {run}", soft_wrap=True, highlight=False
    )


def report(*runs: Path, out: Path | None = None) -> None:
    """Write one HTML page about evaluated runs of the same problem.

    Parameters
    ----------
    runs
        The folders of the runs; the first one is the page's subject.
    out
        The page; report.html in the first run's folder if not given.
    """
    from operformer.errors import UsageError

    if not runs:
        raise UsageError("name at least one run: operformer report RUN [RUN ...]")
    _report(runs, out or runs[0] / "report.html")


def _report(folders: Sequence[Path], path: Path) -> None:
    from operformer.runs import read_run
    from operformer.runs.report.explorer import exhibits_of
    from operformer.runs.report.page import summary, write_page
    from operformer.runs.report.tables import error_table

    runs = [read_run(folder) for folder in folders]
    write_page(runs, path, exhibits_of(runs, folders))
    show(error_table(runs))
    for sentence in summary(runs):
        console.print(sentence)
    console.print(f"report: {path.resolve().as_uri()}", soft_wrap=True)
