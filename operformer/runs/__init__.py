"""An experiment as a value, carried out in a folder: drawn, trained, evaluated, each step leaving its file."""

from operformer.runs.experiment import Data, Experiment, find_experiment, parse
from operformer.runs.folder import Run, is_evaluated, is_trained, read_experiment, read_run
from operformer.runs.onward import continued, is_run, outcome, standing
from operformer.runs.recommended import is_set, recommended_experiment
from operformer.runs.steps import calibrate_run, errors_on_tests, evaluate_on, evaluate_run, roll_out_on, train_run
from operformer.training.ranks import is_first
from operformer.training.status import describe as describe_training

__all__ = [
    "Data",
    "Experiment",
    "Run",
    "calibrate_run",
    "continued",
    "describe_training",
    "errors_on_tests",
    "evaluate_on",
    "evaluate_run",
    "find_experiment",
    "is_evaluated",
    "is_first",
    "is_run",
    "is_set",
    "is_trained",
    "outcome",
    "parse",
    "read_experiment",
    "read_run",
    "recommended_experiment",
    "roll_out_on",
    "standing",
    "train_run",
]
