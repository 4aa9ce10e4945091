"""A tiny study, carried out once for all tests."""

import pytest
from tiny import EXPERIMENTS_OF_TINY, TINY

from operformer.reproduction.reproduce import reproduce


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The study's folder, results and what was told."""
    folder, told = tmp_path_factory.mktemp("reproduction"), []
    results = reproduce([TINY], EXPERIMENTS_OF_TINY, "smoke", folder, 2, told.append)
    return folder, results, told
