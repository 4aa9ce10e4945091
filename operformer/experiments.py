"""Every run of Section 6.1 as a frozen value, at the paper's scale and at a scale that a laptop finishes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch

from operformer.data.imported import Imported
from operformer.errors import OperformerError, UsageError
from operformer.files import LARGEST_TEXT, read_bytes, read_json
from operformer.learning.training import Training
from operformer.operators import Operator
from operformer.operators.pretrained import OPERATORS
from operformer.problems import Problem
from operformer.problems.catalogue import LAWS, PROBLEMS, describe, problem_of
from operformer.problems.problem import check_seed
from operformer.settings import check_name, choose, construct

MOST_PAIRS = 10**8
FINEST = 10**15
KINDS: dict[str, type[Problem]] = PROBLEMS | {"Imported": Imported}
_NAME = re.compile(r"(?!\.)[^/\\\x00-\x1f\x7f]{1,100}")  # it may become a folder, but not one elsewhere
Scale = Literal["smoke", "paper"]


@dataclass(frozen=True)
class Data:
    """How many pairs to draw, at which resolution. Validation and test pairs follow the training pairs of the draw.

    ``folder`` is a set that `operformer generate` made of the same draw; training and validation pairs then come from
    it, a few at a time.
    """

    resolution: int = 200
    train: int = 8000
    validation: int = 1000
    test: int = 1000
    seed: int = 0
    coarser: tuple[int, ...] = ()  # resolutions to train on besides, from coarse to fine; see training.resolutions
    folder: str = ""

    def __post_init__(self) -> None:
        if list(self.coarser) != sorted({n for n in self.coarser if 1 <= n < self.resolution}):
            raise UsageError(
                f"data.coarser must rise to below data.resolution, {self.resolution}: got {list(self.coarser)}"
            )
        for name in ("resolution", "train", "validation", "test"):
            if getattr(self, name) < 1:
                raise UsageError(f"data.{name} must be at least 1: got {getattr(self, name)}")
            most = FINEST if name == "resolution" else MOST_PAIRS
            if getattr(self, name) > most:
                raise UsageError(f"data.{name} must be at most {most}: got {getattr(self, name)}")
        check_seed("data.seed", self.seed)


@dataclass(frozen=True)
class Experiment:
    """A problem, an operator for it (its name and its constructor's settings), the data and the training."""

    name: str
    problem: Problem
    operator: Mapping[str, Any] = field(default_factory=lambda: {"name": "TNO"})
    data: Data = field(default_factory=Data)
    training: Training = field(default_factory=Training)

    def make_operator(self) -> Operator:
        """A fresh operator; its first weights follow from the training's seed."""
        settings = dict(self.operator)
        make = choose(OPERATORS, settings.pop("name", None), "operator.name")
        known = {"in_channels": self.problem.in_channels, "out_channels": self.problem.out_channels}
        dim = self.problem.grid(self.data.resolution).dim
        if "dim" in signature(make).parameters:
            known["dim"] = dim
        with torch.random.fork_rng():
            torch.manual_seed(self.training.seed)
            operator = construct(make, settings, "operator", **known)
        if operator.dim != dim:
            raise UsageError(
                f"the operator has {operator.dim} axes, the problem {dim}; give operator.n_patches as many"
            )
        return operator

    def to_mapping(self) -> dict[str, Any]:
        """The experiment as nested plain values, which `parse` reads back."""
        return {
            "name": self.name,
            "problem": describe(self.problem),
            "operator": dict(self.operator),
            "data": asdict(self.data),
            "training": asdict(self.training),
        }


def parse(mapping: Mapping[str, Any]) -> Experiment:
    """The experiment that nested plain values describe."""
    if not isinstance(mapping, Mapping):
        raise UsageError(f"an experiment must be a table of settings: got {mapping!r}")
    for key, value in mapping.items():
        check_name(key, ["name", "problem", "operator", "data", "training"], f"unknown setting {key}")
        if key != "name" and not isinstance(value, Mapping):
            raise UsageError(f"{key} must be a table of settings: got {value!r}")
    name = mapping.get("name", "experiment")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"name must be a plain name for a folder, such as lorenz-y: got {name!r}")
    experiment = Experiment(
        name=name,
        problem=problem_of(mapping.get("problem", {}), KINDS),
        operator={"name": "TNO"} | dict(mapping.get("operator", {})),
        data=construct(Data, mapping.get("data", {}), "data"),
        training=construct(Training, mapping.get("training", {}), "training"),
    )
    _check_operator(experiment)
    return experiment


