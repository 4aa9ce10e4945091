"""generate, import and inspect from the command line: what they print, what they leave, how they end."""

import json
import signal
import struct

import h5py
import numpy as np
import pytest
import torch

from operformer.commands.data import _cores, _part
from operformer.data import generation
from operformer.data.importing import store
from operformer.data.manifest import MANIFEST, decode, encode
from operformer.data.store import open_pairs
from operformer.domain import Grid, Samples
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


def assert_one_line(err):
    assert err.startswith("operformer: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert err[:-1].isprintable()


def size_of_png(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", data[16:24])


# generate


def test_a_set_is_generated_and_inspected(call, tmp_path):
    code, out, err = call(*GENERATE, "--seed", 5, "--first", 2, "--dtype", "float64", "n_terms=3", "--out", "sets/mine")
    assert (code, err) == (0, "")
    assert "controlled-ode  7/7" in out
    assert "pairs/s" in out
    assert out.endswith("generated: sets/mine; next: operformer inspect sets/mine\n")
    stored = open_pairs(tmp_path / "sets" / "mine")
    origin = stored.manifest.header.origin
    assert (origin["seed"], origin["first"], origin["resolution"], origin["problem"]["n_terms"]) == (5, 2, 4, 3)
    assert stored.read().u.dtype == torch.float64
    code, out, err = call("inspect", "sets/mine")
    assert (code, err) == (0, "")
    lines = out.splitlines()
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
    width, height = size_of_png(tmp_path / "sets" / "mine" / "thumbnail.png")
    assert 500 < width < 3000
    assert 200 < height < 3000
    assert call(*GENERATE, "--seed", 5, "--first", 2, "--dtype", "float64", "n_terms=3", "--out", "sets/mine")[0] == 0


def test_checks_are_told(call):
    assert call(*DARCY, "--out", "mine")[0] == 0
    code, out, err = call("inspect", "mine", "--figure", "pictures/first.png")
    assert (code, err) == (0, "")
    assert "1 file of 0.0 MiB in all" in out
    worst = float(next(line for line in out.splitlines() if line.startswith("worst residual ")).split()[2])
    assert 0 <= worst < 1e-10
    assert "figure: pictures/first.png" in out


def test_help_names_everything(call):
    code, out, _ = call("generate", "--help")
    assert code == 0
    for text in ("--samples", "--resolution", "--seed", "--out", "--workers", "--part", "kolmogorov", "tau=3", "SLURM"):
        assert text in out
    for command, text in (("inspect", "--figure"), ("import", "--layout")):
        code, out, _ = call(command, "--help")
        assert (code, text in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["generate"], 2, "problem"),
        (["generate", "controlled-ode"], 2, "samples"),
        (["generate", "controlled-od"], 2, "samples"),
        (["generate", "lorenz", *GENERATE[2:]], 2, "did you mean lorenz-y"),
        (["generate", "Controlled-ODE", *GENERATE[2:]], 2, "did you mean controlled-ode?"),
        ([*GENERATE, "n_term=3"], 2, "did you mean n_terms?"),
        ([*DARCY, "taw=3"], 2, "did you mean tau?"),
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
        ([*GENERATE, "--first", "-1"], 2, "first"),
        (having("--workers", "0"), 2, "workers must be at least 1"),
        (having("--per-shard", "0"), 2, "at least one pair"),
        ([*GENERATE, "--part", "1"], 2, "--part and --parts go together"),
        ([*GENERATE, "--parts", "2"], 2, "--part and --parts go together"),
        ([*GENERATE, "--part", "2", "--parts", "2"], 2, "part must be from 0"),
        ([*GENERATE, "--device", "cuda"], 5, "no CUDA device"),
        ([*GENERATE, "--device", "tpu"], 2, "tpu"),
        (having("--samples", 10**15), 5, "make room or draw less"),
        (having("--samples", 10**40), 2, "a draw has"),
        (["generate", "lorenz-y", "rho=1e12", *GENERATE[2:]], 4, "Lorenz"),
        ([*GENERATE, "--out", "file"], 5, "file"),
        ([*GENERATE, "--out", "file/below"], 5, "file"),
        ([*GENERATE, "--out", "full"], 2, "holds other files"),
        (["inspect", "nowhere"], 3, "nowhere"),
        (["inspect", "file"], 3, "file"),
        (["inspect", "full"], 3, "full"),
        (["inspect"], 2, "path"),
        (["import", "nowhere.npz"], 2, "--out"),
        (["import", "nowhere.npz", "--out", "x"], 3, "nowhere.npz"),
        (["import", "file", "--out", "x"], 3, "file"),
        (["import", "file", "--out", "x", "--bounds", "0", "1", "2"], 2, "a lower and an upper end"),
    ],
    ids=lambda value: " ".join(str(a) for a in value if a not in GENERATE[2:]) if isinstance(value, list) else None,
)
def test_an_error_is_one_line_and_its_code(call, tmp_path, monkeypatch, arguments, code, part):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    if arguments[0] == "generate" and "--out" not in arguments and len(arguments) > 2:
        arguments = [*arguments, "--out", "set"]
    found, _, err = call(*arguments)
    assert_one_line(err)
    assert part in err
    assert found == code
    assert code == 4 or not (tmp_path / "set").exists()


