"""Thousands of broken configurations and checkpoints: each is read or told in one line, none hangs."""

import copy
import hashlib
import json
import random
import shutil
import signal
from contextlib import contextmanager

import pytest
import torch

from operformer import TNO
from operformer.errors import OperformerError
from operformer.runs import find_experiment
from operformer.runs.experiment import parse
from operformer.training.checkpoint import Progress, State, gather, load_checkpoint, write_checkpoint
from operformer.training.optimizer import WeightAverage, make_optimizer
from operformer.training.schedule import Cosine
from paper.catalogue import rows

CONFIGURATIONS, OVERRIDES, CHECKPOINTS = 1200, 600, 800
VALUES = [
    None, True, False, 0, 1, -1, 2, 7, 10**6, 10**30, -(10**30), 0.0, -0.0, 0.5, 1e-300, 1e300, float("inf"),
    float("nan"), "", "a", "TNO", "FANO", "../..", "\x00", "\n", "√", "x" * 10_000, [], [1], [0, -1], [[1]], ["y"],
    ["y", "y"], {}, {"name": "TNO"}, {"": 1}, "inf", "1",
]  # fmt: skip


@contextmanager
def in_time(what, seconds=5):
    """A case that hangs fails with its name."""

    def late(*_):
        raise AssertionError(f"hangs: {what}")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def told_or_read(action, what):
    """1 if the case was refused in one line, 0 if it was read."""
    with in_time(what):
        try:
            action()
            return 0
        except OperformerError as error:
            told = str(error)
    assert told, what
    assert "\n" not in told, what
    return 1


def bases():
    for row in rows(recipe="smoke"):
        mapping = row.smoke.to_mapping()
        small = {"hidden_channels": 6, "n_layers": 1, "n_heads": 2, "n_blocks": 3}
        operator = mapping["operator"]
        yield mapping | {"operator": operator | {key: value for key, value in small.items() if key in operator}}
    patched = {"name": "FANO", "n_patches": [2], "n_modes": 3, "hidden_channels": 6, "n_layers": 1, "n_heads": 2}
    yield find_experiment("lorenz-y").to_mapping() | {"operator": patched}
    yield find_experiment("lorenz-y").to_mapping() | {"operator": patched | {"name": "ViTNO"}}


def mutated(mapping, draws):
    """One to three changes: another value, a key gone, a key misspelt, a section replaced."""
    mapping = copy.deepcopy(mapping)
    for _ in range(draws.randint(1, 3)):
        section = draws.choice(list(mapping) or ["name"])
        table = mapping.get(section)
        if not isinstance(table, dict) or not table or draws.random() < 0.1:
            mapping[section] = draws.choice(VALUES)
            continue
        key = draws.choice(list(table))
        change = draws.random()
        if change < 0.7:
            table[key] = draws.choice(VALUES)
        elif change < 0.85:
            del table[key]
        else:
            table[key[: draws.randrange(len(key) + 1)] + draws.choice("abz_\n")] = table.pop(key)
    return mapping


def test_broken_configurations_are_told_or_read():
    draws, refused = random.Random(1), 0
    known = list(bases())
    for number in range(CONFIGURATIONS):
        mapping = mutated(known[number % len(known)], draws)
        refused += told_or_read(lambda m=mapping: parse(m), repr(mapping)[:2000])
    assert 0.5 * CONFIGURATIONS < refused < CONFIGURATIONS  # most are broken, some are not


def test_broken_overrides_are_told_or_read():
    draws, refused = random.Random(2), 0
    mapping = find_experiment("lorenz-y").to_mapping()
    keys = [f"{section}.{key}" for section in ("problem", "operator", "data", "training") for key in mapping[section]]
    for _ in range(OVERRIDES):
        letters = "".join(draws.choice("=.[]{}\"'0123456789e-abc\n\\#") for _ in range(draws.randrange(12)))
        override = draws.choice(keys) + "=" + draws.choice([letters, json.dumps(draws.choice(VALUES))])
        if draws.random() < 0.3:
            cut = draws.randrange(len(override))
            override = override[:cut] + draws.choice("=.x\n ") + override[cut + 1 :]
        refused += told_or_read(lambda o=override: find_experiment("lorenz-y", overrides=[o]), repr(override)[:2000])
    assert refused > 0.3 * OVERRIDES


def state(seed=0):
    torch.manual_seed(seed)
    operator = TNO(1, 1, 1, hidden_channels=4, n_layers=1, n_heads=2)
    optimizer = make_optimizer("adamw", operator, 1e-2, 0.0)
    return State(operator, optimizer, Cosine(optimizer, 20), WeightAverage(operator, 0.5))


@pytest.fixture
def checkpoint(tmp_path):
    given = state()
    for parameter in given.operator.parameters():
        parameter.grad = torch.ones_like(parameter)
    given.optimizer.step()
    write_checkpoint(tmp_path / "good", gather(given), Progress(1, 0.5, 1))
    return tmp_path / "good" / "epoch-0001"


def damaged(content, draws):
    """A bit turned, bytes cut, doubled, overwritten or put in."""
    content = bytearray(content)
    for _ in range(draws.randint(1, 3)):
        at, length = draws.randrange(len(content) + 1), draws.randint(1, 20)
        change = draws.randrange(5)
        if change == 0 and at < len(content):
            content[at] ^= 1 << draws.randrange(8)
        elif change == 1:
            del content[at : at + length]
        elif change == 2:
            content[at:at] = content[at : at + length]
        elif change == 3:
            content[at : at + length] = draws.randbytes(length)
        else:
            content = content[:at]
    return bytes(content)


def sealed(folder):
    """Right checksums on wrong files."""
    path = folder / "training.json"
    record = json.loads(path.read_text())
    record.pop("checksum")
    for name in record["checksums"]:
        record["checksums"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    content = json.dumps(record, sort_keys=True).encode()
    path.write_text(json.dumps(record | {"checksum": hashlib.sha256(content).hexdigest()}))


def changed_record(record, draws):
    """The record with a value replaced somewhere."""
    table = record
    while True:
        key = draws.choice([k for k in table if k not in ("checksum", "checksums")])
        if not isinstance(table[key], dict) or draws.random() < 0.3:
            table[key] = draws.choice([value for value in VALUES if value == value and value != float("inf")])
            return record
        table = table[key]


def test_broken_checkpoints_are_told_or_read(checkpoint, tmp_path):
    draws, refused = random.Random(3), 0
    names = sorted(path.name for path in checkpoint.iterdir())
    for number in range(CHECKPOINTS):
        folder = tmp_path / "case" / "epoch-0001"
        shutil.copytree(checkpoint, folder)
        name = draws.choice(names)
        if name == "training.json" and number % 2:
            record = changed_record(json.loads((folder / name).read_text()), draws)
            (folder / name).write_text(json.dumps(record))
        else:
            (folder / name).write_bytes(damaged((folder / name).read_bytes(), draws))
        if number % 4 and (name != "training.json" or number % 2):
            sealed(folder)
        content = (folder / name).read_bytes()
        refused += told_or_read(
            lambda path=folder.parent: load_checkpoint(path, state(1)), f"{number} {name} {content[:500]!r}"
        )
        shutil.rmtree(tmp_path / "case")
    assert refused > 0.5 * CHECKPOINTS
