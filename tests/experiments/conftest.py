"""What tests of experiments share."""

import warnings

import pytest


@pytest.fixture
def need_neuralop():
    """Skips a test, when called, where neuraloperator is not installed."""

    def need():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pytest.importorskip("neuralop", exc_type=ImportError)

    return need
