"""The command that prints the catalogue: experiments."""

from __future__ import annotations

import json as json_text
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

from operformer.commands.console import console

if TYPE_CHECKING:
    from operformer.runs.experiment import Experiment

Recipe = Literal["smoke", "authors"]
TFLOPS = 30.0
_COLUMNS = "{name:<29} {problem:<15} {operator:<11} {resolution:>4} {samples:>5} {epochs:>6} {parameters:>7} "
_COLUMNS += "{operations:>7} {time:>8}"
_HEADER = ("name", "problem", "operator", "grid", "train", "epochs", "params", "FLOPs", "training")
_KEYS = ("name", "problem", "operator", "resolution", "samples", "epochs", "parameters", "operations", "time")


def experiments(
    *,
    recipe: Recipe | None = None,
    json: bool = False,
    parameters: bool = False,
    tflops: float | None = None,
) -> None:
    """Print the catalogue: the runs of the paper's Section 6 by problem, and what they cost.

    FLOPs are those of one evaluation, by Appendix C. The time of a training is 3 evaluations (forward, and twice
    backward) as this library does them, for each sample in each epoch, at a rate: --tflops, or at smoke scale a fifth
    of what a product of matrices reaches here.

    Parameters
    ----------
    recipe
        smoke, which a laptop finishes (if not given), or authors, the paper's own training at its size.
    json
        Print JSON instead.
    parameters
        Print the number of parameters instead, line by line against the paper's; authors' sizes if none is given.
    tflops
        The rate in 1e12 operations a second; at the paper's size 30 if not given, about FANO's on one H200.
    """
    from operformer.errors import UsageError

    if tflops is not None and not 0 < tflops < 1e9:
        raise UsageError(f"tflops must be positive: got {tflops}; a laptop has about 0.1, a data centre's GPU 30")
    if parameters:
        _print_parameters(recipe or "authors", json)
    else:
        _print_costs(recipe or "smoke", json, tflops)


def _print_costs(recipe: Recipe, as_json: bool, tflops: float | None) -> None:
    from paper.cost import machine_rate

    if tflops is None and recipe == "smoke":
        rate, source = machine_rate(), "a fifth of a matrix product's on this machine"
    else:
        rate, source = (tflops or TFLOPS) * 1e12, "--tflops"
    rows = _cost_rows(recipe, rate)
    if as_json:
        print(json_text.dumps({"rate": rate, "experiments": rows}, indent=2))
        return
    _say(_COLUMNS.format(**dict(zip(_KEYS, _HEADER, strict=True))))
    for title in dict.fromkeys(row["title"] for row in rows):
        _say(f"\n{title}")
        for row in rows:
            if row["title"] == title:
                _say(_cost_line(row))
    total = _spoken(sum(row["training_seconds"] for row in rows))
    _say(f"\n{len(rows)} runs; training in all {total} at {rate / 1e12:.3g} TFLOP/s ({source}):")
    _say("3 x operations of an evaluation as done here x samples x epochs, without data and tests.")
    _say("\n" + fill("Recipe best: " + ", ".join(_names("best")), 100))
    _say(f"\nnext: python -m paper train NAME --recipe {recipe}")


def _names(recipe: str) -> list[str]:
    from paper.catalogue import rows

    return [row.name for row in rows(recipe=recipe)]


def _cost_rows(recipe: Recipe, rate: float) -> list[dict[str, Any]]:
    from paper.catalogue import rows
    from paper.cost import cost_of
    from paper.recipes import train_as

    found = []
    for row in rows(recipe=recipe):
        experiment = train_as(row, recipe)
        cost = cost_of(experiment)
        found.append(
            {
                "name": row.name,
                "title": row.problem,
                "exhibits": row.exhibits,
                "recipes": row.recipes,
                "in_print": row.printed.median,
                "problem": _law(experiment),
                "operator": row.operator,
                "resolution": experiment.data.resolution,
                "samples": experiment.data.train,
                "epochs": experiment.training.epochs,
                "parameters": cost.parameters,
                "operations": cost.evaluation,
                "training_operations": cost.training,
                "training_seconds": cost.seconds(rate),
            }
        )
    return found


def _cost_line(row: dict[str, Any]) -> str:
    shown = {
        "operator": row["operator"].replace("GalerkinTransformer", "Galerkin"),
        "parameters": _short(row["parameters"]),
        "operations": _short(row["operations"]),
        "time": _spoken(row["training_seconds"]),
    }
    return _COLUMNS.format(**(row | shown))


def _print_parameters(recipe: Recipe, as_json: bool) -> None:
    rows = _parameter_rows(recipe)
    if as_json:
        print(json_text.dumps({"recipe": recipe, "operators": rows}, indent=2))
        return
    _say(f"Parameters ({recipe}): what an operator has, Appendix C's formula, and what that leaves out.")
    for row in rows:
        printed = f"; the paper prints {_short(row['paper'])}" if row["paper"] else ""
        _say(f"\n{row['name']}: {_grouped(row['parameters'])}, {_short(row['parameters'])}{printed}")
        for line in row["lines"]:
            _say(f"{_grouped(line['count']):>14}  {line['what']}")
    _say("\nA complex number counts once. What is left between these and the paper's is in DESIGN.md.")


def _parameter_rows(recipe: Recipe) -> list[dict[str, Any]]:
    """One for each operator; those of several problems are counted once."""
    from paper.catalogue import rows
    from paper.parameters import parameter_lines
    from paper.recipes import train_as

    found: dict[Any, dict[str, Any]] = {}
    for row in rows(recipe=recipe):
        lines = parameter_lines(train_as(row, recipe))
        values = {
            "name": row.name,
            "parameters": sum(line.count for line in lines),
            "paper": row.printed.parameters if recipe == "authors" else None,
            "lines": [{"what": line.what, "count": line.count} for line in lines],
        }
        found.setdefault((row.operator, tuple(lines)), values)
    return list(found.values())


def _law(experiment: Experiment) -> str:
    """The problem's name among the laws; constants may differ at smoke scale."""
    from operformer.problems import LAWS

    kind = type(experiment.problem).__name__.lower()
    return next((name for name, law in LAWS.items() if law == experiment.problem), kind)


def _short(number: float) -> str:
    """5.98e5 for 598145."""
    mantissa, exponent = f"{number:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _spoken(seconds: float) -> str:
    """A duration as a person says it."""
    for most, unit, name in ((100, 1, "s"), (6000, 60, "min"), (100 * 3600, 3600, "h")):
        if seconds < most:
            return f"{seconds / unit:.2g} {name}"
    return f"{seconds / 86400:.3g} days"


def _grouped(count: int) -> str:
    """598 145 for 598145."""
    return f"{count:,}".replace(",", " ")


def _say(text: str) -> None:
    for line in text.split("\n"):  # the console shows each text on one line
        console.print(line, soft_wrap=True)
