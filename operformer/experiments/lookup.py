"""An experiment by its name in the catalogue or from a file, changed by overrides."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from operformer.errors import UsageError
from operformer.experiments.experiment import KINDS, Experiment, Protocol, Scale, parse
from operformer.experiments.recipes import OTHERS, recipe
from operformer.experiments.section6 import EXPERIMENTS
from operformer.files import LARGEST_TEXT, read_bytes, read_json
from operformer.operators.pretrained import OPERATORS
from operformer.settings import check_name, choose


def find_experiment(
    source: str, scale: Scale | None = None, overrides: Sequence[str] = (), protocol: Protocol | None = None
) -> Experiment:
    """The experiment of a name or of a .toml (or .json) file, changed by overrides such as "training.epochs=5".

    ``scale`` or ``protocol``, whose recipes are of the paper's scale, go with a name; None is "smoke".
    """
    if scale is not None and protocol is not None:
        raise UsageError(f"a protocol has its scale: got --scale {scale} and --protocol {protocol}; leave one out")
    path = Path(source)
    if path.suffix in (".toml", ".json") and (scale or protocol):
        raise UsageError(f"scale goes with an experiment's name: got {scale or protocol} with {path}; leave it out")
    if path.suffix == ".toml":
        try:
            mapping = tomllib.loads(read_bytes(path, LARGEST_TEXT).decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{path} is not TOML: {error}") from None
    elif path.suffix == ".json":
        mapping = read_json(path)
    elif protocol:
        mapping = recipe(source, protocol).to_mapping()
    elif path.suffix:
        raise UsageError(
            f"an experiment is a name or a .toml file: got {source!r}; pairs of your own come in by operformer import, "
            "and examples/own.toml is an experiment on them"
        )
    elif source in OTHERS:
        raise UsageError(f"{source} is not of the paper and has a recipe only; give --protocol best")
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
