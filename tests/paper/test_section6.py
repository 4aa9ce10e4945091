"""The runs of Section 6 against a table typed from the paper's text."""

import json
import sys
from dataclasses import replace

import pytest
import torch

from operformer.errors import ResourceError, UsageError
from operformer.operators.smoothing import Smoothing
from operformer.problems import ControlledODE, Darcy, Kolmogorov, Lorenz63
from operformer.runs import evaluate_run, train_run
from operformer.runs.experiment import parse
from paper.line import as_plain_transformer
from paper.lookup import find_run
from paper.parameters import parameters_of
from paper.section6 import EXHIBITS, EXPERIMENTS

LINE = ("lorenz-y", "lorenz-y-transformer", "lorenz-yz", "lorenz-yz-invariant", "controlled-ode")
NAMED = [pytest.param(e, id=f"{name}-{scale}") for name, both in EXPERIMENTS.items() for scale, e in both.items()]

# Section 6.2: operator, width, layers, modes, patches, modes of the last layer, batch size, learning rate.
PLANE = """
darcy-64-tno                    TNO                  128  6   -   -   -  2  1e-3
darcy-64-fno                    FNO                  128  4  12   -   -  8  1e-4
darcy-64-afno                   AFNO                 128  4   -   -   -  1  1e-3
darcy-64-galerkin               GalerkinTransformer  128  4   -   -   -  2  1e-3
darcy-64-galerkin-layers-6      GalerkinTransformer  128  6   -   -   -  2  1e-3
darcy-416-vitno                 ViTNO                128  6  12  13  64  1  1e-3
darcy-416-fano                  FANO                 128  6   9  13  64  1  1e-3
darcy-416-fno                   FNO                  128  4  12   -   -  8  1e-4
darcy-416-afno                  AFNO                 128  4   -   -   -  1  1e-3
piecewise-416-vitno             ViTNO                128  6  12  13  64  1  1e-3
piecewise-416-fano              FANO                 128  6   9  13  64  1  1e-3
piecewise-416-fno               FNO                  128  4  12   -   -  8  1e-4
piecewise-416-afno              AFNO                 128  4   -   -   -  1  1e-3
kolmogorov-416-vitno            ViTNO                128  6  12  13  64  2  1e-3
kolmogorov-416-fano             FANO                 128  6   9  13  64  2  1e-3
kolmogorov-416-fno              FNO                  128  4  12   -   -  4  1e-3
kolmogorov-416-afno             AFNO                 128  4   -   -   -  1  1e-3
kolmogorov-416-fano-smoothing   FANO                 128  6   9  13  64  2  1e-3
kolmogorov-416-fano-extension   FANO                 128  6   9  13  64  2  1e-3
piecewise-416-vitno-width-32    ViTNO                 32  6  12  13  64  1  1e-3
piecewise-416-vitno-width-64    ViTNO                 64  6  12  13  64  1  1e-3
piecewise-416-vitno-width-96    ViTNO                 96  6  12  13  64  1  1e-3
piecewise-416-fano-width-32     FANO                  32  6   9  13  64  1  1e-3
piecewise-416-fano-width-64     FANO                  64  6   9  13  64  1  1e-3
piecewise-416-fano-width-96     FANO                  96  6   9  13  64  1  1e-3
piecewise-416-fno-width-32      FNO                   32  4  12   -   -  8  1e-4
piecewise-416-fno-width-64      FNO                   64  4  12   -   -  8  1e-4
piecewise-416-fno-width-96      FNO                   96  4  12   -   -  8  1e-4
piecewise-416-afno-width-32     AFNO                  32  4   -   -   -  1  1e-3
piecewise-416-afno-width-64     AFNO                  64  4   -   -   -  1  1e-3
piecewise-416-afno-width-96     AFNO                  96  4   -   -   -  1  1e-3
kolmogorov-416-vitno-width-32   ViTNO                 32  6  12  13  64  2  1e-3
kolmogorov-416-vitno-width-64   ViTNO                 64  6  12  13  64  2  1e-3
kolmogorov-416-vitno-width-96   ViTNO                 96  6  12  13  64  2  1e-3
kolmogorov-416-fano-width-32    FANO                  32  6   9  13  64  2  1e-3
kolmogorov-416-fano-width-64    FANO                  64  6   9  13  64  2  1e-3
kolmogorov-416-fano-width-96    FANO                  96  6   9  13  64  2  1e-3
kolmogorov-416-fno-width-32     FNO                   32  4  12   -   -  4  1e-3
kolmogorov-416-fno-width-64     FNO                   64  4  12   -   -  4  1e-3
kolmogorov-416-fno-width-96     FNO                   96  4  12   -   -  4  1e-3
kolmogorov-416-afno-width-32    AFNO                  32  4   -   -   -  1  1e-3
kolmogorov-416-afno-width-64    AFNO                  64  4   -   -   -  1  1e-3
kolmogorov-416-afno-width-96    AFNO                  96  4   -   -   -  1  1e-3
"""
ROWS = {row.split()[0]: row.split()[1:] for row in PLANE.strip().splitlines()}
# The problem; points along an axis; pairs to train on, to validate and to test.
STUDIES = {
    "darcy-64": (Darcy("lognormal"), 64, 3600, 200, 200),
    "darcy-416": (Darcy("lognormal"), 416, 3600, 200, 200),
    "piecewise-416": (Darcy("piecewise"), 416, 3600, 200, 200),
    "kolmogorov-416": (Kolmogorov(), 416, 9000, 500, 500),
}


