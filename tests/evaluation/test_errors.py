"""Errors of an operator whose errors are known: median, mean, worst, and the curves that go with them."""

import pytest
import torch

from operformer import Grid
from operformer.domain import Samples, h1_norm, l2_norm
from operformer.errors import DataError, DivergedError
from operformer.evaluation import prediction
from operformer.evaluation.errors import assess, evaluate, predict, predictions, relative_errors
from operformer.evaluation.standard import Outputs
from operformer.operators import Operator


class Double(Operator):
    """G(u) = 2 u."""

    def __init__(self):
        super().__init__(1, 2, 2, 1, 1)

    def transform(self, u, grid, query):
        return 2 * u


IRREGULAR = Grid.rectilinear([0.0, 0.1, 0.7, 1.0, 3.0])


def samples_with(errors, grid=IRREGULAR, dtype=torch.float64):
    """Pairs on which `Double` is off by exactly these: 2 u - z = e z for z = 2 u / (1 + e)."""
    generator = torch.Generator().manual_seed(0)
    u = 1 + torch.rand(len(errors), 2, *grid.shape, generator=generator, dtype=torch.float64)
    z = 2 * u / (1 + torch.tensor(errors, dtype=torch.float64)).reshape(-1, 1, 1)
    return Samples(u, z, grid).to(dtype=dtype)


def test_median_mean_and_worst_by_hand():
    errors = (0.3, 0.1, 0.25, 0.75, 0.5)
    evaluation = evaluate(Double().double(), samples_with(errors), "here")
    assert evaluation.errors == pytest.approx(errors, rel=1e-12)
    assert evaluation.median == pytest.approx(0.3, rel=1e-12)
    assert evaluation.mean == pytest.approx(0.38, rel=1e-12)
    assert evaluation.worst == pytest.approx(0.75, rel=1e-12)
    assert (evaluation.label, evaluation.points) == ("here", 5)


def test_standardised_errors_of_two_channels_by_hand():
    samples = samples_with((0.3, 0.1))
    units = Outputs((1.0, -2.0), (0.5, 3.0))
    evaluation = evaluate(Double().double(), samples, outputs=units)
    scale = torch.tensor(units.deviation, dtype=torch.float64).reshape(2, 1)
    difference, z = (2 * samples.u - samples.z) / scale, (samples.z - torch.tensor([[1.0], [-2.0]])) / scale
    expected = l2_norm(difference, IRREGULAR) / l2_norm(z, IRREGULAR)
    assert evaluation.standardised_errors == pytest.approx(expected.tolist(), rel=1e-12)
    assert evaluation.standardised.worst == pytest.approx(float(expected.max()), rel=1e-12)
    found = Outputs.of(samples)
    weights = IRREGULAR.weights / IRREGULAR.weights.sum()
    assert found.mean == pytest.approx((samples.z.mean(0) @ weights).tolist(), rel=1e-12)


def test_an_even_number_of_errors_has_its_median_between_two():
    evaluation = evaluate(Double().double(), samples_with((0.75, 0.25, 0.125, 0.375)), "here")
    assert evaluation.median == pytest.approx(0.3125, rel=1e-12)
    assert repr(evaluation).startswith("Evaluation(here: L2 error median 0.312, mean 0.375, worst 0.75")
    assert evaluation.median_sample.error == pytest.approx(0.25, rel=1e-12)


def test_the_curves_are_those_of_the_median_and_the_worst_sample():
    samples = samples_with((0.3, 0.1, 0.25, 0.75, 0.5))
    evaluation = evaluate(Double().double(), samples, "here")
    for curves, index in ((evaluation.median_sample, 0), (evaluation.worst_sample, 3)):
        assert curves.error == evaluation.errors[index]
        assert curves.x == [0.0, 0.1, 0.7, 1.0, 3.0]
        assert curves.u == samples.u[index].tolist()
        assert curves.z == samples.z[index].tolist()
        assert curves.prediction == (2 * samples.u[index]).tolist()


def test_curves_run_from_left_to_right_whatever_the_order_of_the_points():
    samples = samples_with((0.5, 0.25), Grid.rectilinear([0.7, 3.0, 0.0, 1.0, 0.1]))
    curves = evaluate(Double().double(), samples, "here").worst_sample
    assert curves.x == [0.0, 0.1, 0.7, 1.0, 3.0]
    order = [2, 4, 0, 3, 1]
    assert curves.u == samples.u[0][:, order].tolist()
    assert curves.z == samples.z[0][:, order].tolist()
    assert curves.prediction == (2 * samples.u[0][:, order]).tolist()


def test_errors_do_not_depend_on_the_size_of_the_batches():
    errors = [k / 7 for k in range(1, 14)]
    for batch_size in (1, 5, 13, 64):
        found = relative_errors(Double().double(), samples_with(errors), batch_size=batch_size)
        torch.testing.assert_close(found, torch.tensor(errors, dtype=torch.float64), rtol=1e-12, atol=0)


