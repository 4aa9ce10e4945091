"""The commands about runs: demo, train, status, evaluate, report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token

from operformer.commands.console import console, show

Recipe = Literal["auto", "isotropic", "cosine", "fourier", "tno", "fano", "vitno"]
Override = Annotated[str, Parameter(help="Changed settings, such as training.epochs=5 operator.n_heads=2.")]


def _as_it_is(kind: Any, tokens: Sequence[Token]) -> Any:
    """The word that was given: the library refuses others than its own and names the nearest."""
    return tokens[0].value


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


def train(
    experiment: str,
    *overrides: Override,
    recipe: Annotated[Recipe | None, Parameter(converter=_as_it_is)] = None,
    minutes: float = 2.0,
    more: int | None = None,
    start: Annotated[str | None, Parameter(name="--from")] = None,
    out: Path | None = None,
) -> None:
    """Train an operator on a problem or on your own samples; the same command again resumes where it stopped.

    Settings are written section.setting=value. data: resolution, train, validation, test, seed, coarser, folder.
    operator: name (SpectralOperator, FANO, ViTNO, TNO, ...) and what its constructor takes, such as hidden_channels,
    n_layers, n_heads, n_modes, n_patches, overlap, basis, last, waves, wrappers. training: epochs, batch_size,
    learning_rate, schedule, loss, optimizer, weight_decay, clip_norm, ema, seed, device, averages, products, compile,
    accumulation, strategy, resolutions, batches, stages, augment, restarts, save_minutes.

    Parameters
    ----------
    experiment
        The folder of a set of samples, a .toml file, or the name of a run that comes with the library: darcy, lorenz,
        lorenz-y, lorenz-y-transformer; or the folder of a run, which is resumed.
    recipe
        "auto" chooses the operator and its training by the samples, as for a set's folder if nothing is said. Others
        fit one operator to them: a SpectralOperator with isotropic, cosine or fourier kernels, a TNO, a FANO or a
        ViTNO. Overrides are kept.
    minutes
        How long a training that is chosen may take on this machine.
    more
        Epochs to train a finished run further, in a fresh cycle of the learning rate from its best weights.
    start
        A trained operator to go on from: the folder of a run or of an operator, or a model that comes with the library.
    out
        The folder of the run; runs/NAME if not given.
    """
    from operformer.errors import UsageError
    from operformer.runs import (
        continued,
        find_experiment,
        is_first,
        is_run,
        is_set,
        outcome,
        recommended_experiment,
        standing,
        train_run,
    )

    name = Path(os.path.realpath(experiment)).stem  # resolve() fails on a link to itself
    if is_run(experiment):
        if overrides or recipe or start or out:
            raise UsageError(f"{experiment} is a run, which is resumed as it is; it takes --more alone")
        folder, found = Path(experiment), continued(Path(experiment), more)
    elif more is not None:
        raise UsageError(f"--more trains a run further: got {experiment!r}; give the folder of a run")
    elif recipe or is_set(experiment):
        folder = out or Path("runs") / name
        found, reasons = recommended_experiment(experiment, overrides, minutes, folder, start or "", recipe or "auto")
        for line in reasons:
            console.print(line, soft_wrap=True)
    else:
        found = find_experiment(experiment, overrides, start or "")
        folder = out or Path("runs") / found.name
    before = standing(folder)
    train_run(found, folder)
    if is_first():
        console.print(outcome(folder, *before), soft_wrap=True)


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
    from operformer.runs import evaluate_on, evaluate_run, read_run, roll_out_on
    from operformer.runs.report.tables import error_table, remarks, rollout_table, set_table

    if set is not None:
        show(set_table(evaluate_on(run, set)))
        rolled = roll_out_on(run, set)
        if rolled is not None:
            show(rollout_table(rolled, f"of {set.resolve().name}"))
        return
    evaluate_run(run)
    done = read_run(run)
    show(error_table([done]))
    if done.rollout is not None and not done.experiment.problem.has_law:
        show(rollout_table(done.rollout, "that were not trained on"))
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
