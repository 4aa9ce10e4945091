"""The explorer of a page: samples on each grid, and what each operator made of them, to choose from in a browser."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from operformer.errors import DataError
from operformer.operators.pretrained import check_weights
from operformer.runs.folder import Run
from operformer.runs.gallery import Shown, read_gallery
from operformer.runs.report.encoding import Array, encode_errors, encode_floats, encode_values
from operformer.runs.report.figures import ERRORS, INPUT, PREDICTION, TRUTH
from operformer.runs.report.tables import grid_name, percent, run_names
from operformer.text import plain

MOST = 96  # points along an axis of a picture on the page
INK = {"input": INPUT, "truth": TRUTH, "prediction": PREDICTION, "error": ERRORS[0]}


@dataclass(frozen=True, eq=False)
class Exhibit:
    """What one operator does on one problem, by the label of the grid ("0.5x", "1x", "irregular")."""

    problem: str
    operator: str
    input_names: Sequence[str]
    output_names: Sequence[str]
    views: Mapping[str, Shown]
    points: Mapping[str, int | tuple[int, ...]]  # of the grids as evaluated: how many, or their shape
    absent: Mapping[str, str] = field(default_factory=dict)  # labels of grids that the operator cannot take, and why

    def __post_init__(self) -> None:
        for label, shown in self.views.items():
            _check(self, label, shown)


def exhibits_of(runs: Sequence[Run], folders: Sequence[Path]) -> list[Exhibit]:
    """What the evaluations of runs left in their folders; nothing of those that were evaluated without a gallery."""
    found = []
    for run, folder, name in zip(runs, folders, run_names(runs), strict=True):
        if (folder / "gallery.npz").is_file():
            problem = run.experiment.problem
            points = {evaluation.label: evaluation.points for evaluation in run.evaluations}
            names = problem.labels
            gallery = read_gallery(folder / "gallery.npz")
            check_weights(gallery.weights, folder / "gallery.npz", run.weights, f"operformer evaluate {folder}")
            found.append(Exhibit(run.experiment.name, name, *names, gallery, points))
    # Runs of one page are of one problem, whatever their experiments are called.
    return [replace(exhibit, problem=found[0].problem) for exhibit in found]


def explorer_data(exhibits: Sequence[Exhibit]) -> dict[str, Any]:
    """What the page's script needs, as plain values; functions that several operators share stand there once."""
    names = [(exhibit.problem, exhibit.operator) for exhibit in exhibits]
    for problem, operator in names:
        if names.count((problem, operator)) > 1:
            raise DataError(f"two exhibits of {problem} are called {operator}; give the operators names of their own")
    for exhibit in exhibits:
        _check_channels(exhibit, next(other for other in exhibits if other.problem == exhibit.problem))
    axes: dict[Any, int] = {}
    pictures: dict[Any, int] = {}
    problems = []
    for problem in dict.fromkeys(exhibit.problem for exhibit in exhibits if exhibit.views):
        group = [exhibit for exhibit in exhibits if exhibit.problem == problem]
        problems.append(
            {
                "name": plain(problem),
                "inputs": [plain(name) for name in group[0].input_names],
                "outputs": [plain(name) for name in group[0].output_names],
                "grids": [_grid(label) for label in _labels(group)],
                "operators": [_operator(exhibit, _labels(group), axes, pictures) for exhibit in group],
            }
        )
    tables = {name: _colours(name) for name in ("viridis", "magma")}
    return {"problems": problems, "axes": list(axes), "pictures": list(pictures), "colours": tables, "ink": INK}


def _grid(label: str) -> Any:
    name = grid_name(label)
    return {"label": label, "name": name, "short": name.removesuffix(" resolution").removesuffix(" grid")}


def _operator(exhibit: Exhibit, labels: Sequence[str], axes: dict[Any, int], pictures: dict[Any, int]) -> Any:
    default = f"{exhibit.operator} was not evaluated there"
    return {
        "name": plain(exhibit.operator),
        "views": {label: _view(exhibit, label, axes, pictures) for label in labels if label in exhibit.views},
        "absent": {label: exhibit.absent.get(label, default) for label in labels if label not in exhibit.views},
    }


