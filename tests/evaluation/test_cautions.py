"""What is warned of: inputs, modes, samples, gradients, points outside, and what is not."""

import warnings

import numpy as np
import pytest
import torch

from operformer import FANO, TNO, Grid, Samples, Training, evaluate, predict, train, voronoi_weights
from operformer.domain.reading import beyond
from operformer.errors import OperformerWarning, UsageError
from operformer.evaluation.cautions import few_samples, modes_beyond, rough_gradients, unlike_training

GRID = Grid.uniform((8, 8), kind="cells")


def tno(channels=2):
    torch.manual_seed(0)
    made = TNO(2, channels, 1, hidden_channels=4, n_layers=1, n_heads=1)
    made.input_mean.copy_(torch.tensor([0.0, 300.0])[:channels])
    made.input_scale.copy_(torch.tensor([1.0, 20.0])[:channels])
    return made


def fields(*scales):
    generator = torch.Generator().manual_seed(1)
    return torch.stack([m + s * torch.randn(5, 8, 8, generator=generator) for m, s in scales], 1)


def test_inputs_unlike_the_training():
    assert unlike_training(tno(), fields((0, 1), (300, 20)), GRID) == []
    assert unlike_training(tno(), fields((1, 0.1), (250, 3)), GRID) == []  # a few functions of the law
    (swapped,) = unlike_training(tno(), fields((300, 20), (0, 1)), GRID)
    assert "channel 0 of u is 30" in swapped
    assert "trained on 0 ± 1; are channels 0 and 1 swapped?" in swapped
    (units,) = unlike_training(tno(), fields((0, 1), (27, 20)), GRID)
    assert "channel 1 of u is 2" in units
    assert "trained on 300 ± 20; check units" in units
    with pytest.warns(OperformerWarning, match="swapped"):
        predict(tno(), fields((300, 20), (0, 1)), GRID)
    with pytest.warns(OperformerWarning, match="swapped"):
        evaluate(tno(), Samples(fields((300, 20), (0, 1)), torch.ones(5, 1, 8, 8), GRID))


def test_modes_samples_and_gradients():
    made = FANO((2, 2), 3, 1, 1, hidden_channels=4, n_layers=1, n_heads=1)
    assert modes_beyond(made, Grid.uniform((12, 12), kind="cells")) == modes_beyond(made, Grid.uniform((13, 13))) == []
    (found,) = modes_beyond(made, Grid.uniform((12, 10), kind="cells"))
    assert "3 modes along axis 1, more than half the 5 points of a patch there" in found
    last = FANO((2, 2), 2, 1, 1, hidden_channels=4, n_layers=1, n_heads=1, last=8)
    assert "8 modes along axis 0, more than half the 12 points of the domain" in modes_beyond(last, GRID_12)[0]
    assert modes_beyond(tno(), GRID) == []
    assert few_samples(2) == rough_gradients(0.5) == rough_gradients(None) == []
    assert "one sample" in few_samples(1)[0]
    assert "relative H1 error is 108%" in rough_gradients(1.08)[0]


GRID_12 = Grid.uniform((12, 12), kind="cells")


def test_training_says_so(tmp_path):
    made = FANO((2, 2), 3, 1, 1, hidden_channels=4, n_layers=1, n_heads=1)
    samples = Samples(torch.rand(2, 1, 8, 8), torch.rand(2, 1, 8, 8), GRID)
    with pytest.warns(OperformerWarning) as said:
        train(made, samples[:1], samples[1:], Training(epochs=1, batch_size=1, device="cpu"), tmp_path)
    texts = [str(one.message) for one in said if one.category is OperformerWarning]
    assert len(texts) == 2
    assert "one sample" in texts[0]
    assert "3 modes" in texts[1]


def l_shape(count, seed=0):
    """Points of the unit square without its upper right quarter."""
    points = torch.rand(2 * count, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return points[(points < 0.5).any(1)][:count]


def mesh():
    """Nodes of a triangulated L and the areas they stand for: 3/4 in sum."""
    n = 12
    nodes = [(i / n, j / n) for i in range(n + 1) for j in range(n + 1) if min(i, j) <= n // 2]
    areas = np.zeros(len(nodes))
    number = {(round(n * x), round(n * y)): k for k, (x, y) in enumerate(nodes)}
    for i in range(n):
        for j in range(n):
            if i < n // 2 or j < n // 2:
                for corner in ((i, j), (i + 1, j), (i, j + 1), (i + 1, j + 1)):
                    areas[number[corner]] += 1 / n**2 / 4
    return Grid.scattered(torch.tensor(nodes, dtype=torch.float64), torch.tensor(areas))


def test_the_notch_of_an_l_is_masked():
    query = Grid.uniform((33, 33))
    x = query.points
    for grid, margin in ((mesh(), 1.2 / 12), (Grid.scattered(p := l_shape(900), voronoi_weights(p)), 0.2)):
        found = beyond(grid, query)
        assert not bool(found[(x <= 0.5).any(-1)].any())
        assert bool(found[(x > 0.5 + margin).all(-1)].all())
    assert float(mesh().weights.sum()) == pytest.approx(0.75)


def test_each_mesh_of_a_batch_has_an_outside_of_its_own():
    corners = [[[0.0, 0], [1, 0], [0, 1]], [[1.0, 1], [1, 0], [0, 1]]]
    grid = Grid.ragged(corners, cells=[[[0, 1, 2]]] * 2)
    query = Grid.scattered([[0.2, 0.3], [0.7, 0.9]])
    with pytest.warns(OperformerWarning, match="2 of 4 points lie outside"):
        found = predict(tno(1), torch.rand(2, 1, 3), grid, query=query)
    assert torch.isnan(found.z[:, 0]).tolist() == [[False, True], [True, False]]


def test_each_ragged_sample_and_another_domain_mask_their_own():
    cloud = l_shape(60)
    grid = Grid.ragged([cloud, 1 - cloud], [torch.full((60,), 0.75 / 60)] * 2)
    query = Grid.scattered(torch.tensor([[0.9, 0.9], [0.1, 0.1]]))
    with pytest.warns(OperformerWarning, match="2 of 4 points"):
        found = predict(tno(1), torch.rand(2, 1, 60), grid, query=query)
    assert found.z.isnan()[:, 0].tolist() == [[True, False], [False, True]]
    box = Grid.uniform((17, 17))
    with pytest.warns(OperformerWarning, match="outside the domain"):
        found = predict(tno(1), torch.rand(2, 1, 17, 17), box, domain=mesh())
    assert bool(found.z.isnan().eq(beyond(mesh(), box)).all())
    for wrong in (box, Grid.scattered(torch.rand(9, 3))):
        with pytest.raises(UsageError, match="domain must be scattered points in dimension 2"):
            predict(tno(1), torch.rand(2, 1, 17, 17), box, domain=wrong)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_points_everywhere_leave_nothing_out(dim):
    points = torch.rand(400, dim, generator=torch.Generator().manual_seed(dim), dtype=torch.float64)
    assert not bool(beyond(Grid.scattered(points), Grid.uniform((7,) * dim)).any())


def test_predictions_there_are_nan_and_said_so():
    grid = mesh()
    with pytest.warns(OperformerWarning, match=r"\d+ of 289 points lie outside the domain .* values are NaN"):
        found = predict(tno(1), torch.rand(2, 1, *grid.shape), grid, resolution=17)
    outside = beyond(grid, found.grid)
    assert bool(torch.isnan(found.z).eq(outside).all())
    assert bool(torch.isnan(found.u).eq(outside).all())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict(tno(1), torch.rand(2, 1, *grid.shape), grid, query=grid)
