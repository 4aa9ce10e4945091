"""What a page's explorer shows of runs: their galleries."""

import numpy as np
import pytest

from operformer.errors import DataError
from operformer.runs import evaluate_run, find_experiment, read_run, train_run
from operformer.runs.report.explorer import exhibits_of

LESS = ["data.train=4", "data.validation=1", "data.test=3", "data.resolution=12", "training.epochs=1",
        "operator.hidden_channels=8", "operator.n_layers=1", "operator.n_heads=2"]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = []
    for name in ("lorenz-y", "lorenz-y-transformer"):
        folder = tmp_path_factory.mktemp(name)
        train_run(find_experiment(name, LESS), folder)
        evaluate_run(folder)
        made.append(folder)
    return made


def test_runs_of_a_page_share_a_problem_and_keep_their_operators(folders):
    runs = [read_run(folder) for folder in folders]
    one, other = exhibits_of(runs, folders)
    assert one.problem == other.problem
    assert (one.operator, other.operator) == ("TNO", "transformer")
    assert (list(one.input_names), list(one.output_names)) == (["x"], ["y"])
    assert one.points["2x"] == 25
    errors = runs[0].evaluation("1x").errors
    np.testing.assert_allclose(one.views["1x"].errors, errors, rtol=1e-6)


def test_a_gallery_may_be_missing_but_not_damaged(folders):
    runs = [read_run(folder) for folder in folders]
    gallery = folders[1] / "gallery.npz"
    kept = gallery.read_bytes()
    gallery.unlink()
    assert [exhibit.operator for exhibit in exhibits_of(runs, folders)] == ["TNO"]
    gallery.write_bytes(kept[:100])
    with pytest.raises(DataError, match=r"gallery\.npz"):
        exhibits_of(runs, folders)
    gallery.write_bytes(kept)
