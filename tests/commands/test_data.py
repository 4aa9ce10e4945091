"""generate, import and inspect from the command line: what they print, what they leave, how they end."""

import signal
import struct

import h5py
import numpy as np
import pytest
import torch
from sets import GRIDS

from operformer.commands.data import _cores, _part
from operformer.data import generation
from operformer.data.importing import store
from operformer.data.manifest import MANIFEST, decode, encode
from operformer.data.store import open_pairs
from operformer.domain import Samples
from operformer.errors import UsageError

GENERATE = ["generate", "controlled-ode", "--samples", 7, "--resolution", 4, "--per-shard", 3, "--workers", 1]
DARCY = ["generate", "darcy-lognormal", "n_modes=8", "--samples", 3, "--resolution", 5, "--workers", 1]
PARTS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    *(f"SLURM_ARRAY_TASK_{name}" for name in ("ID", "COUNT", "MIN", "STEP")),
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder of its own for each test, the environment of nobody's cluster, and the signal handlers as they were."""
    monkeypatch.chdir(tmp_path)
    for name in PARTS:
        monkeypatch.delenv(name, raising=False)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def having(option, value):
    """The command with another value of an option."""
    where = GENERATE.index(option) + 1
    return [*GENERATE[:where], value, *GENERATE[where + 1 :]]


def done(call, *arguments):
    """What a command that succeeds prints."""
    code, out, err = call(*arguments)
    assert (code, err) == (0, "")
    return out


def told(call, *arguments):
    """The exit code and the one line of a command that fails."""
    code, _, err = call(*arguments)
    assert_one_line(err)
    return code, err


def assert_one_line(err):
    assert err.startswith("operformer: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert err[:-1].isprintable()


def assert_a_figure(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    assert all(200 < size < 3000 for size in struct.unpack(">II", data[16:24]))


# generate


def test_a_set_is_generated_and_inspected(call, tmp_path):
    command = [*GENERATE, "--seed", 5, "--first", 2, "--dtype", "float64", "n_terms=3", "--out", "sets/mine"]
    out = done(call, *command)
    assert "controlled-ode  7/7" in out
    assert "pairs/s" in out
    assert out.endswith("generated: sets/mine; next: operformer inspect sets/mine\n")
    stored = open_pairs(tmp_path / "sets" / "mine")
    assert stored.read().u.dtype == torch.float64
    lines = done(call, "inspect", "sets/mine").splitlines()
    assert "ControlledODE(decay=0.0, horizon=2.0, n_terms=3, z0=1.0)" in lines
    assert "resolution 4, seed 5, from pair 2 on" in lines
    assert "3 files of 0.1 MiB in all, every checksum is right" in lines
    assert "7 pairs of float64 on Grid(nodes, 5 points in [0, 2])" in lines
    assert lines[-1] == "figure: sets/mine/thumbnail.png"
    numbers = [float(text) for text in next(line for line in lines if line.startswith("z[0]")).split()[1:]]
    z = stored.read().z
    weights = stored.grid.weights / stored.grid.weights.sum()
    mean = float((z * weights).sum(-1).mean())
    expected = [float(z.min()), float(z.max()), mean, float(((z - mean).square() * weights).sum(-1).mean().sqrt())]
    assert numbers == pytest.approx(expected, rel=1e-3)
    assert_a_figure(tmp_path / "sets" / "mine" / "thumbnail.png")
    done(call, *command)


def test_checks_are_told(call):
    done(call, *DARCY, "--out", "mine")
    out = done(call, "inspect", "mine", "--figure", "pictures/first.png")
    assert "1 file of 0.0 MiB in all" in out
    worst = float(next(line for line in out.splitlines() if line.startswith("worst residual ")).split()[2])
    assert 0 <= worst < 1e-10
    assert "figure: pictures/first.png" in out
    code, err = told(call, "import", "mine", "--u", "coefficient", "--z", "pressure", "--out", "again")
    assert (code, "open_pairs" in err) == (3, True)  # a generated folder needs no import


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["generate"], 2, "problem"),
        (["generate", "controlled-od"], 2, "samples"),
        (["generate", "lorenz", *GENERATE[2:]], 2, "did you mean lorenz-y"),
        ([*GENERATE, "n_term=3"], 2, "did you mean n_terms?"),
        ([*DARCY, "n_modes=1.5"], 2, "n_modes must be a whole number"),
        ([*DARCY, "coefficient=smooth"], 2, "lognormal"),
        ([*GENERATE, "n_terms"], 2, "name=value"),
        ([*GENERATE, "n_terms="], 2, "name=value"),
        ([*GENERATE, "=3"], 2, "unknown setting"),
        ([*GENERATE, "name=Darcy"], 2, "name=value"),
        ([*GENERATE, "z0=nan"], 2, "z0"),
        (having("--samples", "0"), 2, "at least 1"),
        (having("--samples", "many"), 2, "many"),
        ([*GENERATE, "--sample", "3"], 2, "--samples"),
        (having("--resolution", "0"), 2, "resolution"),
        ([*GENERATE, "--seed", "-1"], 2, "seed"),
        (having("--workers", "0"), 2, "workers must be at least 1"),
        (having("--per-shard", "0"), 2, "at least one pair"),
        ([*GENERATE, "--part", "1"], 2, "--part and --parts go together"),
        ([*GENERATE, "--parts", "2"], 2, "--part and --parts go together"),
        ([*GENERATE, "--part", "2", "--parts", "2"], 2, "part must be from 0"),
        ([*GENERATE, "--device", "cuda"], 5, "no CUDA device"),
        ([*GENERATE, "--device", "tpu"], 2, "tpu"),
        (
            [*GENERATE, "--out", "other", "--seed", "3"],
            2,
            "other holds another set: its seed is 0, not 3; give another",
        ),
        (having("--samples", 10**15), 5, "make room or draw less"),
        (having("--samples", 10**40), 2, "a draw has"),
        (["generate", "lorenz-y", "rho=1e12", *GENERATE[2:]], 4, "Lorenz"),
        ([*GENERATE, "--out", "file/below"], 5, "file"),
        ([*GENERATE, "--out", "full"], 2, "holds other files"),
        *((["inspect", path], 3, path) for path in ("nowhere", "file", "full")),
        (["inspect"], 2, "path"),
        (["import", "nowhere.npz"], 2, "--out"),
        *((["import", path, "--out", "x"], 3, path) for path in ("nowhere.npz", "file")),
        (["import", "file", "--out", "x", "--bounds", "0", "1", "2"], 2, "a lower and an upper end"),
    ],
    ids=lambda value: " ".join(str(a) for a in value if a not in GENERATE[2:]) if isinstance(value, list) else None,
)
def test_an_error_is_one_line_and_its_code(call, tmp_path, monkeypatch, arguments, code, part):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "file").write_text("mine")
    if "other" in arguments:
        done(call, *GENERATE, "--out", "other")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    if arguments[0] == "generate" and "--out" not in arguments and len(arguments) > 2:
        arguments = [*arguments, "--out", "set"]
    found, err = told(call, *arguments)
    assert part in err
    assert found == code
    assert code == 4 or not (tmp_path / "set").exists()


