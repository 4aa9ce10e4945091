"""An experiment by its name or from a file, changed by overrides such as training.epochs=5."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from operformer.errors import UsageError
from operformer.files import LARGEST_TEXT, read_bytes, read_json
from operformer.operators.pretrained import OPERATORS
from operformer.runs.experiment import KINDS, Experiment, parse
from operformer.settings import check_name, choose

# Runs that come with the library: those of the demo and of the guides.
NAMED = {path.stem: path for path in sorted((Path(__file__).parent / "named").glob("*.toml"))}


def find_experiment(source: str, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a name in `NAMED` or of a .toml (or .json) file, changed by overrides."""
    path = Path(source)
    if path.suffix == ".json":
        return changed(read_json(path), overrides)
    if path.suffix == ".toml":
        return changed(_read_toml(path), overrides)
    if path.suffix:
        raise UsageError(
            f"an experiment is a name or a .toml file: got {source!r}; pairs of your own come in by operformer import, "
            "and examples/own.toml is an experiment on them"
        )
    return changed(_read_toml(choose(NAMED, source, "the experiment")), overrides)


def changed(mapping: Any, overrides: Sequence[str]) -> Experiment:
    """The experiment that nested plain values describe, changed by overrides."""
    if not isinstance(mapping, dict):
        raise UsageError(f"an experiment must be a table of settings: got {mapping!r}")
    for override in overrides:
        _apply(mapping, override)
    return parse(mapping)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bytes(path, LARGEST_TEXT).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None


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
