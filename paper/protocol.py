"""What a result may be called: of the paper's protocol, or of the best recipe; never both."""

from __future__ import annotations

import json
from typing import Any, get_args

import torch

from operformer.errors import ResourceError, UsageError
from operformer.runs.experiment import Experiment
from operformer.settings import differing
from paper.recipes import OTHERS, reference
from paper.scales import Protocol

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
# What may differ from the catalogue's run. Test pairs follow those of training and validation in the same draw, so with
# law, seed and counts fixed nothing of a test can have been trained on.
_FREE: dict[Protocol, tuple[str, ...]] = {
    "paper": ("training.", "data.folder"),
    "best": ("training.", "operator.", "data.folder", "data.coarser"),
}


def check_protocol(experiment: Experiment, protocol: Protocol) -> dict[str, tuple[Any, Any]]:
    """What differs from the catalogue's run at the paper's scale, as (there, here); refused if the protocol forbids it.

    "paper" fixes law, pairs, resolution and operator, and knows no augmentation; "best" fixes law, pairs and
    resolution of the tests.
    """
    if protocol == "paper" and experiment.name in OTHERS:
        raise UsageError(f"{experiment.name} is no run of the paper; give --protocol best")
    found = differing(_plain(reference(experiment.name)), _plain(experiment))
    for key, (there, here) in found.items():
        is_moved = key == "training.augment" and protocol == "paper"
        if is_moved or not key.startswith(_FREE[protocol]):
            said = f"{key} is {here!r} where the catalogue has {there!r}"
            raise UsageError(f"{experiment.name} does not follow the protocol {protocol}: {said}; train it again")
    return found


def _plain(experiment: Experiment) -> dict[str, Any]:
    """The experiment as JSON has it, all settings of its operator among them."""
    values = experiment.to_mapping()
    try:
        with torch.device("meta"):
            operator = experiment.make_operator()
            values["operator"] = {"name": operator.kind, "wrappers": list(operator.wrappers), **operator.settings}
    except ResourceError:  # a package is not installed: settings as they were given
        pass
    return json.loads(json.dumps(values))
