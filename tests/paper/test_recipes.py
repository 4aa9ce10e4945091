"""Recipes at the paper's scale: what they share with the catalogue, and what they change."""

import json

import pytest

from operformer.errors import UsageError
from operformer.runs.experiment import parse
from paper.lookup import find_run
from paper.protocol import PROTOCOLS, check_protocol
from paper.recipes import RECIPES, reference
from paper.section6 import EXPERIMENTS

NAMED = [(protocol, name) for protocol in PROTOCOLS for name in RECIPES[protocol]]


@pytest.mark.parametrize(("protocol", "name"), NAMED)
def test_a_recipe_follows_its_protocol_and_comes_back_from_plain_values(protocol, name):
    experiment = RECIPES[protocol][name]
    assert experiment.name == name
    check_protocol(experiment, protocol)
    assert parse(json.loads(json.dumps(experiment.to_mapping()))) == experiment
    assert experiment.training.schedule == "one-cycle"


def test_the_loss_is_the_papers_and_on_the_flow_of_li_et_al_h1():
    changed = [name for p, name in NAMED if RECIPES[p][name].training.loss != reference(name).training.loss]
    assert changed == ["darcy-li-85"]
    assert RECIPES["best"]["darcy-li-85"].training.loss == "h1"


def test_every_run_of_the_paper_has_a_recipe():
    assert RECIPES["paper"].keys() == EXPERIMENTS.keys()


def test_the_paper_protocol_changes_the_training_alone():
    for name, experiment in RECIPES["paper"].items():
        paper = EXPERIMENTS[name]["paper"]
        assert (experiment.problem, experiment.operator, experiment.data) == (paper.problem, paper.operator, paper.data)
        assert not experiment.training.augment


def test_all_are_compiled_but_for_those_that_one_core_trains():
    plain = {(protocol, name) for protocol, name in NAMED if not RECIPES[protocol][name].training.compile}
    small = ("darcy-64-spectral", "darcy-416-fano", "piecewise-416-fano", "darcy-li-85")
    assert plain == {("best", name) for name in small}
    for _, name in plain:
        training, operator = RECIPES["best"][name].training, RECIPES["best"][name].operator
        assert (training.averages, training.products, training.loss) == ("full", "full", "h1")
        assert (operator["isotropic"], operator["smoothing"], operator["n_patches"]) == (True, "dirichlet", [1, 1])
    fno = RECIPES["paper"]["darcy-416-fno"].training
    assert (fno.averages, fno.batch_size, fno.learning_rate, fno.optimizer) == ("full", 4, 3e-3, "adamw")


def test_the_best_recipe_at_64_points():
    training = find_run("darcy-64-tno", protocol="best").training
    assert (training.schedule, training.loss, training.ema, training.augment) == ("one-cycle", "h1", 0.999, True)
    assert (training.averages, training.products, training.compile) == ("float16", "tf32", True)


@pytest.mark.parametrize("name", [name for name in RECIPES["best"] if "416" in name])
def test_a_patch_of_the_coarse_grid_has_all_modes(name):
    experiment = RECIPES["best"][name]
    coarsest, patches = experiment.data.coarser[0], experiment.operator["n_patches"][0]
    assert coarsest / patches >= 2 * experiment.operator["n_modes"]


def test_smoothing_and_extension_are_compared_on_the_same_patches():
    plain, smoothed, extended = (
        RECIPES["best"][f"kolmogorov-416-fano-{variant}"] for variant in ("patches", "smoothing", "extension")
    )
    assert (plain.operator["n_patches"], plain.operator["n_modes"], plain.operator["adds_input"]) == ([2, 2], 16, True)
    assert smoothed.operator == plain.operator | {"smoothing": "periodic"}
    assert extended.operator == plain.operator | {"periodic_extension": True}
    assert plain.training == smoothed.training == extended.training
    training = plain.training
    assert (training.optimizer, training.learning_rate, training.batch_size) == ("muon", 4e-3, 4)
    assert (plain.data.coarser, training.stages, training.epochs, training.batches) == ((104,), (8, 2), 10, "pairs")
    with pytest.raises(UsageError, match=r"kolmogorov-416-fano-patches is not of the paper .* give --protocol best"):
        find_run("kolmogorov-416-fano-patches")


def test_epochs_are_those_of_the_first_name_that_fits():
    epochs = {name: run.training.epochs for name, run in RECIPES["paper"].items()}
    assert (epochs["darcy-416-afno"], epochs["piecewise-416-afno"], epochs["darcy-416-fno"]) == (5, 5, 6)
    assert (epochs["kolmogorov-416-afno"], epochs["darcy-64-afno"], epochs["lorenz-y"]) == (2, 20, 100)


@pytest.mark.parametrize("name", ["lorenz-y", "lorenz-yz-invariant"])
def test_the_best_recipes_on_a_line_see_half_the_resolution_to_the_end(name):
    data, training = RECIPES["best"][name].data, RECIPES["best"][name].training
    assert (data.coarser, data.resolution, training.resolutions) == ((100,), 200, "growing")
    assert (training.stages, training.batches, training.epochs) == ((0.5, 0.5), "pairs", 150)
    assert "lorenz-yz" not in RECIPES["best"]


def test_darcy_flow_of_li_et_al():
    experiment = find_run("darcy-li-85", protocol="best")
    data, law = experiment.data, experiment.problem
    assert (data.resolution, data.train, data.test) == (85, 1000, 200)
    assert (law.coefficient, law.scale, law.tau, law.alpha, law.points) == ("piecewise", 1.0, 3.0, 2.0, "nodes")
    assert law.read_from == 421
    steps = [(law.read_from - 1) / (n - 1) for n in (*data.coarser, data.resolution)]
    assert steps == [10, 7, 6, 5]  # every tenth, seventh, sixth and fifth node
    assert experiment.training.resolutions == "growing"
    with pytest.raises(UsageError, match="darcy-li-85 has no recipe of the protocol paper"):
        find_run("darcy-li-85", protocol="paper")


def test_a_protocol_goes_with_a_name_and_without_a_scale(tmp_path):
    (tmp_path / "a.toml").write_text("")
    with pytest.raises(UsageError, match="goes with an experiment's name"):
        find_run(str(tmp_path / "a.toml"), protocol="best")
    with pytest.raises(UsageError, match="leave one out"):
        find_run("darcy-64-tno", "paper", protocol="best")
    assert find_run("darcy-64-tno", None, ["training.seed=3"], "best").training.seed == 3
