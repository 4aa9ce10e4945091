"""The command that lists the runs of Section 6: experiments."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Any, Literal

from operformer.commands.console import console

if TYPE_CHECKING:
    from operformer.runs.experiment import Experiment

Scale = Literal["smoke", "paper"]
TFLOPS = 30.0
_COLUMNS = "{name:<29} {problem:<15} {operator:<11} {resolution:>4} {pairs:>5} {epochs:>6} {parameters:>7} "
_COLUMNS += "{operations:>7} {time:>8}"
_HEADER = ("name", "problem", "operator", "grid", "pairs", "epochs", "params", "FLOPs", "training")
_KEYS = ("name", "problem", "operator", "resolution", "pairs", "epochs", "parameters", "operations", "time")


def experiments(
    *,
    scale: Scale | None = None,
    json: bool = False,
    parameters: bool = False,
    tflops: float | None = None,
) -> None:
    """List the runs of the paper's Section 6 by the tables and figures they belong to, and what they cost.

    FLOPs are those of one evaluation, by Appendix C. The time of a training is 3 evaluations (forth, and twice back) as
    this library does them, for each pair in each epoch, at a rate: --tflops, or at smoke scale a fifth of what a
    product of matrices reaches here.

    Parameters
    ----------
    scale
        smoke, which a laptop finishes (if not given), or the paper's.
    json
        Print JSON instead.
    parameters
        Print the number of parameters instead, line by line against the paper's; the paper's scale if none is given.
    tflops
        The rate in 1e12 operations a second; at the paper's scale 30 if not given, about FANO's on one H200.
    """
    from operformer.errors import UsageError

    if tflops is not None and not 0 < tflops < 1e9:
        raise UsageError(f"tflops must be positive: got {tflops}; a laptop has about 0.1, a data centre's GPU 30")
    if parameters:
        _print_parameters(scale or "paper", json)
    else:
        _print_costs(scale or "smoke", json, tflops)


def _print_costs(scale: Scale, as_json: bool, tflops: float | None) -> None:
    from paper.cost import machine_rate

    if tflops is None and scale == "smoke":
        rate, source = machine_rate(), "a fifth of a matrix product's on this machine"
    else:
        rate, source = (tflops or TFLOPS) * 1e12, "--tflops"
    rows = _cost_rows(scale, rate)
    if as_json:
        print(json_text.dumps({"rate": rate, "experiments": rows}, indent=2))
        return
    _say(_COLUMNS.format(**dict(zip(_KEYS, _HEADER, strict=True))))
    for exhibit in dict.fromkeys(row["exhibit"] for row in rows):
        _say(f"\n{exhibit}")
        for row in rows:
            if row["exhibit"] == exhibit:
                _say(_cost_line(row))
    total = _spoken(sum(row["training_seconds"] for row in rows))
    _say(f"\n{len(rows)} runs; training in all {total} at {rate / 1e12:.3g} TFLOP/s ({source}):")
    _say("3 x operations of an evaluation as done here x pairs x epochs, without drawing pairs and evaluating.")
    _say(f"next: operformer train NAME --scale {scale} --out runs/NAME")


def _cost_rows(scale: Scale, rate: float) -> list[dict[str, Any]]:
    from paper.cost import cost_of
    from paper.section6 import EXHIBITS

    rows = []
    for exhibit in EXHIBITS:
        for name, scales in exhibit.runs.items():
            experiment, cost = scales[scale], cost_of(scales[scale])
            rows.append(
                {
                    "name": name,
                    "exhibit": exhibit.title,
                    "scale": scale,
                    "problem": _law(experiment),
                    "operator": experiment.operator["name"],
                    "resolution": experiment.data.resolution,
                    "pairs": experiment.data.train,
                    "epochs": experiment.training.epochs,
                    "parameters": cost.parameters,
                    "operations": cost.evaluation,
                    "training_operations": cost.training,
                    "training_seconds": cost.seconds(rate),
                }
            )
    return rows


def _cost_line(row: dict[str, Any]) -> str:
    shown = {
        "operator": row["operator"].replace("GalerkinTransformer", "Galerkin"),
        "parameters": _short(row["parameters"]),
        "operations": _short(row["operations"]),
        "time": _spoken(row["training_seconds"]),
    }
    return _COLUMNS.format(**(row | shown))


def _print_parameters(scale: Scale, as_json: bool) -> None:
    rows = _parameter_rows(scale)
    if as_json:
        print(json_text.dumps({"scale": scale, "operators": rows}, indent=2))
        return
    _say(f"Parameters at {scale} scale: what an operator has, Appendix C's formula, and what that leaves out.")
    for row in rows:
        printed = f"; the paper prints {_short(row['paper'])}" if row["paper"] else ""
        _say(f"\n{row['name']}: {_grouped(row['parameters'])}, {_short(row['parameters'])}{printed}")
        for line in row["lines"]:
            _say(f"{_grouped(line['count']):>14}  {line['what']}")
    _say("\nA complex number counts once. What is left between these and the paper's is in DESIGN.md.")


def _parameter_rows(scale: Scale) -> list[dict[str, Any]]:
    """One for each operator; those of several problems are counted once."""
    from paper.parameters import PRINTED, parameter_lines
    from paper.section6 import EXPERIMENTS

    rows: dict[Any, dict[str, Any]] = {}
    for name, scales in EXPERIMENTS.items():
        lines = parameter_lines(scales[scale])
        row = {
            "name": name,
            "parameters": sum(line.count for line in lines),
            "paper": PRINTED.get(name) if scale == "paper" else None,
            "lines": [{"what": line.what, "count": line.count} for line in lines],
        }
        rows.setdefault((scales[scale].operator["name"], tuple(lines)), row)
    return list(rows.values())


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
    console.print(text, soft_wrap=True)
