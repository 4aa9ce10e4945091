"""A tiny study, carried out once for all tests."""

import warnings
from dataclasses import replace

import pytest
from tiny import EXPERIMENTS_OF_TINY, TINY, line

from paper import recipes
from paper.catalogue import CATALOGUE
from paper.reproduce import reproduce


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The study's folder, results and what was told."""
    folder, told = tmp_path_factory.mktemp("reproduction"), []
    results = reproduce([TINY], EXPERIMENTS_OF_TINY, "smoke", folder, 2, told.append)
    return folder, results, told


@pytest.fixture
def need_neuralop():
    """Skips a test, when called, where neuraloperator is not installed."""

    def need():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pytest.importorskip("neuralop", exc_type=ImportError)

    return need


@pytest.fixture
def tiny_catalogue(monkeypatch):
    """A catalogue whose run lorenz-yz takes a second; what is called with settings of the training changes them."""
    name, others = "lorenz-yz", recipes._ours

    def change(**settings):
        tiny = line(name)
        monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], authors=tiny, smoke=tiny))
        ours = replace(tiny, training=replace(tiny.training, schedule="one-cycle", **settings))
        monkeypatch.setattr(recipes, "_ours", lambda row: ours if row.name == name else others(row))

    change()
    return change
