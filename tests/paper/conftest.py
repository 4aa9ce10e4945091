"""A tiny study, carried out once for all tests."""

import warnings

import pytest
from tiny import EXPERIMENTS_OF_TINY, TINY

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