def test_another_request_and_a_full_disk(call, tmp_path, monkeypatch):
    assert call(*GENERATE, "--out", "mine")[0] == 0
    code, _, err = call(*GENERATE, "--seed", 3, "--out", "mine")
    assert code == 2
    assert_one_line(err)
    assert "mine holds another set: its seed is 0, not 3; give another folder" in err
    usage = generation.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(generation.shutil, "disk_usage", lambda path: usage._replace(free=0))
    code, _, err = call(*GENERATE, "--out", "other")
    assert code == 5
    assert_one_line(err)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("out", ["a[b]c", "[red]", "with space", "ünï"])
def test_folders_are_shown_as_they_are_written(call, out):
    code, shown, err = call(*GENERATE, "--out", out)
    assert (code, err) == (0, "")
    assert f"operformer inspect {out}" in shown
    code, shown, err = call("inspect", out)
    assert (code, err) == (0, "")
    assert f"figure: {out}/thumbnail.png" in shown


# Parts


def test_parts_by_option_are_the_whole(call, tmp_path):
    assert call(*GENERATE, "--out", "whole")[0] == 0
    code, out, _ = call(*GENERATE, "--out", "parts", "--part", 1, "--parts", 2)
    assert (code, "part 1 of 2 is done; the set is whole when all are" in out) == (0, True)
    assert "controlled-ode  3/3" in out
    code, _, err = call("inspect", "parts")
    assert code == 2
    assert_one_line(err)
    assert "parts is unfinished: 1 of 3 files are made" in err
    code, out, _ = call(*GENERATE, "--out", "parts", "--part", 0, "--parts", 2)
    assert (code, "generated: parts" in out) == (0, True)
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "parts" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "environments",
    [
        [{"RANK": "1", "WORLD_SIZE": "2"}, {"RANK": "0", "WORLD_SIZE": "2"}],
        [
            {"SLURM_ARRAY_TASK_ID": str(k), "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "1"}
            for k in (1, 2, 3)
        ],
    ],
    ids=["torchrun", "SLURM"],
)
def test_parts_by_the_launcher_are_the_whole(call, tmp_path, monkeypatch, environments):
    assert call(*GENERATE, "--out", "whole")[0] == 0
    for number, environment in enumerate(environments):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        code, out, _ = call(*GENERATE, "--out", "parts")
        assert code == 0
        assert ("generated: parts" in out) == (number == len(environments) - 1)
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "parts" / path.name).read_bytes() == path.read_bytes()


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
        (slurm(7, 3, 1), "none of 3 evenly spaced"),
        (slurm(2, 3, 1, 3), "none of 3 evenly spaced"),
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

GRIDS = {
    "nodes 1d": Grid.uniform(7),
    "cells 3d": Grid.uniform((3, 5, 7), kind="cells"),
    "rectilinear 1d": Grid.rectilinear([0.7, 0.1, 0.2]),
    "rectilinear 2d": Grid.rectilinear([0.7, 0.1, 0.2], [3.0, 1.0, 2.0, 5.0, 4.5]),
    "scattered 1d": Grid.scattered(torch.rand(11, 1)),
    "scattered 2d": Grid.scattered(torch.rand(11, 2)),
    "scattered 3d": Grid.scattered(torch.rand(11, 3)),
}


@pytest.fixture
def values():
    numbers = np.random.default_rng(0)
    return numbers.standard_normal((11, 5, 7)).astype(np.float32), numbers.standard_normal((11, 5, 7))