# Parts


def assert_same_files(one, other):
    for path in one.iterdir():
        assert (other / path.name).read_bytes() == path.read_bytes()


def test_parts_by_option_are_the_whole(call, tmp_path):
    done(call, *GENERATE, "--out", "whole")
    out = done(call, *GENERATE, "--out", "parts", "--part", 1, "--parts", 2)
    assert "part 1 of 2 is done; the set is whole when all are" in out
    assert "controlled-ode  3/3" in out
    code, err = told(call, "inspect", "parts")
    assert (code, "parts is unfinished: 1 of 3 files are made" in err) == (2, True)
    assert "generated: parts" in done(call, *GENERATE, "--out", "parts", "--part", 0, "--parts", 2)
    assert_same_files(tmp_path / "whole", tmp_path / "parts")


def slurm(task, count, lowest=None, step=None):
    values = {"ID": task, "COUNT": count, "MIN": lowest, "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("environment", "part"),
    [
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ({"RANK": "3"}, (0, 1)),
        (slurm(0, 4), (0, 4)),
        (slurm(4, 4, 1), (3, 4)),
        (slurm(8, 5, 0, 2), (4, 5)),
        (slurm(7, 3, 1, 3), (2, 3)),
        ({"RANK": "1", "WORLD_SIZE": "2"} | slurm(0, 4), (1, 2)),
        (slurm(7, 3, 1), "not one of 3 evenly spaced"),
        (slurm(2, 3, 1, 3), "not one of 3 evenly spaced"),
        ({"RANK": "x", "WORLD_SIZE": "8"}, "RANK must be a whole number"),
        ({"RANK": "-1", "WORLD_SIZE": "8"}, "RANK must be a whole number"),
        ({"RANK": "0", "WORLD_SIZE": ""}, "WORLD_SIZE must be a whole number"),
    ],
)
def test_which_part_the_launcher_says(monkeypatch, environment, part):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if isinstance(part, str):
        with pytest.raises(UsageError, match=part):
            _part(None, None)
    else:
        assert _part(None, None) == part
        assert _part(2, 5) == (2, 5)


