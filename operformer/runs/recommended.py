"""`operformer train SET --recipe NAME`: an experiment whose operator and training are chosen by its samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from operformer.data.manifest import MANIFEST
from operformer.data.store import open_pairs
from operformer.errors import UsageError
from operformer.operators import load
from operformer.problems.problem import Draws
from operformer.runs.experiment import Experiment, apply_override, parse, read_mapping, trained_place, trained_settings
from operformer.runs.folder import read_experiment
from operformer.runs.steps import training_pairs
from operformer.training.candidates import AUTO, check_recipe, recipe_of
from operformer.training.ranks import world_size
from operformer.training.recommend import recommend

KEPT = ("name", "problem", "data")  # of an experiment whose operator and training are chosen


def is_set(source: str) -> bool:
    """Whether it is the folder of a set of samples."""
    return (Path(source) / MANIFEST).is_file()


def recommended_experiment(
    source: str, overrides: Sequence[str], minutes: float, folder: Path, start: str = "", recipe: str = AUTO
) -> tuple[Experiment, tuple[str, ...]]:
    """The experiment, and in four lines what was chosen and why; the one that the folder holds is not chosen again.

    ``source`` is the folder of a set, whose last tenths validate and test, or an experiment's file or name, whose
    operator and training are left out. Overrides are kept. ``start`` is a trained operator to go on from, if any.
    """
    check_recipe(recipe)
    base = of_set(source) if is_set(source) else {k: v for k, v in read_mapping(source).items() if k in KEPT}
    base |= {"name": folder.resolve().name, "operator": {}, "training": {}}
    for override in overrides:
        apply_override(base, override)
    given = {name: base.pop(name) for name in ("operator", "training")}
    draft = parse(base | ({"start": start} if start else {}))
    if (folder / "experiment.json").is_file():
        return _resumed(draft, given, folder, recipe), ()
    if world_size() > 1:
        raise UsageError("one process chooses the recipe; start the training without torchrun, stop and resume it")
    if start:
        given["operator"] = trained_settings(start, given["operator"])
    pairs, _ = training_pairs(draft, Draws())
    trained = load(trained_place(start)) if start else None
    chosen = recommend(pairs[: draft.data.train], minutes, trained or given["operator"], given["training"], recipe)
    found = {"operator": given["operator"] if start else chosen.operator, "training": asdict(chosen.training)}
    return parse(draft.to_mapping() | found), chosen.reasons


def _resumed(draft: Experiment, given: Mapping[str, Mapping[str, Any]], folder: Path, recipe: str) -> Experiment:
    """The experiment that the folder holds, if it is on the same samples and as the overrides say."""
    there = read_experiment(folder)
    parts = ("problem", "data", "start")
    other = [f"its {part} differs" for part in parts if getattr(there, part) != getattr(draft, part)]
    mapping = there.to_mapping()
    for section, values in given.items():
        other += [f"{section}.{key} differs" for key, value in values.items() if mapping[section].get(key) != value]
    if recipe not in (AUTO, recipe_of(there.operator)):
        other.append(f"its recipe is {recipe_of(there.operator)}")
    if other:
        raise UsageError(f"{folder} holds another experiment ({other[0]}); give another --out")
    return there


def of_set(folder: str) -> dict[str, Any]:
    """An experiment on the samples of a set: eight tenths train, one validates, one tests."""
    pairs = open_pairs(folder)
    if len(pairs) < 10:
        raise UsageError(f"{folder} holds {len(pairs)} samples; a training needs at least 10")
    part = len(pairs) // 10
    data = {"train": len(pairs) - 2 * part, "validation": part, "test": part}
    return {"problem": {"name": "Imported", "folder": folder}, "data": data}
