"""Two processes against one: the same gradients, the same trainings, one voice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import operformer

SCRIPT = Path(__file__).parents[1] / "helpers" / "rank_script.py"
KINDS = ("TNO", "ViTNO", "FANO", "FNO")


def carried_out(folder, ranks, *strategies):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [*(launch if ranks > 1 else [sys.executable]), str(SCRIPT), str(folder), *strategies]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(operformer.__file__).parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return carried_out(tmp_path_factory.mktemp("ranks") / "one", 1, "ddp")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return carried_out(tmp_path_factory.mktemp("ranks") / "two", 2, "ddp", "fsdp")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize(("count", "parts"), [(5, 1), (7, 2), (1, 1)])  # also unequal shares and an idle process
def test_two_processes_have_the_gradient_of_one(one, two, kind, dtype, tolerance, count, parts):
    name = f"{kind}-{dtype}-{count}-{parts}"
    expected = load_file(one / f"{name}-0.safetensors")
    assert kind == "TNO" or any("mixing" in key or "spectral" in key for key in expected)  # weights per mode
    largest = max(float(value.abs().max()) for value in expected.values())
    for rank in range(2):
        found = load_file(two / f"{name}-{rank}.safetensors")
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert float((found[key] - value).abs().max()) <= tolerance * largest, key


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", [*KINDS, "resumed"])
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_train_as_one(one, two, kind, strategy):
    for a, b in zip(metrics(one / "ddp" / kind), metrics(two / strategy / kind), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-9)
        assert a["validation_error"] == pytest.approx(b["validation_error"], rel=1e-9)
    for name in ("operator/model", "checkpoints/epoch-0003/optimizer", "checkpoints/epoch-0003/average"):
        expected, found = (load_file(folder / kind / f"{name}.safetensors") for folder in (one / "ddp", two / strategy))
        assert expected.keys() == found.keys()
        for key, value in expected.items():
            torch.testing.assert_close(found[key], value, rtol=1e-6, atol=1e-8)  # Adam amplifies rounding


def test_an_error_that_all_find_is_raised_by_all(two):
    for rank in range(2):
        assert "sample 2 of z" in (two / f"spoilt-{rank}").read_text()


def test_an_error_of_the_first_process_ends_the_others_silently(two):
    assert (two / "unwritable-0").read_text().startswith("5 cannot write")
    assert (two / "unwritable-1").read_text() == "5 "


def test_a_loss_that_is_not_finite_on_one_process_stops_all_before_the_update(one, two):
    assert (one / "diverged-0").read_text().startswith("4 the loss or its gradient is not finite in epoch 2, batch 2")
    assert (two / "diverged-0").read_text() == (one / "diverged-0").read_text()
    assert (two / "diverged-1").read_text() == "4 "
    assert [path.name for path in (two / "diverged" / "checkpoints").iterdir()] == ["epoch-0001"]


def test_an_output_that_is_not_finite_on_one_process_stops_all(one, two):
    assert (one / "validation-0").read_text().startswith("4 the operator's output on sample 4 is not finite")
    assert (two / "validation-0").read_text() == "4 the operator's output on the validation samples is not finite"
    assert (two / "validation-1").read_text() == "4 "
