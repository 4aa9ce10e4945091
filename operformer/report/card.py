"""The card of a trained operator: README.md beside its weights, from the record of its run, as the Hub reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from operformer import __version__
from operformer.domain.grid import UniformKind
from operformer.files import write_bytes
from operformer.problems.catalogue import describe
from operformer.report.tables import error_table, grid_name, settings_table
from operformer.run import Run

PAPER = """@article{calvello2025continuum,
  title = {Continuum Attention for Neural Operators},
  author = {Calvello, Edoardo and Kovachki, Nikola B. and Levine, Matthew E. and Stuart, Andrew M.},
  journal = {Journal of Machine Learning Research},
  volume = {26},
  year = {2025}
}"""


def write_card(run: Run, path: Path, name: str = "owner/name", licence: str = "mit") -> None:
    """Put the card at the path; ``name`` is what it is called on the Hub, or its folder."""
    write_bytes(path, card(run, name, licence).encode())


def card(run: Run, name: str = "owner/name", licence: str = "mit") -> str:
    """Front matter for machines, then how to load the operator, its errors by grid, what it was made of, the paper."""
    experiment = run.experiment
    operator, problem = experiment.operator["name"], type(experiment.problem).__name__
    data, training = experiment.data, experiment.training
    inputs, outputs = (", ".join(names) for names in (experiment.problem.input_names, experiment.problem.output_names))
    return "\n".join(
        [
            "---",
            *(f"{key}: {json.dumps(value)}" for key, value in _front_matter(run, licence).items()),
            "---",
            "",
            f"# {experiment.name}",
            "",
            f"A neural operator ({operator}, {run.parameters:,} parameters) for {problem}: {inputs} to {outputs}. Made "
            f"with operformer {__version__}; physical units in and out, on grids it was not trained on.",
            "",
            "```python",
            *_loading(run, name),
            "```",
            "",
            f"## {error_table([run]).title}",
            "",
            f"{data.test} test pairs, the same draws on every grid.",
            "",
            error_table([run]).markdown(),
            "",
            "## Training",
            "",
            f"{data.train} pairs at resolution {data.resolution}, {len(run.metrics)} of {training.epochs} epochs in "
            f"{run.seconds:.0f} s, validated on {data.validation}.",
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


def _front_matter(run: Run, licence: str) -> dict[str, Any]:
    """What the Hub indexes; values are JSON, which YAML takes as they are."""
    experiment = run.experiment
    problem = describe(experiment.problem)["name"]
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
        "license": licence,
        "library_name": "operformer",
        "tags": ["neural-operator", "operformer", str(experiment.operator["name"]).lower(), problem.lower()],
        "model-index": [{"name": experiment.name, "results": [result]}],
    }


def _loading(run: Run, name: str) -> list[str]:
    """Three lines that load and apply the operator, to u (batch, channels, *shape)."""
    grid = run.experiment.problem.grid(run.experiment.data.resolution)
    where = "grid)  # such as Grid.rectilinear(x, y) or Grid.scattered(points): where the values of u lie"
    if grid.kind in get_args(UniformKind):
        where = f'Grid.uniform(u.shape[2:], {list(grid.bounds)}, kind="{grid.kind}"))'
    return [
        "from operformer import Grid, from_pretrained",
        f"operator = from_pretrained({json.dumps(name)})",
        f"z = operator(u, {where}",
    ]
