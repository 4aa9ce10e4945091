"""The command line: demo, generate, import, inspect, experiments, train, status, evaluate, predict, certify, calibrate,
report, record, card, ship, models, export, reproduce, doctor.

Exit codes: 0 done, 1 a certificate that is not passed, 2 usage or configuration, 3 bad data or checkpoint, 4 numbers
diverged, 5 resource, 130/143 signals.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError, UnusedCliTokensError

from operformer import __version__
from operformer.commands.calibration import calibrate
from operformer.commands.certificate import certify
from operformer.commands.console import console, show
from operformer.commands.data import generate, import_, inspect
from operformer.commands.doctor import doctor
from operformer.commands.experiments import experiments
from operformer.commands.predict import predict
from operformer.commands.reproduce import reproduce
from operformer.commands.results import record, report_records
from operformer.commands.sharing import card, export, models, ship
from operformer.errors import OperformerError, TerminatedError

app = App(
    name="operformer",
    help="Transformers that act on functions: train a neural operator and see what it learned.",
    version=__version__,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    help_epilogue="With --debug an error comes with its traceback.",
)
STOPPED = "stopped; what was finished is kept, and the same command goes on from there"
OUT_OF_MEMORY = "out of memory; use a smaller batch, resolution or operator, or fewer workers"
Override = Annotated[str, Parameter(help="Changed settings, such as training.epochs=5 operator.n_heads=2.")]


@app.command
def demo(*, out: Path = Path("runs/demo")) -> None:
    """Train a TNO and a plain transformer on Lorenz 63, compare them on grids they never saw, write a report.

    Parameters
    ----------
    out
        The folder for the runs and the report; what is done there already is not done again.
    """
    from operformer.experiments import EXPERIMENTS
    from operformer.run import evaluate_run, train_run

    folders = []
    for name in ("lorenz-y", "lorenz-y-transformer"):
        chosen = EXPERIMENTS[name]["smoke"]
        folder = out / str(chosen.operator["name"]).lower()
        train_run(chosen, folder)
        evaluate_run(folder)
        folders.append(folder)
    _report(folders, out / "report.html")


@app.command
def train(
    experiment: str,
    *overrides: Override,
    out: Path | None = None,
    scale: Literal["smoke", "paper"] | None = None,
    protocol: Literal["paper", "best"] | None = None,
) -> None:
    """Train an experiment; the same command again goes on where it stopped.

    Parameters
    ----------
    experiment
        A name, such as lorenz-y or darcy-416-fano (operformer experiments lists them), or a .toml file.
    out
        The folder of the run; runs/NAME if not given, with a protocol runs/NAME-PROTOCOL[-seed-K].
    scale
        For experiments by name: smoke, which a laptop finishes (if not given), or the paper's.
    protocol
        In place of a scale: our recipe at the paper's scale, for its protocol or the best there is; see record.
    """
    from operformer.experiments import find_experiment
    from operformer.learning.ranks import is_first
    from operformer.run import train_run

    found = find_experiment(experiment, scale, overrides, protocol)
    seed = f"-seed-{found.training.seed}" if found.training.seed else ""
    folder = out or Path("runs") / (f"{found.name}-{protocol}{seed}" if protocol else found.name)
    train_run(found, folder)
    if is_first():
        console.print(f"trained: {folder}; next: operformer evaluate {folder}", soft_wrap=True)


@app.command
def status(run: Path) -> None:
    """How a training stands: its epoch, loss, speed and time left, or that it was stopped or is done.

    Parameters
    ----------
    run
        The folder of the run.
    """
    from operformer.learning.status import describe

    console.print(describe(run), soft_wrap=True)


@app.command
def evaluate(run: Path) -> None:
    """Errors of a trained run at half to double its resolution and on irregular grids.

    Parameters
    ----------
    run
        The folder of the run.
    """
    from operformer.report.tables import error_table, remarks
    from operformer.run import evaluate_run, evaluation_grids, read_run

    evaluate_run(run)
    done = read_run(run)
    show(error_table([done]))
    for line in remarks(done):
        console.print(line, soft_wrap=True)
    grids = evaluation_grids(done.experiment.problem, done.experiment.data.resolution)
    left_out = grids.keys() - {evaluation.label for evaluation in done.evaluations}
    if left_out:
        console.print(f"left out, since the operator does not take these grids: {', '.join(sorted(left_out))}")
    console.print(
        f"evaluated: {run / 'evaluation.json'}; next: operformer report {run}", soft_wrap=True, highlight=False
    )


@app.command
def report(*runs: Path, out: Path | None = None) -> None:
    """Write one HTML page about evaluated runs of the same problem; or RESULTS.md from a folder of records.

    Parameters
    ----------
    runs
        The folders of the runs; the first one is the page's subject. Or one folder that record wrote to.
    out
        The page; report.html in the first run's folder, or RESULTS.md beside that of the records, if not given.
    """
    from operformer.errors import UsageError
    from operformer.reproduction.archive import is_archive

    if not runs:
        raise UsageError("name at least one run: operformer report RUN [RUN ...]")
    if len(runs) == 1 and is_archive(runs[0]):
        report_records(runs[0], out or runs[0].resolve().parent / "RESULTS.md")
        return
    _report(runs, out or runs[0] / "report.html")


app.command(generate)
app.command(import_, name="import")
app.command(inspect)
app.command(predict)
app.command(certify)
app.command(calibrate)
app.command(experiments)
app.command(record)
app.command(card)
app.command(ship)
app.command(models)
app.command(export)
app.command(reproduce)
app.command(doctor)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; an error is one line on standard error and the documented exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = app(given, exit_on_error=False, print_error=False) or 0
    except BaseException as error:
        if debug:
            traceback.print_exc()
        explained = _explain(error)
        if explained is None:
            raise
        code = _complain(*explained)
    sys.stdout.flush()
    sys.exit(code)


def _report(folders: Sequence[Path], path: Path) -> None:
    from operformer.report.explorer import exhibits_of
    from operformer.report.page import summary, write_page
    from operformer.report.tables import error_table
    from operformer.run import read_run

    runs = [read_run(folder) for folder in folders]
    write_page(runs, path, exhibits_of(runs, folders))
    show(error_table(runs))
    for sentence in summary(runs):
        console.print(sentence)
    console.print(f"report: {path.resolve().as_uri()}", soft_wrap=True)


def _explain(error: BaseException) -> tuple[str, int] | None:
    """One line and the exit code; None for what is a defect of the library."""
    if isinstance(error, KeyboardInterrupt):
        return STOPPED, 130
    if isinstance(error, TerminatedError):
        return STOPPED, 143
    if isinstance(error, CycloptsError):
        return f"{' '.join(str(error).split())}{_remedy(error)}", 2
    if isinstance(error, OperformerError):
        return str(error), error.exit_code  # nothing to say where another process of the training says it
    # torch.OutOfMemoryError on a GPU; on the CPU torch says so in words.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error):
        return OUT_OF_MEMORY, 5
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("operformer"):
        return f"the package {error.name} is not installed; see: operformer doctor", 5
    if isinstance(error, OSError):
        return f"{error.filename or 'input or output'}: {(error.strerror or str(error)).lower()}", 5
    return None


def _remedy(error: CycloptsError) -> str:
    """What to do about words that a command does not know; where to read what it takes."""
    command = " ".join(error.command_chain or ())
    if "Did you mean" in str(error):
        return ""
    if isinstance(error, UnknownOptionError) and command == "train":
        return " Settings have no dashes: section.setting=value, such as training.epochs=5"
    if isinstance(error, UnusedCliTokensError) and command:
        return f' Put what holds spaces between quotes, as in --layout "b x y"; see: operformer {command} --help'
    return f" See: operformer {command} --help" if command else ""


def _complain(message: str, code: int) -> int:
    if message:
        print(f"operformer: {message}", file=sys.stderr)
    return code


def _terminate(number: int, frame: object) -> NoReturn:
    console.show_cursor()
    _complain(STOPPED, 143)
    os._exit(143)


if __name__ == "__main__":
    main()
