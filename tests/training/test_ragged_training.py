"""Training and evaluation on points that differ from sample to sample."""

import pytest
import torch

from operformer import TNO, Grid, pad, voronoi_weights
from operformer.data.importing import store
from operformer.domain import Samples
from operformer.errors import UsageError
from operformer.evaluation.errors import evaluate, relative_errors
from operformer.training.loop import Training, train
from operformer.training.status import read_metrics


def operator():
    torch.manual_seed(0)
    return TNO(2, 1, 1, hidden_channels=6, n_layers=1, n_heads=2).double()


def samples(counts):
    draws = torch.Generator().manual_seed(0)
    points = [torch.rand(n, 2, generator=draws, dtype=torch.float64) for n in counts]
    grid = Grid.ragged(points, [voronoi_weights(x) for x in points])
    a = 1 + torch.rand(len(counts), generator=draws, dtype=torch.float64)
    u, z = ([(k * f(3 * x)).sum(-1)[None] for k, x in zip(a, points, strict=True)] for f in (torch.sin, torch.cos))
    return Samples(pad(u, grid), pad(z, grid), grid)


def test_sets_that_are_all_the_same_train_as_one_grid(tmp_path):
    points = torch.rand(17, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = voronoi_weights(points)
    u = 1 + torch.rand(12, 1, 17, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    one = Samples(u, u.square(), Grid.scattered(points, weights))
    many = Samples(u, u.square(), Grid.ragged([points] * 12, [weights] * 12))
    settings = Training(epochs=3, batch_size=3, device="cpu")
    for name, pairs in (("one", one), ("many", many)):
        train(operator(), pairs[:9], pairs[9:], settings, tmp_path / name)
    found, expected = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("many", "one"))
    for key in ("loss", "validation_error"):
        assert [r[key] for r in found] == pytest.approx([r[key] for r in expected], rel=1e-9)


def test_errors_are_those_of_the_samples_one_by_one(tmp_path):
    pairs = samples((11, 23, 7, 31, 13, 17))
    trained = train(operator(), pairs[:4], pairs[4:], Training(epochs=1, batch_size=2, device="cpu"), tmp_path)
    errors = relative_errors(trained, pairs, batch_size=4)
    assert evaluate(trained, pairs, "1x").errors == pytest.approx(errors.tolist(), rel=1e-12)
    for k, n in enumerate(pairs.grid.counts):
        alone = Samples(pairs.u[k : k + 1, :, :n], pairs.z[k : k + 1, :, :n], pairs.grid.of_sample(k))
        assert float(relative_errors(trained, alone)) == pytest.approx(float(errors[k]), rel=1e-10)


def test_what_has_no_points_and_what_has_no_place_is_refused(tmp_path):
    pairs = samples((11, 23, 7))
    with pytest.raises(UsageError, match="points for each of 2 samples: got 3 sets"):
        Samples(pairs.u[:2], pairs.z[:2], pairs.grid)
    with pytest.raises(UsageError, match="a set on disk has one grid"):
        store(pairs, tmp_path / "set", "mine", {"file": "mine"})
    with pytest.raises(UsageError, match="H1 norm needs neighbouring points"):
        train(operator(), pairs[:2], pairs[2:], Training(epochs=1, batch_size=1, loss="h1", device="cpu"), tmp_path)
