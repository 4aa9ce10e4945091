"""Training: it learns, it repeats itself to the bit, it goes on after any interruption, it stops when numbers do."""

import errno
import json
import os
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

import operformer
from operformer.domain import Samples
from operformer.errors import DataError, DivergedError, ResourceError, UsageError
from operformer.evaluation.errors import relative_errors
from operformer.evaluation.loss import relative_h1, relative_l2
from operformer.training import loop as training
from operformer.training.loop import Training, train
from operformer.training.normalisation import fit_normalisation

# Three batches an epoch: 5, 5 and 3 samples.
SETTINGS = Training(epochs=3, batch_size=5, learning_rate=1e-2, schedule="cosine", device="cpu")


@pytest.fixture
def carry_out(pairs, make_operator):
    """Train the small operator on 13 pairs, validate on 3."""

    def run(folder, settings=SETTINGS, dtype=torch.float32):
        return train(
            make_operator(dtype=dtype), pairs(13, dtype=dtype), pairs(3, dtype=dtype, first=13), settings, folder
        )

    return run


def metrics(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


def weights(folder):
    return operformer.load(folder).state_dict()


def assert_same_run(one, other):
    assert metrics(one) == metrics(other)
    last = max(path.name for path in (one / "checkpoints").iterdir())
    assert last == max(path.name for path in (other / "checkpoints").iterdir())
    for name in ("operator", f"checkpoints/{last}"):
        first, second = weights(one / name), weights(other / name)
        assert all(torch.equal(first[key], second[key]) for key in first.keys() | second.keys())


@contextmanager
def interrupted(monkeypatch, owner, name, call, error=KeyboardInterrupt):
    """Raise in the given call of owner.name, counted from 1, and let the others pass; gives the count."""
    original, calls = getattr(owner, name), []

    def counted(*arguments, **options):
        calls.append(name)
        if len(calls) == call:
            raise error
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, counted)
        yield calls


def test_a_small_problem_is_learnt(pairs, make_operator, tmp_path):
    settings = Training(epochs=60, batch_size=8, learning_rate=1e-2, schedule="cosine", device="cpu")
    samples, validation = pairs(61), pairs(17, first=61)
    operator = train(make_operator(hidden_channels=12, n_layers=2), samples, validation, settings, tmp_path)
    records = metrics(tmp_path)
    assert records[-1]["loss"] < records[0]["loss"] / 10
    # Far better than the mean of the training outputs, which is what an operator that learnt nothing would say.
    mean = torch.full_like(validation.z, operator.output_mean.item())
    assert relative_errors(operator, validation).mean() < relative_l2(mean, validation.z, validation.grid).mean() / 4


@pytest.mark.parametrize("schedule", ["cosine", "plateau"])
def test_the_same_seed_gives_the_same_numbers(carry_out, tmp_path, schedule):
    settings = replace(SETTINGS, schedule=schedule)
    carry_out(tmp_path / "one", settings)
    torch.manual_seed(17)  # the state of the global generator does not matter
    carry_out(tmp_path / "other", settings)
    assert_same_run(tmp_path / "one", tmp_path / "other")
    carry_out(tmp_path / "seed", replace(settings, seed=1))
    assert metrics(tmp_path / "seed") != metrics(tmp_path / "one")


def test_the_largest_seed_works_and_the_next_is_refused(carry_out, tmp_path):
    carry_out(tmp_path, replace(SETTINGS, seed=2**32 - 1))
    assert metrics(tmp_path)
    with pytest.raises(UsageError, match=r"training.seed must be from 0 to 2\^32 - 1"):
        replace(SETTINGS, seed=2**32)


# Interruptions


@pytest.mark.parametrize("call", range(1, 10))
def test_an_interruption_after_any_batch_changes_nothing(carry_out, monkeypatch, tmp_path, call):
    carry_out(tmp_path / "undisturbed")
    with interrupted(monkeypatch, training.TrainingDisplay, "batch", call), pytest.raises(KeyboardInterrupt):
        carry_out(tmp_path / "run")
    carry_out(tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "undisturbed")


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("operation", "error"),
    [("fsync", KeyboardInterrupt), ("replace", FULL), ("rename", KeyboardInterrupt), ("rename", FULL)],
)
def test_an_interruption_at_any_file_changes_nothing(carry_out, monkeypatch, tmp_path, operation, error):
    with interrupted(monkeypatch, os, operation, 0) as calls:
        carry_out(tmp_path / "undisturbed")
    assert len(calls) >= SETTINGS.epochs
    for call in range(1, len(calls) + 1):
        run = tmp_path / str(call)
        expected = pytest.raises((KeyboardInterrupt, ResourceError))
        with interrupted(monkeypatch, os, operation, call, error), expected as caught:
            carry_out(run)
        assert "\n" not in str(caught.value)
        carry_out(run)
        assert_same_run(run, tmp_path / "undisturbed")


