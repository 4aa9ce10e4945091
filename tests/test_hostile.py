"""Malicious and malformed files: none runs, none reaches outside its folder, each is one line and its exit code."""

import hashlib
import io
import json
import os
import pickle
import shutil
import signal
import struct
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from operformer.cli import main
from operformer.training import loop as training

SMALL = [
    "data.train=13", "data.validation=3", "data.test=5", "data.resolution=8",
    "operator.hidden_channels=6", "operator.n_layers=1", "operator.n_heads=2",
    "training.epochs=2", "training.batch_size=5", "training.device=cpu", "training.ema=0.5",
]  # fmt: skip
TRAIN = ["train", "lorenz-y", *SMALL, "--out", "run"]
SECONDS = 5.0
MARKER = "it-ran"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped after the first of two epochs and evaluated; not to be changed."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(training.TrainingDisplay, "epoch", _interrupt)
        assert _code(*TRAIN) == 130
        assert _code("evaluate", "run") == 0
    return folder / "run"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in; nothing else may appear beside it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def _interrupt(*_):
    raise KeyboardInterrupt


def _code(*arguments):
    before = signal.getsignal(signal.SIGTERM)
    try:
        main(list(arguments))
    except SystemExit as error:
        return error.code
    finally:
        signal.signal(signal.SIGTERM, before)


# What the files hold


class Malice:
    """A pickle that leaves a mark when it is read."""

    def __reduce__(self):
        return (os.system, (f"touch {MARKER}",))


def torch_archive():
    content = io.BytesIO()
    torch.save({"weights": Malice()}, content)
    return content.getvalue()


def escaping_archive(is_zip):
    content = io.BytesIO()
    if is_zip:
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr(f"../../{MARKER}", b"escaped")
    else:
        with tarfile.open(fileobj=content, mode="w") as archive:
            archive.addfile(tarfile.TarInfo(f"../../{MARKER}"))
    return content.getvalue()


def tensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def write(content):
    return lambda path: path.write_bytes(content)


def edit_tensors(change):
    def damage(path):
        found = load_file(path)
        change(found)
        path.write_bytes(save(found))

    return damage


def edit_json(change):
    return lambda path: path.write_text(json.dumps(change(json.loads(path.read_text()))))


def settings(**changes):
    return edit_json(lambda config: config | {"settings": config["settings"] | changes})


def patched(operator, **changes):
    return edit_json(lambda _: {"operator": operator, "settings": {"in_channels": 1, "out_channels": 1} | changes})


def replaced(make):
    def damage(path):
        path.unlink()
        make(path)

    return damage


def sparse(path):
    with path.open("wb") as file:
        file.write(tensors({"a": entry(shape=[2**38], offsets=[0, 2**40])}))
        file.truncate(2**40)


