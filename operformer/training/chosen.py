"""`train(..., recipe="auto")`: operator and training chosen by the samples, once for a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from operformer.domain import Pairs
from operformer.errors import DataError, UsageError
from operformer.files import read_json, write_json
from operformer.operators import Operator
from operformer.settings import construct, named
from operformer.terminal import Terminal
from operformer.training.candidates import AUTO, check_recipe, recipe_of
from operformer.training.ranks import world_size
from operformer.training.recipe import Training
from operformer.training.recommend import fresh, recommend

RECORD = "recipe.json"  # what was chosen: a training that resumes does not choose again

GivenOperator = Operator | Mapping[str, Any] | None
GivenTraining = Training | Mapping[str, Any] | None


@dataclass(frozen=True)
class Chosen:
    """An operator and how to train it; ``table`` are the settings of an operator that was chosen."""

    operator: Operator
    settings: Training
    table: Mapping[str, Any] | None = None

    def keep(self, folder: Path) -> None:
        """Note in the folder what was chosen, if anything was."""
        if self.table is not None and not (folder / RECORD).is_file():
            write_json(folder / RECORD, {"operator": dict(self.table), "training": asdict(self.settings)})


def as_given(operator: GivenOperator, settings: GivenTraining) -> Chosen:
    """Operator and training of a call without a recipe, which has to name both."""
    remedy = 'recipe="auto" chooses what is left out'
    if not isinstance(operator, Operator):
        raise UsageError(f"operator must be an Operator: got {named(operator)}; {remedy}")
    if not isinstance(settings, Training):
        raise UsageError(f"settings must be a Training: got {named(settings)}; {remedy}")
    return Chosen(operator, settings)


def by_recipe(
    recipe: str, minutes: float, operator: GivenOperator, settings: GivenTraining, samples: Pairs, folder: Path
) -> Chosen:
    """Operator and training by a recipe, where they are not given; those that the folder holds are kept."""
    check_recipe(recipe)
    start = operator if isinstance(operator, Operator) else None
    given: Mapping[str, Any] = {} if operator is None or isinstance(operator, Operator) else operator
    asked = asdict(settings) if isinstance(settings, Training) else dict(settings or {})
    if (folder / RECORD).is_file():
        table, how = _kept(folder, AUTO if start else recipe, given, asked)
        return Chosen(start or fresh(table, samples.channels, samples.grid.dim, how.seed), how, table)
    if world_size() > 1:
        raise UsageError("one process chooses the recipe; start the training without torchrun, stop and resume it")
    found = recommend(samples, minutes, start or given, asked, recipe)
    terminal = Terminal()
    for line in found.reasons:
        terminal.print(line, soft_wrap=True)
    return Chosen(found.make_operator(), found.training, _plain(found.operator))


def _kept(
    folder: Path, recipe: str, given: Mapping[str, Any], asked: Mapping[str, Any]
) -> tuple[dict[str, Any], Training]:
    """What was chosen for the folder; it must be as this call says."""
    record = read_json(folder / RECORD)
    try:
        table, how = dict(record["operator"]), construct(Training, record["training"], "training")
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(f"{folder / RECORD} is damaged ({error}); restore it, or train into another folder") from None
    other = [f"operator.{key}" for key, value in _plain(given).items() if table.get(key) != value]
    other += [f"training.{key}" for key, value in _plain(asked).items() if record["training"].get(key) != value]
    if recipe not in (AUTO, recipe_of(table)):
        other.append("the recipe")
    if other:
        raise UsageError(f"{folder} holds a training in which {other[0]} differs; train into another folder")
    return table, how


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Through JSON, which turns tuples into lists."""
    return dict(json.loads(json.dumps(values, default=lambda value: getattr(value, "plain", str(value)))))
