"""An experiment: a problem, an operator, data and a training as one frozen value, which plain values describe."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from operformer.data.store import Imported
from operformer.errors import DataError, OperformerError, ResourceError, UsageError
from operformer.files import LARGEST_TEXT, read_bytes, read_json
from operformer.operators import Operator, load
from operformer.operators.earlier import today, with_hard_patches
from operformer.operators.pretrained import OPERATORS, make_operator
from operformer.problems import LAWS, PROBLEMS, Problem, describe, problem_of
from operformer.problems.problem import check_seed
from operformer.settings import check_name, choose, construct
from operformer.training.recipe import Training
from operformer.values import parse_toml, parse_value

MOST_PAIRS = 10**8
FINEST = 10**15
KINDS: dict[str, type[Problem]] = PROBLEMS | {"Imported": Imported}
_NAME = re.compile(r"(?!\.)[^/\\\x00-\x1f\x7f]{1,100}")  # it may become a folder, but not one elsewhere


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
    """A problem, an operator for it (its name and its constructor's settings), the data and the training.

    ``start`` is a trained operator to begin with: the folder of a run or of an operator, or a model's name.
    """

    name: str
    problem: Problem
    operator: Mapping[str, Any] = field(default_factory=lambda: {"name": "TNO"})
    data: Data = field(default_factory=Data)
    training: Training = field(default_factory=Training)
    start: str = ""

    def __post_init__(self) -> None:
        make = OPERATORS.get(str(self.operator.get("name")))
        known = signature(make).parameters if make else {}
        if "overlap" in known and "overlap" not in self.operator:  # said in files, since files without it mean none
            object.__setattr__(self, "operator", {**self.operator, "overlap": known["overlap"].default})

    def make_operator(self) -> Operator:
        """A fresh operator; its first weights follow from the training's seed."""
        problem, dim = self.problem, len(self.problem.bounds)
        with torch.random.fork_rng():
            torch.manual_seed(self.training.seed)
            operator = make_operator(
                self.operator, "operator", in_channels=problem.in_channels, out_channels=problem.out_channels, dim=dim
            )
        if operator.dim != dim:
            raise UsageError(
                f"the operator has {operator.dim} axes, the problem {dim}; give one number per axis of the problem"
            )
        return operator

    @property
    def law(self) -> str:
        """The name of the problem's law, or of its class if it has other constants."""
        return next((name for name, known in LAWS.items() if known == self.problem), type(self.problem).__name__)

    def to_mapping(self) -> dict[str, Any]:
        """The experiment as nested plain values, which `parse` reads back."""
        return {
            "name": self.name,
            "problem": describe(self.problem),
            "operator": dict(self.operator),
            "data": asdict(self.data),
            "training": asdict(self.training),
        } | ({"start": self.start} if self.start else {})


def parse(mapping: Mapping[str, Any]) -> Experiment:
    """The experiment that nested plain values describe."""
    if not isinstance(mapping, Mapping):
        raise UsageError(f"an experiment must be a table of settings: got {mapping!r}")
    for key, value in mapping.items():
        check_name(key, ["name", "problem", "operator", "data", "training", "start"], f"unknown setting {key}")
        if key == "start" and not isinstance(value, str):
            raise UsageError(f"start must be the folder of a trained operator: got {value!r}")
        if key not in ("name", "start") and not isinstance(value, Mapping):
            raise UsageError(f"{key} must be a table of settings: got {value!r}")
    name = mapping.get("name", "experiment")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not name.isprintable():
        raise UsageError(f"name must be a plain name for a folder, such as lorenz-y: got {name!r}")
    experiment = Experiment(
        name=name,
        problem=problem_of(mapping.get("problem", {}), KINDS),
        operator=_operator(mapping.get("operator", {})),
        data=construct(Data, mapping.get("data", {}), "data"),
        training=construct(Training, mapping.get("training", {}), "training"),
        start=mapping.get("start", ""),
    )
    _check_operator(experiment)
    _check_resolutions(experiment)
    return experiment


def parse_stored(mapping: Any) -> Experiment:
    """The experiment that the file of a run or of a record holds."""
    if isinstance(mapping, Mapping) and isinstance(mapping.get("operator"), Mapping):
        operator = mapping["operator"]
        mapping = {**mapping, "operator": with_hard_patches(operator.get("name"), operator)}
    return parse(mapping)


def _operator(given: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's table under today's names, the wrappers in it only if there are any."""
    name, settings, wrappers = today(given.get("name", "TNO"), {key: given[key] for key in given if key != "name"})
    return {"name": name, **settings} | ({"wrappers": wrappers} if wrappers else {})


def _check_operator(experiment: Experiment) -> None:
    """Refuse an operator that does not fit, before anything is drawn or trained; without its memory."""
    try:
        with torch.device("meta"):
            experiment.make_operator()
    except ResourceError:  # a package is not installed: who trains is told, who lists or reads is not concerned
        return
    except RuntimeError as error:
        if isinstance(error, OperformerError):
            raise
        raise UsageError(f"the operator is too large to be counted ({error}); lower its settings") from None


def _check_resolutions(experiment: Experiment) -> None:
    """Refuse a resolution that the problem has no grid of, before anything is drawn; without the grid's memory."""
    for resolution in (*experiment.data.coarser, experiment.data.resolution):
        try:
            with torch.device("meta"):
                experiment.problem.grid(resolution)
        except RuntimeError as error:
            if isinstance(error, OperformerError):
                raise
            raise UsageError(f"a grid of resolution {resolution} is too large; lower data.resolution") from None


# Runs that come with the library: those of the demo and of the guides.
NAMED = {path.stem: path for path in sorted((Path(__file__).parent / "named").glob("*.toml"))}


def find_experiment(source: str, overrides: Sequence[str] = (), start: str = "") -> Experiment:
    """The experiment of a name in `NAMED` or of a .toml (or .json) file, changed by overrides.

    With ``start`` its operator is that trained one, and overrides of it have to be the same.
    """
    mapping = read_mapping(source)
    if start and isinstance(mapping, dict):
        given: dict[str, Any] = {"operator": {}}
        for override in overrides:
            if override.startswith("operator."):
                apply_override(given, override)
        mapping |= {"start": start, "operator": trained_settings(start, given["operator"])}
    return changed(mapping, overrides)


def read_mapping(source: str) -> Any:
    """The nested plain values of a name in `NAMED` or of a .toml (or .json) file."""
    path = Path(source)
    if path.suffix == ".json":
        return read_json(path)
    if path.suffix == ".toml":
        return _read_toml(path)
    if path.suffix:
        raise UsageError(
            f"an experiment is a name or a .toml file: got {source!r}; samples of your own come in by operformer "
            "import, and the folder that it makes is trained on"
        )
    return _read_toml(choose(NAMED, source, "the experiment"))


def trained_place(start: str) -> str:
    """Where a trained operator is: inside a run, or where the name or the folder says."""
    inside = Path(start) / "operator"
    return str(inside) if inside.is_dir() else start


def trained_settings(start: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a trained operator; settings that are given have to be the same."""
    found = load(trained_place(start))
    table = {"name": found.kind, **found.settings} | ({"wrappers": list(found.wrappers)} if found.wrappers else {})
    plain = json.loads(json.dumps(table))
    for key, value in given.items():
        if plain.get(key) != value:
            raise UsageError(
                f"operator.{key} is {plain.get(key)!r} in {start}, whose weights belong to it; leave it out"
            )
    return {key: value for key, value in plain.items() if key not in ("dim", "in_channels", "out_channels")}


def changed(mapping: Any, overrides: Sequence[str]) -> Experiment:
    """The experiment that nested plain values describe, changed by overrides."""
    if not isinstance(mapping, dict):
        raise UsageError(f"an experiment must be a table of settings: got {mapping!r}")
    for override in overrides:
        apply_override(mapping, override)
    return parse(mapping)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        text = read_bytes(path, LARGEST_TEXT).decode()
        return parse_toml(text)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise UsageError(f"{path} is not TOML: {error}") from None


def apply_override(mapping: dict[str, Any], override: str) -> None:
    """Change one setting of nested plain values, as section.setting=value says."""
    key, equals, text = override.partition("=")
    section, dot, name = key.partition(".")
    if not (equals and text) or (not dot and key != "name"):
        raise UsageError(f"an override is section.setting=value, such as training.epochs=5: got {override!r}")
    value = parse_value(text, key)
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