def test_an_npz_is_imported_and_inspected(call, tmp_path, values):
    np.savez("mine.npz", a=values[0], sol=values[1])
    options = ["--u", "a", "--z", "sol", "--layout", "b x y", "--grid", "cells", "--bounds", 0, 1, 0, 2]
    code, out, err = call("import", "mine.npz", *options, "--out", "mine")
    assert (code, err) == (0, "")
    assert "11 pairs of float64 on Grid(cells, 5 x 7 points in [0, 1] x [0, 2])" in out
    assert out.endswith("imported: mine; next: operformer inspect mine\n")
    stored = open_pairs(tmp_path / "mine").read()
    assert np.array_equal(stored.u[:, 0], values[0])
    assert np.array_equal(stored.z[:, 0], values[1])
    code, out, err = call("inspect", "mine")
    assert (code, err) == (0, "")
    assert "imported from mine.npz with " in out
    assert "layout='b x y'" in out
    assert "every checksum is right" in out
    assert call("import", "mine.npz", *options, "--out", "mine")[0] == 0
    np.savez("mine.npz", a=values[0], sol=2 * values[1])
    code, _, err = call("import", "mine.npz", *options, "--out", "mine")
    assert code == 2
    assert_one_line(err)
    assert "mine holds another set" in err


def test_a_generated_folder_needs_no_import(call):
    assert call(*DARCY, "--out", "mine")[0] == 0
    code, _, err = call("import", "mine", "--u", "coefficient", "--z", "pressure", "--out", "again")
    assert code == 3
    assert "open_pairs" in err


def test_a_foreign_file_is_inspected_and_nothing_is_written(call, tmp_path, values):
    values[0][3, 1, 2] = np.nan
    np.savez("foreign.npz", x=values[0].reshape(11, 35), y=values[1].reshape(11, 35))
    code, out, err = call("inspect", "foreign.npz")
    assert (code, err) == (0, "")
    assert "11 pairs of float64" in out
    assert "u has NaN or infinity in sample 3" in out
    assert [path.name for path in tmp_path.iterdir()] == ["foreign.npz"]
    code, out, err = call("inspect", "foreign.npz", "--figure", "first.png")
    assert (code, err) == (0, "")
    assert min(size_of_png(tmp_path / "first.png")) > 200


@pytest.mark.parametrize("kind", GRIDS)
def test_every_kind_of_grid_has_a_figure(call, tmp_path, kind):
    grid = GRIDS[kind]
    samples = Samples(torch.randn(3, 2, *grid.shape), torch.full((3, 1, *grid.shape), torch.nan), grid)
    store(samples, tmp_path / "mine", "mine", {"file": "mine.npz"})
    code, out, err = call("inspect", "mine")
    assert (code, err) == (0, "")
    assert "z has NaN or infinity in samples 0, 1, 2" in out
    width, height = size_of_png(tmp_path / "mine" / "thumbnail.png")
    assert 300 < width < 3000
    assert 300 < height < 3000


def test_damage_is_told_with_the_name_of_the_file(call, tmp_path):
    assert call(*GENERATE, "--out", "mine")[0] == 0
    path = tmp_path / "mine" / "shard-00001.hdf5"
    with h5py.File(path, "r+") as file:
        file["t0_fields/u"][0, 0] += 1
    code, out, err = call("inspect", "mine")
    assert code == 3
    assert_one_line(err)
    assert "mine/shard-00001.hdf5 is damaged: its checksum is wrong; the command that made the set mends it" in err
    assert "min" not in out
    assert not (tmp_path / "mine" / "thumbnail.png").exists()
    assert call(*GENERATE, "--out", "mine")[0] == 0
    assert call("inspect", "mine")[0] == 0


@pytest.mark.parametrize(
    "origin",
    [
        {}, {"problem": 3}, {"problem": {}}, {"problem": {"name": "\x1b[2J\x07"}}, {"file": "\x1b]0;gone\x07"},
        {"file": "a\nb", "options": [1]}, {"file": "\ud800", "options": {"\x1b[2J": "\x1b[2J"}},
    ],
    ids=repr,
)  # fmt: skip
def test_somebody_elses_texts_do_not_reach_the_terminal(call, tmp_path, origin):
    assert call(*GENERATE, "--out", "mine")[0] == 0
    manifest = decode(tmp_path / "mine" / MANIFEST)
    manifest["header"]["origin"] = origin
    (tmp_path / "mine" / MANIFEST).write_bytes(encode(manifest))
    code, out, err = call("inspect", "mine")
    assert (code, err) == (0, "")
    assert out.replace("\n", "").isprintable()


@pytest.mark.parametrize("header", [{}, {"count": 10**18}, {"per_shard": 0}])
def test_a_strange_claim_is_told(call, tmp_path, header):
    assert call(*GENERATE, "--out", "mine", "--part", 0, "--parts", 2)[0] == 0
    path = tmp_path / "mine" / generation.UNFINISHED
    values = json.loads(path.read_text())["header"]
    path.write_bytes(encode({"header": {**values, **header} if header else {}}))
    code, _, err = call("inspect", "mine")
    assert code in (2, 3)
    assert_one_line(err)
    assert "mine" in err