def study_of(name):
    return "-".join(name.split("-")[:2])


def test_every_run_has_its_place_once():
    assert list(EXPERIMENTS) == [name for exhibit in EXHIBITS for name in exhibit.runs]
    assert EXPERIMENTS.keys() == {*LINE, *ROWS}
    assert all(e.name == name for name, both in EXPERIMENTS.items() for e in both.values())


@pytest.mark.parametrize("experiment", NAMED)
def test_an_experiment_comes_back_from_plain_values(experiment):
    assert parse(json.loads(json.dumps(experiment.to_mapping()))) == experiment


# Section 6.1


@pytest.mark.parametrize("name", LINE)
def test_problems_in_time_are_the_papers(name):
    experiment = find_run(name, "paper")
    assert (experiment.data.train, experiment.data.test, experiment.data.resolution) == (8000, 1000, 200)
    assert experiment.problem.horizon == 2.0
    settings = experiment.make_operator().settings
    assert (settings["hidden_channels"], settings["n_layers"], settings["n_heads"]) == (128, 6, 8)
    assert (experiment.training.learning_rate, experiment.training.schedule) == (1e-3, "plateau")
    assert (experiment.training.batch_size, experiment.training.epochs) == (64, 100)
    assert experiment.training.loss == "l2"


def test_the_problems_are_those_of_section_6_1():
    assert find_run("lorenz-y").problem == Lorenz63(recover=("y",))
    assert find_run("lorenz-yz").problem == Lorenz63(recover=("y", "z"), initial=True)
    assert find_run("controlled-ode").problem == ControlledODE()
    assert find_run("lorenz-yz").make_operator().settings["initial_channels"] == 2
    assert find_run("lorenz-yz-invariant").make_operator().settings["initial_channels"] == 0


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_the_plain_transformer_differs_in_nothing_but_its_operator(scale):
    experiment, plain = EXPERIMENTS["lorenz-y"][scale], EXPERIMENTS["lorenz-y-transformer"][scale]
    assert plain == as_plain_transformer(experiment)
    assert replace(plain, name=experiment.name, operator=experiment.operator) == experiment
    ours, theirs = experiment.make_operator().settings, plain.make_operator().settings
    assert type(plain.make_operator()).__name__ == "Transformer"
    assert {key: ours[key] for key in theirs} == theirs


# Section 6.2


@pytest.mark.parametrize("name", ROWS)
def test_problems_in_the_plane_are_the_papers(name):
    operator, width, layers, modes, patches, final, batch, rate = ROWS[name]
    problem, resolution, train, validation, test = STUDIES[study_of(name)]
    experiment = EXPERIMENTS[name]["paper"]
    data, training, settings = experiment.data, experiment.training, experiment.operator
    assert experiment.problem == problem
    assert (data.resolution, data.train, data.validation, data.test) == (resolution, train, validation, test)
    assert (settings["name"], settings["hidden_channels"], settings["n_layers"]) == (operator, int(width), int(layers))
    assert settings.get("n_modes", "-") == (modes if modes == "-" else int(modes))
    assert settings.get("n_patches", "-") == (patches if patches == "-" else [int(patches)] * 2)
    assert settings.get("final_modes", "-") == (final if final == "-" else int(final))
    assert settings.get("shape") == ([resolution, resolution] if operator == "AFNO" else None)
    assert settings.get("n_blocks") == (8 if operator == "AFNO" else None)  # b in Appendix C
    assert (training.batch_size, training.learning_rate) == (int(batch), float(rate))
    assert (training.loss, training.epochs, training.schedule, training.optimizer) == ("h1", 80, "plateau", "adamw")
    assert (training.weight_decay, training.augment, training.ema) == (0.0, False, 0.0)


