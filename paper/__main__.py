"""The paper's command line: python -m paper COMMAND, from a clone of the repository."""

from __future__ import annotations

from cyclopts import App

from operformer import cli
from paper.commands import queue, record, report, reproduce, ship, standardise, sweep, train
from paper.listing import experiments

app = App(
    name="python -m paper",
    help="The runs, tables and figures of Section 6 and Appendix C of the paper, made by operformer.",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    help_epilogue="With --debug an error comes with its traceback.",
)
for command in (experiments, train, queue, sweep, record, standardise, report, reproduce, ship):
    app.command(command)

if __name__ == "__main__":
    cli.run(app)
