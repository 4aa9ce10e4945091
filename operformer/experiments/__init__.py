"""Experiments as frozen values: what one is, the runs of Section 6, how one is found."""

from operformer.experiments.experiment import Data, Experiment, parse
from operformer.experiments.line import as_plain_transformer
from operformer.experiments.lookup import find_experiment
from operformer.experiments.section6 import EXPERIMENTS

__all__ = ["EXPERIMENTS", "Data", "Experiment", "as_plain_transformer", "find_experiment", "parse"]