def test_the_plateau_goes_on_counting_after_an_interruption(carry_out, monkeypatch, tmp_path):
    # So small a rate never improves the error by the rule's 1e-4: worse in epochs 2, 3, 4 (halved), 5, 6, 7 (halved).
    settings = replace(SETTINGS, epochs=8, schedule="plateau", learning_rate=2.0**-23)
    carry_out(tmp_path / "undisturbed", settings)
    halvings = [record["learning_rate"] * 2**23 for record in metrics(tmp_path / "undisturbed")]
    assert halvings == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]
    for call in range(1, 9):
        run = tmp_path / str(call)
        with interrupted(monkeypatch, training.TrainingDisplay, "epoch", call), pytest.raises(KeyboardInterrupt):
            carry_out(run, settings)
        carry_out(run, settings)
        assert_same_run(run, tmp_path / "undisturbed")


def test_a_finished_training_is_not_done_again(carry_out, monkeypatch, tmp_path):
    first = carry_out(tmp_path)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with interrupted(monkeypatch, training.TrainingDisplay, "batch", 1):
        again = carry_out(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in first.state_dict().items())


# What is recorded and kept


def test_every_sample_is_seen_once_in_each_epoch_in_another_order(carry_out, pairs, monkeypatch, tmp_path):
    seen = []

    def spy(prediction, z, grid):
        if prediction.requires_grad:
            seen.append(z[:, 0, -1])
        return relative_l2(prediction, z, grid)

    monkeypatch.setitem(training.LOSSES, "l2", spy)
    carry_out(tmp_path)
    assert [len(batch) for batch in seen] == [5, 5, 3] * 3
    epochs = torch.cat(seen).reshape(3, 13)
    assert torch.equal(epochs.sort().values, pairs(13).z[:, 0, -1].sort().values.expand(3, 13))
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[1], epochs[2])


@pytest.mark.parametrize(("loss", "norm"), [("l2", relative_l2), ("h1", relative_h1)])
def test_metrics_are_means_over_samples_in_the_norm_of_the_loss(carry_out, pairs, make_operator, tmp_path, loss, norm):
    # At a rate of 1e-12 the weights stay; batches of 5, 5 and 3 count by their size. Training in float64 keeps float64.
    settings = replace(SETTINGS, loss=loss, learning_rate=1e-12, epochs=1)
    carry_out(tmp_path, settings, dtype=torch.float64)
    samples, validation = pairs(13, dtype=torch.float64), pairs(3, dtype=torch.float64, first=13)
    operator = make_operator(dtype=torch.float64)
    fit_normalisation(operator, samples)
    (record,) = metrics(tmp_path)
    expected = norm(operator(samples.u, samples.grid), samples.z, samples.grid).mean().item()
    assert record["loss"] == pytest.approx(expected, rel=1e-10)
    expected = norm(operator(validation.u, validation.grid), validation.z, validation.grid).mean().item()
    assert record["validation_error"] == pytest.approx(expected, rel=1e-10)


def test_a_training_on_h1_lowers_h1(carry_out, pairs, tmp_path):
    operator = carry_out(tmp_path, replace(SETTINGS, loss="h1", epochs=13))
    records = metrics(tmp_path)
    assert records[-1]["loss"] < 0.9 * records[0]["loss"]
    best = min(record["validation_error"] for record in records)
    assert relative_errors(operator, pairs(3, first=13), "h1").mean().item() == best


def test_the_result_is_the_operator_of_the_best_epoch(carry_out, monkeypatch, tmp_path):
    errors = iter([0.5, 0.3, 0.4])
    monkeypatch.setattr(training, "relative_errors", lambda *_: torch.tensor([next(errors)], dtype=torch.float64))
    operator = carry_out(tmp_path)
    second, third = (weights(tmp_path / "checkpoints" / f"epoch-000{epoch}") for epoch in (2, 3))
    for found in (operator.state_dict(), weights(tmp_path / "operator")):
        assert all(torch.equal(found[key], second[key]) for key in second)
        assert not all(torch.equal(found[key], third[key]) for key in third)
    progress = json.loads((tmp_path / "checkpoints" / "epoch-0003" / "training.json").read_text())["progress"]
    assert progress == {"epoch": 3, "best_error": 0.3, "best_epoch": 2, "batch": 0, "loss": 0.0}


