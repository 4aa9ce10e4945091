"""The catalogue's runs and their recipes: what they share, what a recipe may change, and what is refused."""

import json
import sys

import pytest
import torch

from operformer.errors import ResourceError, UsageError
from operformer.problems import Darcy
from operformer.runs import train_run
from operformer.runs.experiment import parse
from paper.catalogue import CATALOGUE, FLOW, find_row, rows
from paper.parameters import parameters_of
from paper.recipes import check_recipe, find_run, train_as

ALL = [(row.name, recipe) for row in CATALOGUE.values() for recipe in row.recipes]
# A change of the authors' darcy-64-tno, and which recipes allow it.
CHANGES = {
    "training.optimizer=muon": ("same-operator", "best"),
    "training.seed=3": ("same-operator", "best"),
    "data.folder=somewhere": ("same-operator", "best"),
    "operator.n_heads=4": ("best",),
    "training.augment=true": ("best",),
    "data.coarser=[32]": ("best",),
    "data.train=3601": (),
    "data.validation=100": (),
    "data.test=100": (),
    "data.seed=1": (),
    "data.resolution=63": (),
    "problem.tau=3.0": (),
    "problem.name=Kolmogorov": (),
}


@pytest.mark.parametrize(("name", "recipe"), ALL)
def test_a_run_comes_back_from_plain_values_and_follows_its_recipe(name, recipe):
    experiment = find_run(name, recipe)
    assert experiment.name == name
    assert parse(json.loads(json.dumps(experiment.to_mapping()))) == experiment
    if recipe in ("same-operator", "best"):
        check_recipe(experiment, recipe)


@pytest.mark.parametrize("recipe", ["same-operator", "best"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_recipe_allows(change, recipe):
    experiment = find_run("darcy-64-tno", "authors", [change])
    if recipe in CHANGES[change]:
        assert list(check_recipe(experiment, recipe)) == [change.split("=")[0]]
        return
    with pytest.raises(UsageError, match=f"darcy-64-tno does not follow the recipe {recipe}: ") as caught:
        check_recipe(experiment, recipe)
    assert change.split(".")[0] in str(caught.value)


def test_settings_that_are_the_defaults_are_no_change():
    experiment = find_run("darcy-64-tno", "authors", ["operator.initial_channels=0"])
    assert check_recipe(experiment, "same-operator") == {}


def test_what_is_not_in_the_catalogue_is_refused():
    with pytest.raises(UsageError, match="did you mean darcy-64-tno"):
        find_run("darcy-64-tnoo")
    with pytest.raises(UsageError, match="darcy-64-fno has no recipe best; it has smoke, authors, same-operator"):
        find_run("darcy-64-fno", "best")
    with pytest.raises(UsageError, match="is no run of the paper; give --recipe best"):
        check_recipe(find_run("darcy-li-85", "best"), "same-operator")
    with pytest.raises(UsageError, match=r"data.resolution is 24 where the catalogue has 64"):
        check_recipe(find_run("darcy-64-tno"), "best")


COARSE = [row for row in rows(recipe="best") if "416" in row.name and train_as(row, "best").data.coarser]


@pytest.mark.parametrize("row", COARSE, ids=lambda row: row.name)
def test_a_patch_of_the_coarse_grid_has_all_modes(row):
    experiment = train_as(row, "best")
    modes, patches = experiment.operator["n_modes"], experiment.operator.get("n_patches", [1])[0]
    assert experiment.data.coarser[0] / patches >= 2 * (modes[0] if isinstance(modes, list) else modes)


def test_rows_are_found_by_what_they_are():
    assert [row.name for row in rows("xtoyz")] == ["lorenz-yz", "lorenz-yz-invariant"]
    fanos = rows(problem=FLOW, operator="FANO", variants=("", "smoothing"))
    assert [row.name for row in fanos] == ["kolmogorov-416-fano", "kolmogorov-416-fano-smoothing"]
    assert find_row("kolmogorov-416-spectral").recipes == ("best",)


@pytest.mark.parametrize("row", rows("2d_median_errors_low") + rows("2d_median_errors_high"), ids=lambda row: row.name)
def test_smoke_operators_take_every_grid_of_an_evaluation(row, need_neuralop):
    experiment = row.smoke
    if row.operator == "FNO":
        need_neuralop()
    operator = experiment.make_operator().eval()
    for label, grid in experiment.problem.evaluation_grids(experiment.data.resolution).items():
        u = torch.randn(1, 1, *grid.shape, generator=torch.Generator().manual_seed(1))
        if label == "graded" and row.operator in ("FNO", "AFNO", "ViTNO"):
            with pytest.raises(UsageError, match=r"uniform grids only|point by point"):
                operator(u, grid)
        elif row.operator == "AFNO" and label != "1x":
            with pytest.raises(UsageError, match="bound to"):
                operator(u, grid)
        else:
            with torch.no_grad():
                assert torch.isfinite(operator(u, grid)).all()


def test_without_neuraloperator_an_fno_is_listed_and_refused_before_the_draw(tmp_path, monkeypatch, call_paper):
    monkeypatch.setitem(sys.modules, "neuralop.models", None)
    experiment = find_run("darcy-64-fno", "authors")
    assert parameters_of(experiment) == 5_705_089
    monkeypatch.setattr(Darcy, "sample", lambda *_: pytest.fail("drawn in vain"))
    with pytest.raises(ResourceError, match=r"pip install 'operformer\[baselines\]'"):
        train_run(experiment, tmp_path / "run")
    code, _, err = call_paper("train", "darcy-64-fno", "--out", tmp_path / "run")
    assert (code, err.count("\n")) == (5, 1)
    assert not (tmp_path / "run").exists()
