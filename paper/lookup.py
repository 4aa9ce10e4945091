"""A run of the paper by its name in the catalogue, at a scale or by a recipe, changed by overrides."""

from __future__ import annotations

from collections.abc import Sequence

from operformer.errors import UsageError
from operformer.runs.experiment import Experiment, changed, find_experiment
from operformer.settings import choose
from paper.recipes import OTHERS, recipe
from paper.scales import Protocol, Scale
from paper.section6 import EXPERIMENTS


def find_run(
    source: str, scale: Scale | None = None, overrides: Sequence[str] = (), protocol: Protocol | None = None
) -> Experiment:
    """The run of a name in the catalogue, changed by overrides such as "training.epochs=5".

    ``scale`` is "smoke" if neither it nor ``protocol`` is given; recipes of a protocol are of the paper's scale. A
    .toml file is read as `operformer train` reads it.
    """
    if scale is not None and protocol is not None:
        raise UsageError(f"a protocol has its scale: got --scale {scale} and --protocol {protocol}; leave one out")
    if source.endswith((".toml", ".json")):
        if scale or protocol:
            raise UsageError(f"scale goes with a run's name: got {scale or protocol} with {source}; leave it out")
        return find_experiment(source, overrides)
    if protocol:
        return changed(recipe(source, protocol).to_mapping(), overrides)
    if source in OTHERS:
        raise UsageError(f"{source} is not of the paper and has a recipe only; give --protocol best")
    return changed(choose(EXPERIMENTS, source, "the run")[scale or "smoke"].to_mapping(), overrides)
