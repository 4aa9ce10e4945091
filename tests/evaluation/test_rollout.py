"""Rollouts of maps whose powers are known, their growth of error, and the record of it."""

import json
from math import inf

import pytest
import torch

from operformer import FANO, Grid
from operformer.errors import DataError, UsageError
from operformer.evaluation import prediction
from operformer.evaluation.rollout import rollout, study_rollout
from operformer.operators import Operator
from operformer.runs.records import read_rollout, write_rollout


class Rotation(Operator):
    """G(u) = factor (u_2, -u_1): its powers turn by quarters."""

    def __init__(self, factor=1.0, dim=1):
        super().__init__(dim, 2, 2, 1, 1)
        self.factor = factor

    def transform(self, u, grid, query):
        return self.factor * torch.stack([u[:, 1], -u[:, 0]], 1)


GRID = Grid.uniform((7,), bounds=[(0, 2)], kind="periodic")


def starts(count=3, shape=(7,)):
    return torch.randn(count, 2, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def truth(u0, steps, factor=1.0):
    """The powers of the rotation, written out."""
    quarters = [u0, torch.stack([u0[:, 1], -u0[:, 0]], 1), -u0, torch.stack([-u0[:, 1], u0[:, 0]], 1)]
    return torch.stack([factor**k * quarters[k % 4] for k in range(1, steps + 1)], 1)


def test_the_output_is_fed_back():
    u0 = starts()
    found = rollout(Rotation(0.5).double(), u0, 5, GRID)
    assert found.shape == (3, 5, 2, 7)
    torch.testing.assert_close(found, truth(u0, 5, 0.5), rtol=1e-14, atol=0)


def test_it_is_the_operator_called_again_and_again():
    torch.manual_seed(0)
    operator = FANO((2, 2), 2, 1, 1, hidden_channels=4, n_layers=1, n_heads=2).double()
    u0 = torch.randn(2, 1, 6, 8, dtype=torch.float64)
    grid = Grid.uniform((6, 8), kind="cells")
    found = rollout(operator, u0, 3, grid)
    one = operator(u0, grid)
    assert torch.equal(found[:, 0], one)
    assert torch.equal(found[:, 2], operator(operator(one, grid), grid))
    assert torch.equal(rollout(operator, u0, 1)[:, 0], operator(u0))  # nodes, without a grid
    assert found.requires_grad


def test_what_cannot_be_fed_back_is_refused():
    operator = FANO((2, 2), 2, 1, 3, hidden_channels=4, n_layers=1, n_heads=2)
    with pytest.raises(UsageError, match="as many outputs as inputs: got 1 to 3 channels"):
        rollout(operator, torch.ones(1, 1, 8, 8), 2)
    with pytest.raises(UsageError, match="steps must be at least 1: got 0"):
        rollout(Rotation(), torch.ones(1, 2, 7), 0)


def test_errors_grow_by_hand():
    """Too large by a tenth at each step: 1.1^k - 1. Persistence is off by sqrt(2), 2, sqrt(2), 0 in turn."""
    u0 = starts()
    found = study_rollout(Rotation(1.1).double(), u0, truth(u0, 4), GRID, [0.5, 1.0, 1.5, 2.0])
    for step in range(4):
        assert found.errors[step] == pytest.approx([1.1 ** (step + 1) - 1] * 3, rel=1e-12)
        assert found.persistence[step] == pytest.approx([(2**0.5, 2, 2**0.5, 0)[step]] * 3, rel=1e-12)
    for summary in (found.medians, found.worst):
        assert summary == pytest.approx([0.1, 0.21, 0.331, 0.4641], rel=1e-12)
    assert found.persistence_medians == pytest.approx([2**0.5, 2, 2**0.5, 0], rel=1e-12)
    assert found.times == (0.5, 1.0, 1.5, 2.0)
    assert found.spectrum.error == pytest.approx([0.4641**2 * share for share in found.spectrum.truth], rel=1e-9)


def test_it_does_not_depend_on_how_many_draws_go_together(monkeypatch):
    u0 = starts(5)
    found = []
    for points in (1, 14, 10**6):
        monkeypatch.setattr(prediction, "POINTS", points)
        found.append(study_rollout(Rotation(1.1).double(), u0, truth(u0, 3), GRID, [1.0, 2.0, 3.0]))
    assert found[0].errors == found[1].errors == found[2].errors


def test_starts_in_float64_serve_an_operator_in_float32():
    u0 = starts()
    found = study_rollout(Rotation(1.1), u0, truth(u0, 2), GRID, [1.0, 2.0])
    assert found.medians == pytest.approx([0.1, 0.21], rel=1e-5)


def test_a_truth_of_another_length_is_refused():
    u0 = starts()
    for z, times in ((truth(u0, 3), [1.0, 2.0]), (truth(u0, 2)[:2], [1.0, 2.0]), (u0, [1.0, 2.0])):
        with pytest.raises(UsageError, match="the truth must be"):
            study_rollout(Rotation().double(), u0, z, GRID, times)


def test_a_rollout_that_leaves_the_numbers_is_a_finding_and_no_error(tmp_path):
    u0 = starts().float()
    found = study_rollout(Rotation(1e30), u0, truth(u0.double(), 3), GRID, [1.0, 2.0, 3.0])
    assert found.medians[1:] == (inf, inf)
    assert found.spectrum is None
    write_rollout(found, tmp_path / "rollout.json")
    assert read_rollout(tmp_path / "rollout.json") == found


# The record


@pytest.fixture
def path(tmp_path):
    u0 = starts()
    write_rollout(study_rollout(Rotation(1.1).double(), u0, truth(u0, 2), GRID, [1.0, 2.0]), tmp_path / "rollout.json")
    return tmp_path / "rollout.json"


def test_the_record_comes_back_as_it_was(path):
    u0 = starts()
    assert read_rollout(path) == study_rollout(Rotation(1.1).double(), u0, truth(u0, 2), GRID, [1.0, 2.0])


@pytest.mark.parametrize(
    "change",
    [
        {"times": [1.0]},
        {"times": ["a", "b"]},
        {"times": None},
        {"errors": [[0.1, 0.1, 0.1]]},
        {"errors": [[0.1], [0.1, 0.2]]},
        {"errors": [[], []]},
        {"errors": [["a"], ["b"]]},
        {"errors": 3},
        {"spectrum": 3},
        {"spectrum": {"transform": "fourier"}},
        {"more": 1},
        {"film": 3},
        {"film": {"times": [1], "x": [1], "y": [], "truth": [[1]], "rollout": [1]}},
        {"variance_errors": [[0.1]]},
    ],
)
def test_damage_is_one_line_with_its_remedy(path, change):
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=r"rollout\.json is damaged .*run: operformer evaluate"):
        read_rollout(path)