NESTED = b"[" * 200_000
FILES = {
    "a pickle": write(pickle.dumps(Malice(), protocol=2)),
    "a torch archive": write(torch_archive()),
    "a zip with ../": write(escaping_archive(is_zip=True)),
    "a tar with ../": write(escaping_archive(is_zip=False)),
    "empty": write(b""),
    "a pipe": replaced(os.mkfifo),
    "a folder": replaced(os.mkdir),
    "endless": replaced(lambda path: path.symlink_to("/dev/zero")),
    "a link to nowhere": replaced(lambda path: path.symlink_to("nowhere")),
    "a link to itself": replaced(lambda path: path.symlink_to(path.name)),
}
TENSORS = FILES | {
    "a header of 2^64 bytes": write(b"\xff" * 8),
    "a header of 2^40 bytes": write(tensors({}, length=2**40)),
    "a header that is no JSON": write(tensors(b"{" * 50)),
    "a header of brackets": write(tensors(NESTED)),
    "a header that is a list": write(tensors([])),
    "offsets beyond the end": write(tensors({"a": entry(offsets=[0, 2**40])}, b"1234")),
    "offsets that overlap": write(tensors({"a": entry(), "b": entry()}, b"1234")),
    "offsets backwards": write(tensors({"a": entry(offsets=[4, 0])}, b"1234")),
    "a negative shape": write(tensors({"a": entry(shape=[-1])}, b"1234")),
    "a shape beyond counting": write(tensors({"a": entry(shape=[2**62, 2**62])}, b"1234")),
    "a type that is none": write(tensors({"a": entry(dtype="PICKLE")}, b"1234")),
    "a terabyte of nothing": sparse,
    "another shape": edit_tensors(lambda t: t.update({next(iter(t)): torch.ones(2, 3, 5)})),
    "a tensor too few": edit_tensors(lambda t: t.pop(next(iter(t)))),
    "a tensor too many": edit_tensors(lambda t: t.update({"../../" + MARKER: torch.ones(2)})),
    "not a number": edit_tensors(lambda t: t[next(iter(t))].fill_(torch.nan)),
    "infinity": edit_tensors(lambda t: t[next(iter(t))].fill_(torch.inf)),
}
MODELS = TENSORS | {
    "whole numbers": edit_tensors(lambda t: t.update({k: v.long() for k, v in t.items()})),
    "eight bits": edit_tensors(lambda t: t.update({k: v.to(torch.float8_e5m2) for k, v in t.items()})),
}
JSON = FILES | {
    "brackets": write(NESTED),
    "a list": write(b"[]"),
    "null": write(b"null"),
    "not text": write(b"\xff\xfe\x00"),
    "a number of a million digits": write(b'{"a": ' + b"9" * 1_000_000 + b"}"),
    "NaN": write(b'{"a": NaN}'),
}
CONFIGS = JSON | {
    "a module": edit_json(lambda c: c | {"operator": "os.system"}),
    "a dunder": edit_json(lambda c: c | {"operator": "__class__"}),
    "no settings": edit_json(lambda c: {"operator": c["operator"]}),
    "settings in a list": edit_json(lambda c: c | {"settings": [1]}),
    "a setting that is none": settings(__class__="os.system"),
    "a width of 10^12": settings(hidden_channels=10**12),
    "a width of 10^6": settings(hidden_channels=10**6, n_heads=1),
    "a depth of 10^9": settings(n_layers=10**9),
    "a depth of 200": settings(n_layers=200),
    "no heads": settings(n_heads=0),
    "half a head": settings(n_heads=0.5),
    "a width that is text": settings(hidden_channels="6"),
    "modes beyond counting": patched("FANO", n_patches=[2, 2], n_modes=10**6),
    "patches beyond counting": patched("ViTNO", n_patches=[10**9], n_modes=2),
}
RECORDS = JSON | {
    "a rate that is text": edit_json(lambda r: r | {"rates": ["fast"]}),
    "a rate too many": edit_json(lambda r: r | {"rates": r["rates"] * 2}),
    "a schedule that is text": edit_json(lambda r: r | {"schedule": {"done": "all"}}),
    "a schedule before the start": edit_json(lambda r: r | {"schedule": {"done": -1}}),
    "an epoch before the start": edit_json(lambda r: r | {"progress": r["progress"] | {"epoch": -1}}),
    "another position": edit_json(lambda r: r | {"progress": r["progress"] | {"batch": 2}}),
    "half a loss": edit_json(lambda r: r | {"progress": r["progress"] | {"loss": None}}),
    "an average of no updates": edit_json(lambda r: r | {"averaged": None}),
    "a progress too long": edit_json(lambda r: r | {"progress": r["progress"] | {"more": 1}}),
    "a file elsewhere": edit_json(lambda r: r | {"checksums": r["checksums"] | {"../../../x": ""}}),
    "checksums in a list": edit_json(lambda r: r | {"checksums": []}),
}


def seal(checkpoint):
    """Put the right checksums on wrong files, as somebody would who means it."""
    path = checkpoint / "training.json"
    if not path.is_file():
        return
    try:
        record = json.loads(path.read_bytes())
        record.pop("checksum")
        for name in record["checksums"]:
            if "/" not in name and (checkpoint / name).is_file() and (checkpoint / name).stat().st_size < 2**30:
                record["checksums"][name] = hashlib.sha256((checkpoint / name).read_bytes()).hexdigest()
        content = json.dumps(record, sort_keys=True).encode()
        path.write_text(json.dumps(record | {"checksum": hashlib.sha256(content).hexdigest()}))
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError):
        pass  # beyond sealing


