"""The card of a trained operator: README.md beside its weights, from the record of its run, as the Hub reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from operformer import __version__
from operformer.errors import DataError
from operformer.files import LARGEST_TEXT, read_bytes, write_bytes
from operformer.operators.pretrained import SHIPPED, check_weights, weights_hash
from operformer.runs import Run
from operformer.runs.experiment import NAMED, find_experiment
from operformer.runs.report.tables import (
    UNKNOWN_WEIGHTS,
    Table,
    error_table,
    grid_name,
    percent,
    settings_table,
    spoken_operator,
)
from operformer.text import markdown

PAPER = """@article{calvello2025continuum,
  title = {Continuum Attention for Neural Operators},
  author = {Calvello, Edoardo and Kovachki, Nikola B. and Levine, Matthew E. and Stuart, Andrew M.},
  journal = {Journal of Machine Learning Research},
  volume = {26},
  year = {2025}
}"""


def write_card(run: Run, path: Path, name: str = "owner/name", licence: str | None = None) -> None:
    """Put the card at the path; ``name`` is what it is called on the Hub, or its folder."""
    write_bytes(path, card(run, name, licence).encode())


def card(
    run: Run, name: str = "owner/name", licence: str | None = None, loader: str = "from_pretrained", weights: str = ""
) -> str:
    """Front matter for machines, then how to load the operator, its errors by grid, what it was made of, the paper.

    ``weights`` is the hash of the files that the card lies beside, if they are not those of the run.
    """
    experiment = run.experiment
    operator = spoken_operator(experiment.operator["name"])
    data, training = experiment.data, experiment.training
    return "\n".join(
        [
            "---",
            *(f"{key}: {_quoted(value)}" for key, value in _front_matter(run, licence, weights or run.weights).items()),
            "---",
            "",
            f"# {markdown(experiment.name)}",
            "",
            f"A neural operator ({operator}, {run.parameters:,} parameters) for {markdown(_maps(run))}. Made "
            f"with operformer {__version__}; physical units in and out. {_evaluated(run)}",
            "",
            "```python",
            *_loading(run, name, loader),
            "```",
            "",
            f"## {error_table([run]).title}",
            "",
            f"{data.test} test samples, the same on every grid.{_origin(run)}",
            "",
            error_table([run]).markdown(),
            "",
            "## Training",
            "",
            f"{_pairs(run)}, {len(run.metrics)} of {training.epochs} epochs in "
            f"{run.seconds:.0f} s{markdown(_where(run))}, validated on {data.validation}.{_scale(run)}",
            "",
            settings_table([run]).markdown(),
            "",
            "## Citation",
            "",
            "```bibtex",
            PAPER,
            "```",
            "",
        ]
    )


def _evaluated(run: Run) -> str:
    """On which grids its errors are known, and no others are spoken of."""
    others = len(run.evaluations) - 1
    if not others:
        return "It was evaluated on the grid that it was trained on, and on no other."
    return f"It was evaluated on the grid that it was trained on and on {others} other{'s' if others > 1 else ''}."


def channels(run: Run) -> str:
    """What is mapped to what."""
    return " to ".join(map(", ".join, run.experiment.problem.labels))


def _maps(run: Run) -> str:
    """The law, by its name if it has one, and what is mapped to what."""
    return f"{run.experiment.law}: {channels(run)}"


def read_front_matter(path: Path) -> dict[str, Any]:
    """What the card at the path says to machines."""
    lines = read_bytes(path, LARGEST_TEXT).decode(errors="replace").partition("\n---\n")[0].splitlines()[1:]
    try:
        return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in lines)}
    except ValueError as error:
        raise DataError(f"{path} is no card of a model ({error}); write it again") from None


def model_table(models: Path = SHIPPED) -> Table:
    """The models that come with the library: what they map, what they were trained on, their errors and sizes."""
    header = ("model", "maps", "operator", "parameters", "trained on", "median", "worst", "size")
    rows = []
    for path in sorted(models.glob("*/README.md")):
        try:
            check_card(path)
            said = read_front_matter(path)["operformer"]
            errors = (percent(said["median"]), percent(said["worst"]))
            what = (said["maps"], said["operator"], f"{said['parameters']:,}", said["trained"])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path} says too little of its model ({error!r}); ship it again") from None
        size = sum(file.stat().st_size for file in path.parent.iterdir())
        rows.append((path.parent.name, *what, *errors, f"{size / 1e6:.2f} MB"))
    return Table('Models: operformer.load("NAME")', header, tuple(rows))


def _quoted(value: Any) -> str:
    """A value as JSON, in which nothing is a tag."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e")


