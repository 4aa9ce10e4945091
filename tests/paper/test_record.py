"""results.json: what is written is read back; what is damaged is one line."""

import json
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from operformer.errors import DataError
from operformer.evaluation.rollout import Rollout
from paper.record import operator_name, problem_name, read_results, write_results


def test_results_are_read_back(made, tmp_path):
    _, results, _ = made
    rollout = Rollout((0.1, 0.2), ((0.25, inf), (0.5, 1.0)), ((1.0, 2.0), (3.0, 4.0)), None)
    name = next(iter(results.runs))
    results = replace(results, runs=results.runs | {name: replace(results.runs[name], rollout=rollout)})
    write_results(results, tmp_path / "results.json")
    found = read_results(tmp_path / "results.json")
    assert replace(found, views={}) == replace(results, views={})
    for run, views in results.views.items():
        for label, shown in views.items():
            for key, array in vars(shown).items():
                assert np.array_equal(getattr(found.views[run][label], key), array) or array is None


def damage(path, change):
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def a_run(values):
    return next(iter(values["runs"].values()))


DAMAGES = {
    "version": lambda v: v.update(version=99),
    "no runs": lambda v: v.pop("runs"),
    "runs": lambda v: v.update(runs=[1, 2]),
    "measured": lambda v: a_run(v)["measured"][0].pop("errors"),
    "more": lambda v: a_run(v).update(more=1),
    "look": lambda v: a_run(v)["looks"]["1x"][0].pop("u"),
    "text": lambda v: a_run(v)["measured"][0].update(errors=["a"]),
    "array": lambda v: v["views"]["arrays"].clear(),
    "base64": lambda v: v["views"]["arrays"].__setitem__(0, "%%%"),
    "cost": lambda v: v["costs"]["TNO"].pop("parameters"),
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_results_are_refused_in_one_line(made, tmp_path, change):
    path = tmp_path / "results.json"
    path.write_bytes((made[0] / "results.json").read_bytes())
    damage(path, change)
    with pytest.raises(DataError, match=r"holds no results of a reproduction") as caught:
        read_results(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["[]", "3", '"text"', "null"])
def test_other_json_is_refused(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DataError, match="holds no results"):
        read_results(tmp_path / "x.json")


def test_names_for_readers():
    def settings(problem, **operator):
        return {"name": operator.pop("run", "x"), "problem": problem, "operator": operator}

    lorenz = {"name": "Lorenz63", "recover": ["y", "z"], "initial": True}
    assert problem_name(settings(lorenz, name="TNO")) == "Lorenz 63, x to y and z"
    assert operator_name(settings(lorenz, name="TNO")) == "TNO, constant channels"
    assert operator_name(settings(lorenz, name="TNO", initial_channels=2)) == "TNO"
    darcy = {"name": "Darcy", "coefficient": "piecewise"}
    assert problem_name(settings(darcy, name="FANO")) == "Darcy flow, piecewise"
    assert operator_name(settings(darcy, name="FANO", last=[64, "periodic"])) == "FANO, smoothing"
    extended = settings(darcy, name="FANO", basis="extended-fourier", n_patches=[2, 2])
    assert operator_name(extended) == "FANO, 2 × 2 patches, periodic extension"
    assert operator_name(extended, with_patches=False) == "FANO, periodic extension"
    elliptic = {"n_modes": [32, 32], "basis": "isotropic-cosine", "last": ["dirichlet"]}
    assert operator_name(settings(darcy, name="SpectralOperator", **elliptic)) == "SpectralOperator, no attention"
    assert operator_name(settings(darcy, name="FANO", n_patches=[1, 2])) == "FANO, 1 × 2 patches"
    assert operator_name(settings(darcy, name="FANO", n_patches=[13, 13])) == "FANO"  # the paper's
    assert operator_name(settings(darcy, name="FANO", basis="fourier")) == "FANO"
    cosines = settings(darcy, name="FANO", n_patches=[2, 2], basis="cosine")
    assert operator_name(cosines) == "FANO, 2 × 2 patches, cosines"
    assert operator_name(settings(darcy, name="ViTNO", basis="legendre")) == "ViTNO, Legendre polynomials"
    deeper = settings(darcy, name="GalerkinTransformer", n_layers=6, run="darcy-64-galerkin-layers-6")
    assert operator_name(deeper) == "Galerkin transformer, 6 layers"
