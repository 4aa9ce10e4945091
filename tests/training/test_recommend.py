"""What samples look like, and what is chosen for them."""

from math import pi

import pytest
import torch

from operformer import Grid, Samples, Training, load, recommend, train
from operformer.errors import UsageError
from operformer.training.candidates import RECIPES, recipe_of, winner
from operformer.training.features import measure
from operformer.training.recommend import _decided

AMPLITUDES = torch.randn(40, 1, 5, generator=torch.Generator().manual_seed(0))


def waves(grid, function, shift=0.0):
    """Sums of five waves in each sample: of x, or of x and y alike."""
    k = torch.arange(1, 6)
    tables = [function(k * (axis.unsqueeze(-1) + shift)) for axis in grid.axes]
    return torch.einsum("bck,xk,yk->bcxy" if grid.dim == 2 else "bck,xk->bcx", AMPLITUDES.double(), *tables).float()


def half_cosines(x):
    return torch.cos(pi * x)


def half_sines(x):
    return torch.sin(pi * x)


def whole_sines(x):
    return torch.sin(2 * pi * x + 0.3)


@pytest.mark.parametrize(
    ("kind", "function", "is_periodic", "is_zero", "half_waves"),
    [
        ("nodes", half_cosines, False, False, 6),  # cos(5 pi x) is the last of 1 + 5
        ("cells", half_cosines, False, False, 6),
        ("nodes", half_sines, False, True, None),
        ("cells", half_sines, False, True, None),
        ("nodes", whole_sines, True, False, None),
        ("cells", whole_sines, True, False, 12),
        ("periodic", whole_sines, True, False, 12),
    ],
)
@pytest.mark.parametrize("shape", [(61,), (61, 67)])
def test_features_are_those_of_the_waves_that_samples_are_made_of(
    kind, function, is_periodic, is_zero, half_waves, shape
):
    grid = Grid.uniform(shape, kind=kind)
    found = measure(Samples(waves(grid, half_cosines if is_zero else function), waves(grid, function), grid))
    assert (found.is_periodic, found.is_zero_at_boundary) == (is_periodic, is_zero)
    assert half_waves in (None, found.half_waves)
    assert found.has_slopes


def test_a_later_state_is_told_from_another_function_and_slopes_from_metres():
    grid = Grid.uniform(61, kind="periodic")
    u, later = waves(grid, whole_sines), waves(grid, whole_sines, 0.02)
    assert measure(Samples(u, later, grid)).is_flow
    assert not measure(Samples(u, u.flip(0), grid)).is_flow
    small = Grid.uniform(61, bounds=[(0.0, 1e-3)])
    assert not measure(Samples(u, later, small)).has_slopes
    scattered = Grid.scattered(torch.rand(61, 1))
    assert not measure(Samples(u, later, scattered)).has_slopes


@pytest.mark.parametrize(("errors", "expected"), [((0.6, 0.5, 0.9), 0), ((0.6, 0.5, 0.3), 2), ((0.6, 0.39, 0.4), 1)])
def test_isotropic_kernels_are_given_up_for_much_smaller_errors_alone(errors, expected):
    names = ("isotropic-cosine", "cosine", "fourier")
    assert winner([({"basis": name}, Training()) for name in names], list(errors)) == expected
    without = winner([({"basis": name}, Training()) for name in names[1:]], list(errors[1:]))
    assert errors[1:][without] == min(errors[1:])
    periodic = [({"basis": name}, Training()) for name in ("isotropic-fourier", "fourier")]
    assert winner(periodic, [0.6, 0.5]) == 1


def test_a_choice_against_the_smallest_error_has_its_reason_and_candidates_are_told_apart():
    one = {"name": "SpectralOperator", "n_modes": [9], "basis": "fourier"}
    two, three = {**one, "n_modes": [18]}, {**one, "basis": "cosine"}
    said = _decided([(one, 0.6), (two, 0.5), (three, 0.7)], one)
    assert (
        "fourier (n_modes=[9]) 60 %, SpectralOperator fourier (n_modes=[18]) 50 %, SpectralOperator cosine 70" in said
    )
    assert said.endswith("preferred unless another has less than two thirds of its error, because Fourier's basis "
                         "learns what moves in one direction")  # fmt: skip
    assert _decided([(one, 0.4), (two, 0.5)], one).endswith("(n_modes=[9])")
    assert "isotropic kernels win later" in _decided([({**one, "basis": "isotropic-cosine"}, 0.6), (two, 0.5)],
                                                     {**one, "basis": "isotropic-cosine"})  # fmt: skip


def test_minutes_are_those_of_the_clock():
    grid = Grid.uniform(32, kind="periodic")
    samples = Samples(waves(grid, whole_sines), waves(grid, whole_sines, 0.2), grid)
    now = iter(range(10**6))  # a second for each look at it: an update takes one, an epoch of 10 batches 11.2
    chosen = recommend(samples, 10.0, {"hidden_channels": 4, "n_layers": 1}, {"batch_size": 4}, clock=lambda: next(now))
    assert chosen.training.epochs == int((600 - 2 * 120 - 1) / 11.2)
    assert "32 epochs of about 11 s, about 6 minutes at this pace" in chosen.reasons[-1]


