"""An experiment carried out in a folder: drawn, trained, evaluated, each step leaving its file."""

from operformer.run.evaluation import calibrate_run, errors_on_tests, evaluate_run
from operformer.run.folder import Run, is_evaluated, is_trained, read_experiment, read_run
from operformer.run.pairs import evaluation_grids
from operformer.run.training import train_run

__all__ = [
    "Run",
    "calibrate_run",
    "errors_on_tests",
    "evaluate_run",
    "evaluation_grids",
    "is_evaluated",
    "is_trained",
    "read_experiment",
    "read_run",
    "train_run",
]