def _check_operator(experiment: Experiment) -> None:
    """Refuse an operator that does not fit, before anything is drawn or trained; without its memory."""
    try:
        with torch.device("meta"):
            experiment.make_operator()
    except RuntimeError as error:
        if isinstance(error, OperformerError):
            raise
        raise UsageError(f"the operator is too large to be counted ({error}); lower its settings") from None


def find_experiment(source: str, scale: Scale | None = None, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a name or of a .toml (or .json) file, changed by overrides such as "training.epochs=5".

    ``scale`` goes with a name; None is "smoke".
    """
    path = Path(source)
    if path.suffix in (".toml", ".json") and scale is not None:
        raise UsageError(f"scale goes with an experiment's name: got {scale} with {path}; leave it out")
    if path.suffix == ".toml":
        try:
            mapping = tomllib.loads(read_bytes(path, LARGEST_TEXT).decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{path} is not TOML: {error}") from None
    elif path.suffix == ".json":
        mapping = read_json(path)
    else:
        mapping = choose(EXPERIMENTS, source, "the experiment")[scale or "smoke"].to_mapping()
    if not isinstance(mapping, dict):
        raise UsageError(f"{path} must hold a table of settings: got {mapping!r}")
    for override in overrides:
        _apply(mapping, override)
    return parse(mapping)


def _apply(mapping: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    section, dot, name = key.partition(".")
    if not (equals and text) or (not dot and key != "name"):
        raise UsageError(f"an override is section.setting=value, such as training.epochs=5: got {override!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    if not dot:
        mapping["name"] = text
        return
    check_name(section, ["problem", "operator", "data", "training"], f"unknown setting {key}")
    table = mapping.get(section, {})
    kinds: dict[str, Any] = {**OPERATORS} if key == "operator.name" else {**KINDS}
    if key in ("operator.name", "problem.name") and isinstance(value, str) and value in kinds:
        # Settings of what it replaces that the new one does not have are not meant for it.
        table = {old: kept for old, kept in table.items() if old in signature(kinds[value]).parameters}
    mapping[section] = {**table, name: value}


def _scales(name: str, problem: Problem, **operator: Any) -> dict[Scale, Experiment]:
    paper = Experiment(name, problem, {"name": "TNO"} | operator)
    small = {"hidden_channels": 64, "n_layers": 4, "n_heads": 4}
    smoke = replace(
        paper,
        operator={"name": "TNO"} | small | operator,
        data=Data(resolution=100, train=2000, validation=100, test=200),
        training=Training(epochs=14, batch_size=32, learning_rate=2e-3, schedule="cosine"),
    )
    return {"smoke": smoke, "paper": paper}


EXPERIMENTS: dict[str, dict[Scale, Experiment]] = {
    "lorenz-y": _scales("lorenz-y", LAWS["lorenz-y"]),
    "lorenz-yz": _scales("lorenz-yz", LAWS["lorenz-yz"], initial_channels=2),
    # Paper: a second lift for y(0) and z(0). As ordinary constant channels they make the operator resolution-free.
    "lorenz-yz-invariant": _scales("lorenz-yz-invariant", LAWS["lorenz-yz"]),
    "controlled-ode": _scales("controlled-ode", LAWS["controlled-ode"]),
}


def as_plain_transformer(experiment: Experiment) -> Experiment:
    """The same experiment with the transformer of Vaswani et al. in place of the TNO."""
    settings = {
        key: value for key, value in experiment.operator.items() if key in ("hidden_channels", "n_layers", "n_heads")
    }
    return replace(experiment, name=f"{experiment.name}-transformer", operator={"name": "Transformer"} | settings)