def test_on_a_line_there_are_no_directions():
    grid = Grid.uniform(32, kind="periodic")
    chosen = recommend(Samples(waves(grid, whole_sines), waves(grid, whole_sines, 0.2), grid), minutes=0.02)
    assert (chosen.operator["basis"], chosen.operator["n_modes"]) == ("fourier", [9])  # and half of 12 half waves again
    assert "wrappers" not in chosen.operator  # z is too far from u
    assert len(str(chosen).splitlines()) == 4


def test_what_the_user_says_is_not_chosen():
    grid = Grid.uniform((12, 12))
    samples = Samples(waves(grid, half_cosines), waves(grid, half_sines), grid)
    chosen = recommend(samples, 0.01, {"basis": "cosine", "hidden_channels": 8}, {"epochs": 3, "loss": "l2"})
    assert (chosen.operator["basis"], chosen.operator["hidden_channels"]) == ("cosine", 8)
    assert chosen.operator["last"] == ["dirichlet"]
    assert (chosen.training.epochs, chosen.training.loss, chosen.training.optimizer) == (3, "l2", "muon")
    other = recommend(samples, 0.01, {"name": "TNO", "hidden_channels": 8}, {"epochs": 1})
    assert type(other.make_operator()).__name__ == "TNO"
    points = Grid.scattered(torch.rand(12, 2))
    cloud = Samples(samples.u[..., 5], samples.z[..., 5], points)
    assert recommend(cloud, 0.01, {"basis": "cosine"}, {"epochs": 1}).operator["basis"] == "cosine"  # a TNO has none
    with pytest.raises(UsageError, match=r"unknown setting operator\.base"):
        recommend(samples, 0.01, {"base": "cosine"}, {"epochs": 1})
    with pytest.raises(UsageError, match="minutes must be positive"):
        recommend(samples, 0)
    with pytest.raises(UsageError, match="at least 5"):
        recommend(samples[:3])
    assert isinstance(chosen.training, Training)


@pytest.mark.parametrize("kind", ["periodic", "nodes"])
@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "auto"])
def test_a_recipe_by_name_is_fitted_to_the_samples(recipe, kind):
    grid = Grid.uniform((13, 13), kind=kind)
    function = half_sines if kind == "nodes" else whole_sines
    samples = Samples(waves(grid, function), waves(grid, function, 0.0 if kind == "nodes" else 0.01), grid)
    small = {"hidden_channels": 4, "n_layers": 1}
    chosen = recommend(samples, 0.01, small, {"epochs": 1}, recipe)
    assert recipe_of(chosen.operator) == recipe
    resampled = (
        ["Resampled"] if (recipe, kind) == ("vitno", "periodic") else []
    )  # 13 periodic points are not two halves
    assert chosen.operator["wrappers"] == [*resampled, "Increment"]
    assert ("last" in chosen.operator) is (kind == "nodes" and recipe != "tno")
    assert chosen.make_operator()(samples.u, grid).shape == samples.z.shape


def test_a_training_by_a_recipe_says_what_it_chose_keeps_what_is_given_and_resumes(tmp_path, capsys):
    grid = Grid.uniform(16, kind="periodic")
    samples = Samples(waves(grid, whole_sines), waves(grid, whole_sines, 0.2), grid)
    small, how = {"hidden_channels": 4, "n_layers": 1}, {"epochs": 2, "loss": "l2"}

    def run(operator=small, settings=how, recipe="fourier", folder=tmp_path / "run"):
        return train(operator, samples[:30], samples[30:], settings, folder, recipe=recipe, minutes=0.01)

    first = run()
    said = capsys.readouterr().out
    assert said.startswith("samples: 30 of 1 to 1 channels")
    assert "chosen: SpectralOperator fourier" in said
    assert "2 epochs of" in said
    assert torch.equal(run()(samples.u, grid), first(samples.u, grid))  # nothing is left to do, nothing is chosen
    assert "chosen" not in capsys.readouterr().out
    assert run(None, None).settings == first.settings
    trained = train(load(tmp_path / "run" / "operator"), samples[:30], samples[30:], {"epochs": 1}, tmp_path / "on",
                    recipe="auto", minutes=0.01)  # fmt: skip
    assert trained.settings == first.settings
    for words, message in (
        ({"recipe": "cosine"}, "in which the recipe differs"),
        ({"operator": {"hidden_channels": 8}}, r"operator\.hidden_channels differs"),
        ({"settings": {"loss": "h1"}}, r"training\.loss differs"),
        ({"recipe": "cosyne"}, "did you mean cosine"),
        ({"recipe": None}, 'operator must be an Operator: got {.*recipe="auto"'),
        (
            {"operator": first, "settings": None, "recipe": None, "folder": tmp_path / "no"},
            "settings must be a Training",
        ),
        ({"operator": {"bases": "cosine"}, "folder": tmp_path / "no"}, "unknown setting operator.bases"),
        ({"operator": first, "recipe": "tno", "folder": tmp_path / "no"}, "of another operator"),
    ):
        with pytest.raises(UsageError, match=message):
            run(**words)
    assert not (tmp_path / "no").exists()
