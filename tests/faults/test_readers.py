"""The corpus that coverage-guided fuzzing left (.ci/fuzz_readers.py), and other changes of right files, read again."""

import random
from pathlib import Path

import pytest
from readers import TARGETS, attempt, changed_json, seeds

CORPUS = Path(__file__).parent / "corpus"


@pytest.fixture(scope="module")
def right():
    return seeds()


@pytest.mark.parametrize("target", TARGETS)
def test_what_fuzzing_found_is_read_or_refused(target, right):
    for content in right[target]:
        attempt(target, content)
    for path in sorted((CORPUS / target).glob("*")):
        attempt(target, path.read_bytes())


def test_the_corpus_is_small():
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]
    assert len(sizes) >= 100
    assert sum(sizes) < 200_000


@pytest.mark.faults
def test_changed_files_are_read_or_refused(right, count):
    draws = random.Random(0)
    for target, contents in right.items():
        for content in contents:
            for _ in range(300 // len(contents)):
                changed = changed_json(content, draws) if draws.random() < 0.5 else None
                if changed is None:
                    at, changed = draws.randrange(len(content) + 1), bytearray(content)
                    changed[at : at + draws.randrange(4)] = draws.randbytes(draws.randrange(4))
                attempt(target, bytes(changed))
    count("changed files given to readers, read or refused", 300 * len(right))