def test_the_variants_of_fano_differ_in_what_they_are_named_after():
    plain = EXPERIMENTS["kolmogorov-416-fano"]
    for name, key, value in (("smoothing", "smoothing", "periodic"), ("extension", "periodic_extension", True)):
        for scale, experiment in EXPERIMENTS[f"kolmogorov-416-fano-{name}"].items():
            assert experiment.operator == plain[scale].operator | {key: value}
    layer = EXPERIMENTS["kolmogorov-416-fano-smoothing"]["paper"].make_operator().last.smoothing
    assert isinstance(layer, Smoothing)
    assert (layer.epsilon, layer.alpha, layer.boundary) == (1e-3, 1.001, "periodic")


@pytest.mark.parametrize("name", ROWS)
def test_smoke_scale_is_the_same_run_made_small(name):
    smoke, paper = EXPERIMENTS[name]["smoke"], EXPERIMENTS[name]["paper"]
    assert smoke.operator.keys() == paper.operator.keys()
    assert smoke.operator["name"] == paper.operator["name"]
    assert 4 * smoke.operator["hidden_channels"] == paper.operator["hidden_channels"]
    assert 2 * smoke.operator["n_layers"] == paper.operator["n_layers"]
    assert smoke.data.resolution == (24 if paper.data.resolution == 64 else 48)
    assert smoke.training.loss == paper.training.loss
    if study_of(name) == "kolmogorov-416":
        law = {"start": 11.0, "n_modes": 54, "step": 0.01}
        assert replace(smoke.problem, **law) == paper.problem
    else:
        assert smoke.problem == paper.problem


@pytest.mark.parametrize("name", [name for name in ROWS if "width" not in name])
def test_smoke_operators_take_every_grid_of_an_evaluation(name, need_neuralop):
    experiment = EXPERIMENTS[name]["smoke"]
    if experiment.operator["name"] == "FNO":
        need_neuralop()
    operator = experiment.make_operator().eval()
    grids = experiment.problem.evaluation_grids(experiment.data.resolution)
    for label, grid in ((label, grid) for label, grid in grids.items() if label.endswith("x")):
        u = torch.randn(1, 1, *grid.shape, generator=torch.Generator().manual_seed(1))
        if label == "graded" and experiment.operator["name"] in ("FNO", "AFNO", "ViTNO"):
            with pytest.raises(UsageError, match=r"uniform grids only|point by point"):
                operator(u, grid)
            continue
        if experiment.operator["name"] == "AFNO" and label != "1x":
            with pytest.raises(UsageError, match="bound to"):
                operator(u, grid)
            continue
        with torch.no_grad():
            assert torch.isfinite(operator(u, grid)).all()


def test_a_run_in_the_plane_is_trained_and_evaluated_at_five_resolutions(tmp_path):
    less = ["data.train=12", "data.validation=2", "data.test=3", "training.epochs=1", "training.device=cpu"]
    experiment = find_run("piecewise-416-fano-width-32", "smoke", less)
    operator = train_run(experiment, tmp_path)
    assert sum(p.numel() for p in operator.parameters()) == parameters_of(experiment)
    evaluations = evaluate_run(tmp_path)
    assert {e.label: e.points for e in evaluations} == {
        "0.5x": 24**2, "0.75x": 36**2, "1x": 48**2, "1.5x": 72**2, "2x": 96**2, "graded": 48**2,
    }  # fmt: skip
    untrained = 1.0  # relative error of the zero function
    assert all(0 < e.median < untrained for e in evaluations)
    medians = [e.median for e in evaluations if e.label != "graded"]
    assert max(medians) < 1.1 * min(medians)  # the same function at every resolution


# Without neuraloperator


def test_without_neuraloperator_an_fno_is_listed_and_read_and_refused_before_the_draw(tmp_path, monkeypatch, call):
    monkeypatch.setitem(sys.modules, "neuralop.models", None)
    experiment = find_run("darcy-64-fno", "paper")
    assert parameters_of(experiment) == 5_705_089
    monkeypatch.setattr(Darcy, "sample", lambda *_: pytest.fail("drawn in vain"))
    with pytest.raises(ResourceError, match=r"pip install 'operformer\[baselines\]'"):
        train_run(experiment, tmp_path / "run")
    code, _, err = call("train", "darcy-64-fno", "--out", tmp_path / "run")
    assert (code, err.count("\n")) == (5, 1)
    assert "pip install 'operformer[baselines]'" in err
    assert not (tmp_path / "run").exists()