@pytest.mark.parametrize("grid", [Grid.uniform((7,)), IRREGULAR, Grid.scattered([[0.2], [0.3], [0.9]])])
def test_errors_are_those_of_the_samples_own_grid(grid):
    generator = torch.Generator().manual_seed(0)
    u, z = (torch.randn(3, 2, *grid.shape, generator=generator, dtype=torch.float64) for _ in range(2))
    found = evaluate(Double().double(), Samples(u, z, grid), "here").errors
    weights = grid.weights / grid.weights.sum()
    expected = ((((2 * u - z) ** 2) * weights).sum((1, 2)) / ((z**2) * weights).sum((1, 2))).sqrt()
    assert found == pytest.approx(expected.tolist(), rel=1e-12)


def test_samples_in_float64_serve_an_operator_in_float32():
    errors = relative_errors(Double(), samples_with((0.5, 0.25)))
    assert errors.dtype == torch.float64
    assert errors.tolist() == pytest.approx([0.5, 0.25], rel=1e-6)


def test_prediction_is_without_gradient_and_in_evaluation_mode(make_operator, pairs):
    operator = make_operator().train()
    prediction = predict(operator, pairs(2))
    assert not prediction.requires_grad
    assert not operator.training
    assert torch.equal(prediction, operator(pairs(2).u, pairs(2).grid))


def test_an_output_that_is_not_finite_is_told_with_its_sample():
    samples = samples_with((0.1, 0.2, 0.3))
    samples.u[1, 0, 2] = torch.inf
    with pytest.raises(DivergedError, match="sample 1"):
        relative_errors(Double().double(), samples, batch_size=1)


@pytest.mark.parametrize("broken", ["zero", "nan"])
def test_a_truth_that_has_no_relative_error_is_not_blamed_on_the_operator(broken):
    samples = samples_with((0.1, 0.2, 0.3))
    samples.z[1] = 0 if broken == "zero" else torch.nan
    with pytest.raises(DataError, match="sample 1 of z"):
        evaluate(Double().double(), samples, "here")


class Triple(Operator):
    """G(u) = 3 u in any dimension."""

    def __init__(self, dim):
        super().__init__(dim, 1, 1, 1, 1)

    def transform(self, u, grid, query):
        return 3 * u


def plane(grid):
    """u = 2 x + 5 y, which interpolation keeps, and z = 2 u: off by 1/2."""
    u = (2 * grid.points[..., 0] + 5 * grid.points[..., 1]).reshape(1, 1, *grid.shape)
    return Samples(u, 2 * u, grid)


def test_images_run_from_left_to_right_and_keep_every_few_points():
    axes = torch.linspace(0, 1, 131, dtype=torch.float64), torch.tensor([0.0, 0.9, 0.2, 0.5], dtype=torch.float64)
    look = evaluate(Triple(2).double(), plane(Grid.rectilinear(*axes)), "here").worst_sample
    assert look.error == pytest.approx(0.5, rel=1e-12)
    assert look.x == axes[0][::3].tolist()
    assert len(look.x) <= 64
    assert look.y == [0.0, 0.2, 0.5, 0.9]
    expected = 2 * torch.tensor(look.x)[:, None] + 5 * torch.tensor(look.y)
    for found, factor in ((look.u, 1), (look.z, 2), (look.prediction, 3)):
        torch.testing.assert_close(torch.tensor(found), factor * expected[None], rtol=0, atol=1e-5)


# H1, spectra and faces, all from one prediction


def test_errors_in_h1_have_summaries_of_their_own():
    grid = Grid.rectilinear([0.0, 0.5, 0.7], [0.0, 0.1, 1.0, 3.0])
    generator = torch.Generator().manual_seed(0)
    u, z = (torch.randn(3, 1, *grid.shape, generator=generator, dtype=torch.float64) for _ in range(2))
    found = evaluate(Triple(2).double(), Samples(u, z, grid), "here")
    expected = (h1_norm(3 * u - z, grid) / h1_norm(z, grid)).tolist()
    assert found.h1_errors == pytest.approx(expected, rel=1e-12)
    assert (found.h1.median, found.h1.worst) == pytest.approx((sorted(expected)[1], max(expected)), rel=1e-12)
    assert found.h1.mean == pytest.approx(sum(expected) / 3, rel=1e-12)
    assert (found.l2.median, found.l2.mean, found.l2.worst) == (found.median, found.mean, found.worst)


