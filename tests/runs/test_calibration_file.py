"""calibration.json: what is read is what was written, on every kind of grid; damage is one line."""

import json

import pytest
import torch

from operformer import Grid
from operformer.errors import DataError
from operformer.evaluation.conformal import Calibration, Coverage
from operformer.runs.records import read_calibration, write_calibration

GRIDS = [
    Grid.uniform((3, 5), [(0, 2), (1, 4)]),
    Grid.uniform((2, 7), kind="cells"),
    Grid.uniform(11, [(0, 6.283185307179586)], kind="periodic"),
    Grid.rectilinear([0.3, 0.0, 1.0], [0.0, 0.1, 0.7, 2.0, 1.1], bounds=[(0, 1), (-1, 3)]),
    Grid.scattered(torch.rand(13, 2, generator=torch.Generator().manual_seed(0)), bounds=[(0, 1), (0, 2)]),
    Grid.scattered([[0.1], [0.7], [0.2]], [0.2, 0.5, 0.3]),
]


def calibration(grid):
    spread = 0.1 + torch.rand(2, *grid.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return Calibration(0.1, 0.05, 17, 2.5, 1 / 3, spread, grid)


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_what_is_read_is_what_was_written(tmp_path, grid):
    written, path = calibration(grid), tmp_path / "calibration.json"
    write_calibration(written, {"1x": Coverage(7, 0.9, 0.95, 0.8, 0.3)}, path)
    found = read_calibration(path)
    for name in ("alpha", "delta", "count", "factor", "relative_error"):
        assert getattr(found, name) == getattr(written, name)
    assert torch.equal(found.spread, written.spread)
    assert (found.grid.kind, found.grid.bounds) == (grid.kind, grid.bounds)
    assert torch.equal(found.grid.points, grid.points)
    assert torch.equal(found.grid.weights, grid.weights)
    assert json.loads(path.read_text())["coverage"]["1x"]["functions"] == 0.9


def changed(**changes):
    def change(values):
        return {key: value for key, value in (values | changes).items() if value is not None}

    return change


@pytest.mark.parametrize(
    "change",
    [
        changed(factor=None),
        changed(grid=None),
        changed(factor="wide"),
        changed(factor="1e999"),
        changed(spread=[[1.0, 2.0], [3.0]]),
        changed(spread=[[1.0, 2.0]]),
        changed(spread="wide"),
        changed(spread=[[-1.0] * 11] * 2),
        changed(grid={"kind": "round", "bounds": [[0, 1]], "shape": [11]}),
        changed(grid={"kind": "nodes", "bounds": [[0, 1]], "shape": [10**12]}),
        changed(grid={"kind": "nodes", "bounds": [[1, 0]], "shape": [11]}),
        changed(grid={"kind": "nodes", "bounds": 3, "shape": [11]}),
        changed(grid=[]),
        lambda values: [values],
        lambda values: 3,
    ],
)
def test_damage_is_one_line(tmp_path, change):
    path = tmp_path / "calibration.json"
    write_calibration(calibration(GRIDS[2]), {}, path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(DataError, match=r"is damaged|is not JSON") as caught:
        read_calibration(path)
    assert "operformer calibrate" in str(caught.value)
