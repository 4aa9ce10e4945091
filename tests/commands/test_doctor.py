"""`operformer doctor` on machines that are made up: what it finds, its remedies, its exit codes."""

import builtins
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import namedtuple
from importlib import metadata
from types import SimpleNamespace

import pytest
import torch

from operformer.commands import doctor
from operformer.operators import backends

REQUIRED = [
    "torch>=2.10",
    "h5py>=3.11",
    "numpy",
    'neuraloperator>=2.0; extra == "baselines"',
    "ruff>=0.14; extra == 'dev'",
    "mkdocs<2,>=1.6; extra == 'docs'",
]
VERSIONS = {"torch": "2.13.0+cpu", "h5py": "3.11.0", "numpy": "2.4", "neuraloperator": "2.0.0"}
H200 = SimpleNamespace(name="NVIDIA H200", total_memory=139 * 2**30, major=9, minor=0)
V100 = SimpleNamespace(name="Tesla V100", total_memory=16 * 2**30, major=7, minor=0)


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine with every package, a browser, a disk and no GPU."""
    monkeypatch.chdir(tmp_path)
    install(monkeypatch, VERSIONS)
    programs(monkeypatch, "chromium")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def install(monkeypatch, versions):
    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRED)
    monkeypatch.setattr(metadata, "version", version)


def programs(monkeypatch, *names):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}" if name in names else None)


def gpus(monkeypatch, *found):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(found))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: found[number])
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (found[0].major, found[0].minor))


def finding(name):
    return next(f for f in doctor.examine() if f.name == name)


def test_a_whole_machine_is_usable(call):
    code, out, err = call("doctor")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.match(r"ok +torch +2\.13\.0\+cpu$", next(line for line in lines if " torch " in line))
    assert "broken" not in out
    assert "ruff" not in out  # the tools of those who change the library
    assert lines[-1] == "usable; optional and absent: 2"  # a GPU, and the kernels for it


def test_a_package_that_is_missing_or_old(call, monkeypatch):
    install(monkeypatch, {"torch": "2.9.1", "numpy": "2.4"})
    code, out, _ = call("doctor")
    assert code == 5
    assert "2.9.1, older than 2.10; pip install 'torch>=2.10'" in out
    assert re.search(r"broken +h5py +not installed; pip install 'h5py>=3.11'", out)
    assert re.search(r"absent +neuraloperator +not installed; pip install 'operformer\[baselines\]'", out)
    assert out.splitlines()[-1].startswith("not usable, broken: 2")


@pytest.mark.parametrize(
    ("version", "least", "is_enough"),
    [("2.10.0", "2.9", True), ("2.9", "2.10", False), ("2.10", "2.10.0", True), ("2.10.0rc1", "2.10", True),
     ("3", "2.6.6", True), ("2.6.3", "2.6.6", False), ("10.0", "10", True), ("unknown", "1", False)],
)  # fmt: skip
def test_versions_are_compared_as_numbers(monkeypatch, version, least, is_enough):
    install(monkeypatch, {"h5py": version})
    assert (doctor._package("h5py", least, None).state == "ok") is is_enough


def test_the_installations_own_requirements_are_read(monkeypatch):
    monkeypatch.undo()
    names = {found.name for found in doctor.examine()}
    assert {"torch", "numpy", "scipy", "h5py", "neuraloperator", "tensorboard"} <= names
    assert "mypy" not in names


def test_a_folder_that_is_not_installed(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert finding("operformer").remedy == "pip install --editable ."


def test_a_torch_that_cannot_be_imported(call, monkeypatch):
    whole = builtins.__import__

    def broken(name, *arguments, **options):
        if name == "torch":
            raise OSError("libcudart.so.13: cannot open\nshared object file")
        return whole(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", broken)
    code, out, err = call("doctor")
    assert (code, err) == (5, "")
    assert "cannot be imported (libcudart.so.13: cannot open shared object file); pip install" in out


# GPU and kernels


def test_a_gpu_with_everything(monkeypatch):
    gpus(monkeypatch, H200, V100)
    monkeypatch.setattr(backends, "HAS_TRITON", True)
    assert finding("GPU 0").found.startswith("NVIDIA H200, 139.0 GiB, CUDA ")
    assert finding("GPU 0").found.endswith("has TF32")
    assert finding("GPU 1").found.endswith("has no TF32")
    found = finding("fused layers")
    assert found.state == "ok"
    for part in ("training.averages=float16", "training.products=tf32", "32, 64 or 128"):
        assert part in found.found
    assert "key channel; heads of 16 or 32 channels" in finding("attention").found


@pytest.mark.parametrize(
    ("gpu", "has_triton", "part", "remedy"),
    [(None, True, "need a GPU", ""), (V100, True, "need TF32", ""), (H200, False, "need Triton", "pip install triton")],
)
def test_what_fused_layers_lack(monkeypatch, gpu, has_triton, part, remedy):
    if gpu:
        gpus(monkeypatch, gpu)
    monkeypatch.setattr(backends, "HAS_TRITON", has_triton)
    found = finding("fused layers")
    assert found.state == "absent"
    assert part in found.found
    assert found.remedy == remedy


@pytest.mark.parametrize(
    ("has_driver", "cuda", "part", "remedy"),
    [
        (False, None, "none found", ""),
        (True, None, "has no CUDA", "https://pytorch.org"),
        (True, "13.0", "sees no device", "nvidia-smi"),
    ],
)
def test_why_there_is_no_gpu(monkeypatch, has_driver, cuda, part, remedy):
    programs(monkeypatch, *["nvidia-smi"] * has_driver)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    found = finding("GPU")
    assert found.state == "absent"
    assert part in found.found
    assert remedy in found.remedy


# The disk


def test_folders_that_cannot_be_written_to(call, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    code, out, _ = call("doctor")
    assert code == 5
    assert re.search(r"broken +temporary folder +\S+: permission denied; export TMPDIR=", out)
    assert re.search(r"absent +this folder +\S+: permission denied; .*--out", out)


def test_little_space_is_told(monkeypatch, tmp_path):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: usage(2**40, 2**40, 50 * 2**20))
    assert finding("this folder").found == f"{tmp_path}: only 50 MiB free"


def test_a_command_without_its_package_says_so(tmp_path):
    """Without torch the command line still starts, and one line says what is missing."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "operformer.cli"]
    for arguments, code in ((["evaluate", "x"], 5), (["doctor"], 5), (["--version"], 0)):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == code
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == (arguments[0] == "evaluate")
    assert "torch" in done.stderr or done.stdout
