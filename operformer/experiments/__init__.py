"""Experiments as frozen values: what one is, the runs of Section 6, how one is found."""

from operformer.experiments.experiment import Data, Experiment, parse
from operformer.experiments.lookup import find_experiment
from operformer.experiments.section6 import EXPERIMENTS, as_plain_transformer

__all__ = ["EXPERIMENTS", "Data", "Experiment", "as_plain_transformer", "find_experiment", "parse"]