CHECKPOINT = "checkpoints/epoch-0001/"
REPORTED = ("evaluation.json", "rollout.json", "made.json", "seconds.json")
CORPUS = [
    (command, name, kind, damage)
    for command, names, damages in (
        ("evaluate", ["operator/model.safetensors"], MODELS),
        ("evaluate", ["operator/config.json"], CONFIGS),
        ("evaluate", ["experiment.json"], JSON),
        ("report", REPORTED, JSON),
        ("report", ["metrics.jsonl"], {kind: damage for kind, damage in JSON.items() if kind != "empty"}),
        ("status", ["status.json"], JSON),
        ("train", [CHECKPOINT + "model.safetensors"], MODELS),
        ("train", [CHECKPOINT + "config.json"], CONFIGS),
        ("train", [CHECKPOINT + "optimizer.safetensors", CHECKPOINT + "average.safetensors"], TENSORS),
        ("train", [CHECKPOINT + "training.json"], RECORDS),
    )
    for name in names
    for kind, damage in damages.items()
]


def told(capsys, *arguments):
    """The exit code of a command that must say one line, soon, run nothing and write nothing elsewhere."""
    capsys.readouterr()
    started = time.monotonic()
    code = _code(*arguments)
    seconds = time.monotonic() - started
    err = capsys.readouterr().err
    assert err.startswith("operformer: ")
    assert err.count("\n") == 1
    assert len(err) < 2000
    assert seconds < SECONDS
    here = Path.cwd()
    assert not [path for path in here.parent.rglob("*") if MARKER in path.name]
    assert list(here.parent.iterdir()) == [here]
    return code


@pytest.mark.parametrize(("command", "name", "kind", "damage"), CORPUS, ids=[f"{n}-{k}" for _, n, k, _ in CORPUS])
def test_hostile_files_are_told_in_one_line(stopped, here, capsys, count, command, name, kind, damage):
    run = here / "run"
    shutil.copytree(stopped, run, symlinks=True)
    if name in ("status.json", "rollout.json") and not (run / name).exists():
        (run / name).write_text("{}")
    damage(run / name)
    if name.startswith(CHECKPOINT):
        seal(run / CHECKPOINT)
    assert told(capsys, *(TRAIN if command == "train" else [command, "run"])) == 3
    count("hostile files, each told in one line", 1)


# Configurations: what is asked for makes no sense, which is exit code 2

WRONG = {
    "brackets": "a = " + "[" * 100_000,
    "tables in tables": "[" + ".".join("a" * 20_000) + "]",
    "a folder elsewhere": 'name = "../../escaped"',
    "a folder from the root": 'name = "/tmp/escaped"',
    "a hidden folder": 'name = ".ssh"',
    "a name with a line end": 'name = "a\\nb"',
    "a name that is a number": "name = 7",
    "a depth of 10^9": "[operator]\nn_layers = 1000000000",
    "a width beyond counting": "[operator]\nhidden_channels = 1000000000000\nn_heads = 1",
    "modes beyond counting": '[operator]\nname = "FANO"\nn_patches = [2]\nn_modes = 100000000',
    "pairs beyond counting": "[data]\ntrain = 1000000000000000000000000",
    "epochs beyond counting": "[training]\nepochs = 1000000000000000000",
    "a resolution before the start": "[data]\nresolution = -1",
    "coarser ones that are finer": "[data]\nresolution = 8\ncoarser = [16]",
    "coarser ones that fall": "[data]\nresolution = 8\ncoarser = [4, 2]",
    "coarser ones that are text": '[data]\ncoarser = ["4"]',
    "a seed beyond": "[training]\nseed = 18446744073709551616",
    "a date": "[training]\nepochs = 1979-05-27",
    "infinity": "[training]\nlearning_rate = inf",
    "not a number": "[problem]\nrho = nan",
    "an operator from a module": '[operator]\nname = "os.system"',
    "a problem from a module": '[problem]\nname = "__import__"',
    "a table for a number": "[training.epochs]\na = 1",
    "an optimizer that is none": '[training]\noptimizer = "sgd"',
    "a strategy that is none": '[training]\nstrategy = "horovod"',
    "an average of one": "[training]\nema = 1.0",
}


@pytest.mark.parametrize("kind", WRONG)
def test_hostile_configurations_are_told_in_one_line(here, capsys, kind):
    (here / "hostile.toml").write_text(WRONG[kind])
    assert told(capsys, "train", "hostile.toml") == 2
    assert [path.name for path in here.iterdir()] == ["hostile.toml"]


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind != "empty"])  # which is an experiment of defaults
def test_configurations_that_are_something_else_are_told_in_one_line(here, capsys, kind):
    (here / "hostile.toml").write_text("")
    FILES[kind](here / "hostile.toml")
    assert told(capsys, "train", "hostile.toml") in (2, 3)