def test_processes_of_one_machine_share_its_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(12)), raising=False)
    assert _cores() == 12
    for others, cores in (("1", 12), ("5", 2), ("16", 1), ("0", 12)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", others)
        assert _cores() == cores


# import and inspect


@pytest.fixture
def values():
    numbers = np.random.default_rng(0)
    return numbers.standard_normal((11, 5, 7)).astype(np.float32), numbers.standard_normal((11, 5, 7))


def test_an_npz_is_imported_and_inspected(call, tmp_path, values):
    np.savez("mine.npz", a=values[0], sol=values[1])
    options = ["--u", "a", "--z", "sol", "--layout", "b x y", "--grid", "cells", "--bounds", 0, 1, 0, 2]
    out = done(call, "import", "mine.npz", *options, "--out", "mine")
    assert "11 pairs of float64 on Grid(cells, 5 x 7 points in [0, 1] x [0, 2])" in out
    assert out.endswith("imported: mine; next: operformer inspect mine\n")
    stored = open_pairs(tmp_path / "mine").read()
    assert np.array_equal(stored.u[:, 0], values[0])
    assert np.array_equal(stored.z[:, 0], values[1])
    out = done(call, "inspect", "mine")
    assert "imported from mine.npz with " in out
    assert "layout='b x y'" in out
    assert "every checksum is right" in out
    done(call, "import", "mine.npz", *options, "--out", "mine")
    np.savez("mine.npz", a=values[0], sol=2 * values[1])
    code, err = told(call, "import", "mine.npz", *options, "--out", "mine")
    assert (code, "mine holds another set" in err) == (2, True)


def test_a_foreign_file_is_inspected_and_nothing_is_written(call, tmp_path, values):
    values[0][3, 1, 2] = np.nan
    np.savez("foreign.npz", x=values[0].reshape(11, 35), y=values[1].reshape(11, 35))
    out = done(call, "inspect", "foreign.npz", "--grid", "nodes")
    assert "11 pairs of float64" in out
    assert "u has NaN or infinity in sample 3" in out
    assert [path.name for path in tmp_path.iterdir()] == ["foreign.npz"]
    done(call, "inspect", "foreign.npz", "--grid", "nodes", "--figure", "first.png")
    assert_a_figure(tmp_path / "first.png")


@pytest.mark.parametrize("kind", GRIDS)
def test_every_kind_of_grid_has_a_figure(call, tmp_path, kind):
    grid = GRIDS[kind]
    samples = Samples(torch.randn(3, 2, *grid.shape), torch.full((3, 1, *grid.shape), torch.nan), grid)
    store(samples, tmp_path / "mine", "mine", {"file": "mine.npz"})
    assert "z has NaN or infinity in samples 0, 1, 2" in done(call, "inspect", "mine")
    assert_a_figure(tmp_path / "mine" / "thumbnail.png")


def test_damage_is_told_with_the_name_of_the_file(call, tmp_path):
    done(call, *GENERATE, "--out", "mine")
    with h5py.File(tmp_path / "mine" / "shard-00001.hdf5", "r+") as file:
        file["t0_fields/u"][0, 0] += 1
    code, err = told(call, "inspect", "mine")
    assert code == 3
    assert "mine/shard-00001.hdf5 is damaged: its checksum is wrong; run the command that made the set again" in err
    assert not (tmp_path / "mine" / "thumbnail.png").exists()
    done(call, *GENERATE, "--out", "mine")
    done(call, "inspect", "mine")


@pytest.mark.parametrize(
    "origin",
    [
        {}, {"problem": 3}, {"problem": {}}, {"problem": {"name": "\x1b[2J\x07"}}, {"file": "\x1b]0;gone\x07"},
        {"file": "a\nb", "options": [1]}, {"file": "\ud800", "options": {"\x1b[2J": "\x1b[2J"}},
    ],
    ids=repr,
)  # fmt: skip
def test_somebody_elses_texts_do_not_reach_the_terminal(call, tmp_path, origin):
    done(call, *GENERATE, "--out", "mine")
    manifest = decode(tmp_path / "mine" / MANIFEST)
    manifest["header"]["origin"] = origin
    (tmp_path / "mine" / MANIFEST).write_bytes(encode(manifest))
    assert done(call, "inspect", "mine").replace("\n", "").isprintable()


@pytest.mark.parametrize("header", [{}, {"count": 10**18}, {"per_shard": 0}])
def test_a_strange_claim_is_told(call, tmp_path, header):
    done(call, *GENERATE, "--out", "mine", "--part", 0, "--parts", 2)
    path = tmp_path / "mine" / generation.UNFINISHED
    path.write_bytes(encode({"header": {**decode(path)["header"], **header} if header else {}}))
    code, err = told(call, "inspect", "mine")
    assert (code in (2, 3), "mine" in err) == (True, True)