def test_scaled_data_give_scaled_predictions(pairs, make_operator, tmp_path):
    # In other units of u, z and t the relative loss is the same number, so the training is the same training.
    samples = pairs(16, dtype=torch.float64)
    grid = operformer.Grid.uniform((11,), bounds=[(-3.0, 29.0)])
    scaled = Samples(8 * samples.u + 2, samples.z * 0.25, grid)
    predictions = []
    for number, given in enumerate((samples, scaled)):
        folder = tmp_path / str(number)
        operator = train(make_operator(dtype=torch.float64), given[:13], given[13:], SETTINGS, folder)
        predictions.append(operator(given.u, given.grid))
    torch.testing.assert_close(predictions[1], 0.25 * predictions[0], rtol=1e-8, atol=1e-8)  # Adam amplifies rounding
    assert metrics(tmp_path / "0")[-1]["loss"] == pytest.approx(metrics(tmp_path / "1")[-1]["loss"], rel=1e-8)


# Refusals


@pytest.mark.parametrize("faulty", ["loss", "gradient"])
def test_numbers_that_are_not_finite_stop_the_training_before_they_reach_the_weights(
    carry_out, pairs, make_operator, monkeypatch, tmp_path, faulty
):
    carry_out(tmp_path / "undisturbed")
    batches = 0

    def spoilt(prediction, z, grid):
        nonlocal batches
        loss = relative_l2(prediction, z, grid)
        batches += prediction.requires_grad
        if prediction.requires_grad and batches == 5:
            loss = loss * torch.nan if faulty == "loss" else loss + (prediction.sum() * 0).sqrt()
        return loss

    monkeypatch.setitem(training.LOSSES, "l2", spoilt)
    operator = make_operator()
    with pytest.raises(DivergedError, match="epoch 2, batch 2") as caught:
        train(operator, pairs(13), pairs(3, first=13), SETTINGS, tmp_path / "run")
    monkeypatch.undo()
    assert all(torch.isfinite(parameter).all() for parameter in operator.parameters())
    assert "\n" not in str(caught.value)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["epoch-0001"]
    assert metrics(tmp_path / "run") == metrics(tmp_path / "undisturbed")[:1]
    carry_out(tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "undisturbed")


def test_cuda_that_is_not_there_is_a_resource_error(carry_out, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ResourceError, match="no CUDA device was found"):
        carry_out(tmp_path, replace(SETTINGS, device="cuda"))
    assert not list(tmp_path.iterdir())


def test_bad_samples_are_refused_before_anything_is_written(pairs, make_operator, tmp_path):
    for spoilt in (0, 1):
        parts = [pairs(13), pairs(3, first=13)]
        parts[spoilt].z[2, 0, 5] = torch.nan
        with pytest.raises(DataError, match="sample 2 of z"):
            train(make_operator(), *parts, SETTINGS, tmp_path)
    assert not list(tmp_path.iterdir())


def test_other_channels_than_the_operators_are_refused(tmp_path):
    operator = operformer.TNO(1, 1, 3, hidden_channels=4, n_layers=1, n_heads=1)
    grid = operformer.Grid.uniform(5)
    pairs = Samples(torch.ones(3, 1, 5), torch.ones(3, 1, 5), grid)
    with pytest.raises(UsageError, match="the operator maps 1 to 3 channels: got training samples of 1 to 1"):
        training.train(operator, pairs, pairs, SETTINGS, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_keeps_its_settings_but_for_its_length(carry_out, tmp_path):
    carry_out(tmp_path, replace(SETTINGS, schedule="plateau"))
    with pytest.raises(UsageError, match="holds a training with another learning_rate"):
        carry_out(tmp_path, replace(SETTINGS, schedule="plateau", learning_rate=0.5))
    carry_out(tmp_path, replace(SETTINGS, schedule="plateau", epochs=SETTINGS.epochs + 1))
    assert len(metrics(tmp_path)) == SETTINGS.epochs + 1