def check_card(path: Path) -> None:
    """Refuse a card that lies beside other weights than it was written for; earlier cards do not say."""
    said = read_front_matter(path).get("operformer", {})
    made = said.get("weights", "") if isinstance(said, dict) else ""
    if made:
        check_weights(str(made), path, weights_hash(path.parent), "operformer card RUN")


def _origin(run: Run) -> str:
    return "" if run.is_hashed else f" {UNKNOWN_WEIGHTS[0].upper()}{UNKNOWN_WEIGHTS[1:]}."


def _where(run: Run) -> str:
    return f" on {run.made['device']}" if run.made.get("device") else ""


def _scale(run: Run) -> str:
    """A remark for a run that comes with the library and that a laptop finishes."""
    name = run.experiment.name
    if name not in NAMED or run.experiment.data != find_experiment(name).data:
        return ""
    return " This is a small run, trained in minutes: an example, not a result."


def _front_matter(run: Run, licence: str | None, weights: str) -> dict[str, Any]:
    """What the Hub indexes; values are JSON, which YAML takes as they are."""
    experiment = run.experiment
    problem = experiment.to_mapping()["problem"]["name"]
    metrics = [
        {"type": "relative-l2", "name": f"median relative L2 error, {grid_name(e.label)}", "value": e.median}
        for e in run.evaluations
    ]
    result = {
        "task": {"type": "operator-learning", "name": "operator learning"},
        "dataset": {"type": problem.lower(), "name": problem},
        "metrics": metrics,
    }
    return {
        **({"license": licence} if licence else {}),
        "library_name": "operformer",
        "tags": ["neural-operator", "operformer", str(experiment.operator["name"]).lower(), problem.lower()],
        "model-index": [{"name": experiment.name, "results": [result]}],
        "operformer": {
            "operator": spoken_operator(experiment.operator["name"]),
            "parameters": run.parameters,
            "maps": _maps(run),
            "trained": f"{_pairs(run)}{_where(run)}{', a small run' if _scale(run) else ''}",
            "median": run.evaluation("1x").median,
            "worst": run.evaluation("1x").worst,
            "weights": weights,
        },
    }


def _pairs(run: Run) -> str:
    """How many pairs it was trained on, and where they are known."""
    data, problem = run.experiment.data, run.experiment.problem
    if not problem.has_law:
        points = " x ".join(map(str, problem.grid(data.resolution).shape))
        return f"{data.train} samples on {points} points"
    return f"{data.train} samples at resolution {' and '.join(map(str, (*data.coarser, data.resolution)))}"


def _loading(run: Run, name: str, loader: str) -> list[str]:
    """Lines that load and apply the operator, to u (batch, channels, *shape)."""
    grid = run.experiment.problem.grid(run.experiment.data.resolution)
    where = "grid)  # such as Grid.rectilinear(x, y) or Grid.scattered(points): where the values of u lie"
    if grid.is_uniform:
        where = f'Grid.uniform(u.shape[2:], {list(grid.bounds)}, kind="{grid.kind}"))'
    return [
        f"from operformer import Grid, {loader}",
        "",
        f"operator = {loader}({_quoted(name)})",
        f"z = operator(u, {where}",
    ]