def _view(exhibit: Exhibit, label: str, axes: dict[Any, int], pictures: dict[Any, int]) -> Any:
    shown = exhibit.views[label]
    coordinates = (shown.x,) if shown.y is None else (shown.x, shown.y)
    chosen = [_chosen(axis, drawn=len(coordinates) == 2) for axis in coordinates]
    u, z, prediction = (_at(values, chosen) for values in (shown.u, shown.z, shown.prediction))
    with np.errstate(invalid="ignore"):  # infinity less infinity
        off = prediction.astype(np.float64) - z.astype(np.float64)
    return {
        "size": _size(exhibit.points[label], [len(axis) for axis in chosen]),
        "axes": [
            _number(axes, encode_floats(axis[order])) for axis, order in zip(coordinates, chosen, strict=True)
        ],
        "samples": [
            {
                "draw": int(shown.index[k]),
                "error": percent(float(shown.errors[k])),
                "u": [_number(pictures, encode_values(channel)) for channel in u[k]],
                "z": [_number(pictures, encode_values(channel)) for channel in z[k]],
                "e": [_number(pictures, encode_errors(channel)) for channel in off[k]],
            }
            for k in range(len(shown.index))
        ],
    }  # fmt: skip


def _chosen(axis: Array, drawn: bool) -> Array:
    """Positions along an axis, in order; for a picture at most 96, so that what is seen are values at points."""
    order = np.argsort(axis, kind="stable")
    if not drawn or len(order) <= MOST:
        return order
    return order[np.rint(np.linspace(0, len(order) - 1, MOST)).astype(int)]


def _at(values: Array, chosen: Sequence[Array]) -> Array:
    for place, order in enumerate(chosen):
        values = np.take(values, order, axis=2 + place)
    return values


def _number(pool: dict[Any, int], value: Any) -> int:
    """The place of a value among those that were met; a new one goes to the end."""
    return pool.setdefault(value, len(pool))


def _size(points: int | tuple[int, ...], shown: Sequence[int]) -> str:
    shape = (points,) if isinstance(points, int) else tuple(points)
    if prod(shape) == prod(shown):
        return f"{' × '.join(map(str, shown))} points"
    return f"{' × '.join(f'{n:,}' for n in shape)} points, {' × '.join(map(str, shown))} of them drawn"


def _labels(group: Sequence[Exhibit]) -> list[str]:
    """Uniform grids by their resolution, then the others as they come."""
    labels = list(dict.fromkeys(label for exhibit in group for label in (*exhibit.views, *exhibit.absent)))
    return sorted(labels, key=lambda label: float(label[:-1]) if label.endswith("x") else float("inf"))


def _colours(name: str) -> str:
    """256 colours, red, green and blue, a byte each."""
    table = mpl.colormaps[name](np.arange(256), bytes=True)[:, :3]
    return base64.b64encode(np.ascontiguousarray(table).tobytes()).decode()


def _check_channels(one: Exhibit, other: Exhibit) -> None:
    for ours, theirs in ((one.input_names, other.input_names), (one.output_names, other.output_names)):
        if tuple(ours) != tuple(theirs):
            both = f"{', '.join(theirs)} for {other.operator} and {', '.join(ours)} for {one.operator}"
            raise DataError(f"the channels of {one.problem} are {both}; call them two problems")


def _check(exhibit: Exhibit, label: str, shown: Shown) -> None:
    size = (len(shown.x),) if shown.y is None else (len(shown.x), len(shown.y))
    count = len(shown.index)
    inputs, outputs = ((count, len(names), *size) for names in (exhibit.input_names, exhibit.output_names))
    expected = {"u": inputs, "z": outputs, "prediction": outputs, "errors": (count,)}
    for name, shape in expected.items():
        found = np.shape(getattr(shown, name))
        if found != shape:
            where = f"{exhibit.operator} on {exhibit.problem}, grid {label}"
            raise DataError(f"{where}: {name} has the shape {found}, expected {shape}; evaluate the run again")
    if label not in exhibit.points:
        raise DataError(f"{exhibit.operator} on {exhibit.problem}: the number of points of grid {label} is missing")