def test_points_without_neighbours_have_no_error_in_h1_and_no_spectrum():
    found = evaluate(Double().double(), samples_with((0.5, 0.25), Grid.scattered([[0.2], [0.3], [0.9]])), "here")
    assert (found.h1_errors, found.h1, found.spectrum, found.jumps) == ((), None, None, None)
    assert evaluate(Double().double(), samples_with((0.5, 0.25)), "here").spectrum is None
    assert len(evaluate(Double().double(), samples_with((0.5, 0.25)), "here").h1_errors) == 2


def test_the_spectrum_and_the_jumps_are_those_of_the_samples():
    """Off by 1/2 everywhere: a quarter of the truth's energy in every shell, half its differences on every edge."""
    grid = Grid.uniform((6, 8), kind="cells")
    u = torch.randn(5, 1, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = evaluate(Triple(2).double(), Samples(u, 2 * u, grid), "here", n_patches=(2, 2))
    assert found.spectrum.transform == "cosine"
    assert found.spectrum.error == pytest.approx([share / 4 for share in found.spectrum.truth], rel=1e-12)
    assert found.spectrum.prediction == pytest.approx([9 * share / 4 for share in found.spectrum.truth], rel=1e-12)
    for axis in found.jumps.along:
        assert axis.error_across == pytest.approx(axis.truth_across / 2, rel=1e-12)
        assert axis.error_inside == pytest.approx(axis.truth_inside / 2, rel=1e-12)
    assert (
        evaluate(Triple(2).double(), Samples(u, 2 * u, grid), "here", is_periodic=True).spectrum.transform == "fourier"
    )


def test_the_partition_is_the_operators_own():
    operator = Triple(2).double()
    operator.n_patches = (3, 2)
    samples = plane(Grid.uniform((6, 8), kind="cells"))
    assert evaluate(operator, samples, "here").jumps.n_patches == (3, 2)
    assert evaluate(operator, samples, "here", n_patches=(2, 4)).jumps.n_patches == (2, 4)
    assert evaluate(Triple(2).double(), samples, "here").jumps is None


def test_nothing_depends_on_how_many_samples_are_looked_at_together(monkeypatch):
    grid = Grid.uniform((6, 8), kind="cells")
    u, z = torch.randn(2, 7, 1, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    operator, samples = Triple(2).double(), Samples(u, z, grid)
    found = []
    for points in (1, 3 * 48, 10**6):  # one, three, all
        monkeypatch.setattr(prediction, "POINTS", points)
        found.append(evaluate(operator, samples, "here", n_patches=(2, 2)))
    for other in found[1:]:
        assert other.errors == found[0].errors
        assert other.h1_errors == found[0].h1_errors
        assert other.spectrum.error == pytest.approx(found[0].spectrum.error, rel=1e-12)
        assert other.jumps.face_ratio == pytest.approx(found[0].jumps.face_ratio, rel=1e-12)


def test_the_operator_is_called_once_for_each_sample(monkeypatch):
    called = []
    monkeypatch.setattr(prediction, "POINTS", 2 * 48)
    operator = Triple(2).double()
    operator.register_forward_hook(lambda module, inputs, output: called.append(len(output)))
    u = torch.rand(5, 1, 6, 8, dtype=torch.float64) + 1
    samples = Samples(u, u, Grid.uniform((6, 8)))
    evaluate(operator, samples, "here")
    assert called == [2, 2, 1]
    assert assess(predictions(operator, samples), samples, "here").errors == pytest.approx([2.0] * 5, rel=1e-12)


def test_a_batch_holds_at_least_one_sample(monkeypatch):
    monkeypatch.setattr(prediction, "POINTS", 5)
    assert prediction.together(Grid.uniform((6, 8))) == 1


def test_errors_on_meshes_have_gradients_and_a_look_on_triangles():
    points, corners = [[0.0, 0], [1, 0], [0, 1], [1, 1]], [[[0, 1, 2], [1, 3, 2]], [[0, 1, 2]]]
    grid = Grid.ragged([points, points[:3]], cells=corners)
    z = torch.tensor([[[1.0, 2, 3, 4]], [[1.0, 2, 3, 0]]])
    found = assess(2 * z + 1, Samples(z, z, grid), "1x")
    first = Samples(z[:1], z[:1], Grid.mesh(points, corners[0]))
    alone = assess(2 * z[:1] + 1, first, "1x")
    assert found.h1_errors[0] == pytest.approx(alone.h1_errors[0])
    # z - 2z - 1 = -(z + 1) on two triangles with slopes (1, 2): lumped integrals of (z + 1)^2 and z^2 by hand
    masses = torch.tensor([1, 2, 2, 1]) / 6
    wanted = ((masses @ (z[0, 0] + 1) ** 2 + 5) / (masses @ z[0, 0] ** 2 + 5)).sqrt()
    assert alone.h1_errors[0] == pytest.approx(float(wanted))
    assert {len(found.median_sample.points), len(found.worst_sample.points)} == {3, 4}
    assert alone.median_sample.corners == corners[0]
