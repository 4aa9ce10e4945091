"""Trainings that are asked to stop inside an epoch, with all that their state can hold: they go on to the same bits."""

import json
import os
import signal
from dataclasses import replace

import pytest
import torch

import operformer
from operformer.domain import Samples
from operformer.errors import TerminatedError, UsageError
from operformer.evaluation.errors import relative_errors
from operformer.operators import pretrained
from operformer.problems import ControlledODE, Lorenz63
from operformer.training import loop as training
from operformer.training.checkpoint import last_epoch
from operformer.training.loop import Training, train

SETTINGS = Training(epochs=3, batch_size=5, learning_rate=1e-2, schedule="cosine", device="cpu")
EVERYTHING = {
    "plain": {},
    "plateau": {"schedule": "plateau"},
    "one cycle": {"schedule": "one-cycle"},
    "averaged weights": {"ema": 0.9},
    "muon": {"optimizer": "muon"},
    "loss scale": {"averages": "float16"},
    "parts": {"accumulation": 2},
    "staged": {"resolutions": "staged"},
    "mixed": {"resolutions": "mixed"},
    "growing": {"resolutions": "growing", "batches": "pairs"},
    "augmented": {"augment": True},
    "restarted": {"restarts": (1,)},
}


class OnDisk:
    """Pairs that come to memory when they are chosen, as a store would have them."""

    def __init__(self, samples):
        self._samples = samples
        self.read = 0

    grid = property(lambda self: self._samples.grid)
    query = None
    channels = property(lambda self: self._samples.channels)

    def __len__(self):
        return len(self._samples)

    def __getitem__(self, index):
        self.read += 1
        return OnDisk(self._samples[index]) if isinstance(index, slice) else self._samples[index]

    def blocks(self, count):
        return self._samples.blocks(count)


@pytest.fixture
def carry_out(make_operator):
    """Train the small operator on 13 draws of Lorenz 63."""
    problem = Lorenz63()

    def draw(count, resolution=12, first=0):
        return problem.sample(count, resolution, first=first).to(dtype=torch.float32)

    def run(folder, settings=SETTINGS, stored=lambda samples: samples, coarser=(), operator=None):
        levels = [stored(draw(13, n)) for n in (*coarser, 12)]
        samples = levels if coarser else levels[0]
        return train(
            operator or make_operator(), samples, draw(3, first=13), settings, folder, symmetries=problem.symmetries
        )

    return run


def metrics(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


def files(folder):
    last = max(folder.glob("checkpoints/epoch-*"), key=lambda path: path.name)
    return {path.name: path.read_bytes() for path in [*last.iterdir(), folder / "operator" / "model.safetensors"]}


def assert_same_run(one, other):
    assert metrics(one) == metrics(other)
    assert files(one) == files(other)


def signal_at(monkeypatch, call, number):
    """The signal arrives while the given batch is shown."""
    original, calls = training.TrainingDisplay.batch, []

    def batch(self, count):
        calls.append(count)
        if len(calls) == call:
            os.kill(os.getpid(), number)
        original(self, count)

    monkeypatch.setattr(training.TrainingDisplay, "batch", batch)
    return calls


@pytest.mark.parametrize("kind", EVERYTHING)
@pytest.mark.parametrize("call", [1, 5])
def test_a_stop_inside_an_epoch_changes_nothing(carry_out, monkeypatch, tmp_path, kind, call):
    settings = replace(SETTINGS, **EVERYTHING[kind])
    coarser = (3, 6) if kind in ("staged", "mixed", "growing") else ()
    carry_out(tmp_path / "undisturbed", settings, coarser=coarser)
    with monkeypatch.context() as patch:
        calls = signal_at(patch, call, signal.SIGTERM)
        with pytest.raises(TerminatedError):
            carry_out(tmp_path / "run", settings, coarser=coarser)
    assert len(calls) == call + 1  # the batch in hand is finished, then the state is saved
    assert list((tmp_path / "run" / "checkpoints").glob("epoch-*-batch-*")) or last_epoch(tmp_path / "run/checkpoints")
    carry_out(tmp_path / "run", settings, coarser=coarser)
    assert_same_run(tmp_path / "run", tmp_path / "undisturbed")


def test_a_cycle_that_is_added_begins_with_the_best_weights(carry_out, tmp_path):
    more = replace(SETTINGS, epochs=5, restarts=(3,))
    first = carry_out(tmp_path / "run")
    carry_out(tmp_path / "run", more)
    carry_out(tmp_path / "whole", more)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    start = operformer.load(tmp_path / "run" / "cycles" / "0003").state_dict()
    assert all(torch.equal(start[name], tensor) for name, tensor in first.state_dict().items())
    rates = [record["learning_rate"] for record in metrics(tmp_path / "run")]
    assert rates[3] > rates[2]  # down to zero, and once more
    assert rates[4] == rates[2] == 0
    with pytest.raises(UsageError, match="another restarts"):
        carry_out(tmp_path / "run", replace(more, restarts=(2,)))


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, TerminatedError)])
def test_a_stop_leaves_a_checkpoint_of_its_batch(carry_out, monkeypatch, tmp_path, number, error):
    before = signal.signal(number, signal.default_int_handler)
    signal_at(monkeypatch, 4, number)
    with pytest.raises(error):
        carry_out(tmp_path)
    signal.signal(number, before)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["epoch-0001", "epoch-0001-batch-000002"]
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "stopped"


def test_checkpoints_inside_an_epoch_come_with_the_minutes(carry_out, monkeypatch, tmp_path):
    written = []
    original = training.write_checkpoint

    def spy(folder, contents, progress):
        written.append((progress.epoch, progress.batch))
        original(folder, contents, progress)

    monkeypatch.setattr(training, "write_checkpoint", spy)
    carry_out(tmp_path / "often", replace(SETTINGS, save_minutes=1e-9))
    assert written == [(e, b) if b < 4 else (e + 1, 0) for e in range(3) for b in range(1, 5)]
    written.clear()
    carry_out(tmp_path / "seldom")
    assert written == [(1, 0), (2, 0), (3, 0)]
    assert_same_run(tmp_path / "often", tmp_path / "seldom")


class Dropout(operformer.TNO):
    """Random numbers inside the operator."""

    def transform(self, u, grid, query):
        return super().transform(torch.nn.functional.dropout(u, 0.3, self.training), grid, query)


def test_random_numbers_inside_the_operator_go_on_with_the_position(carry_out, monkeypatch, tmp_path):
    monkeypatch.setitem(pretrained.OPERATORS, "Dropout", Dropout)

    def run(folder):
        torch.manual_seed(0)
        return carry_out(folder, operator=Dropout(1, 1, 1, hidden_channels=6, n_layers=1, n_heads=2))

    run(tmp_path / "undisturbed")
    state = torch.get_rng_state()
    with monkeypatch.context() as patch:
        signal_at(patch, 4, signal.SIGTERM)
        with pytest.raises(TerminatedError):
            run(tmp_path / "run")
    torch.manual_seed(99)
    run(tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "undisturbed")
    torch.manual_seed(0)
    Dropout(1, 1, 1, hidden_channels=6, n_layers=1, n_heads=2)
    assert torch.equal(state, torch.get_rng_state())  # the caller's numbers are the caller's


# What the options do


def test_averaged_weights_are_what_is_validated_and_kept(carry_out, tmp_path):
    settings = replace(SETTINGS, ema=0.9, epochs=1)
    operator = carry_out(tmp_path, settings)
    last = operformer.load(tmp_path / "checkpoints" / "epoch-0001")
    assert not torch.equal(last.network.head.linear.weight, operator.network.head.linear.weight)
    validation = Lorenz63().sample(3, 12, first=13).to(dtype=torch.float32)
    (record,) = metrics(tmp_path)
    assert record["validation_error"] == relative_errors(operator, validation).mean().item()


def test_pairs_on_disk_give_the_same_bits(carry_out, tmp_path):
    stored = []

    def store(samples):
        stored.append(OnDisk(samples))
        return stored[-1]

    carry_out(tmp_path / "memory")
    carry_out(tmp_path / "disk", stored=store)
    assert_same_run(tmp_path / "disk", tmp_path / "memory")
    assert stored[0].read == 9


def test_stages_are_as_many_as_resolutions(carry_out, tmp_path):
    settings = replace(SETTINGS, stages=(2.0, 1.0), epochs=3)
    with pytest.raises(UsageError, match=r"training.stages must have 3 parts: got 2"):
        carry_out(tmp_path, settings, coarser=(3, 6))
    for settings_again in (replace(settings, epochs=2), settings):  # the same again goes on
        carry_out(tmp_path / "two", settings_again, coarser=(6,))
    assert len(metrics(tmp_path / "two")) == 3
    with pytest.raises(UsageError, match=r"another stages"):
        carry_out(tmp_path / "two", replace(settings, stages=(1.0, 1.0)), coarser=(6,))


@pytest.mark.parametrize("how", ["staged", "mixed", "growing"])
def test_several_resolutions_are_seen_in_batches_of_as_many_points(carry_out, monkeypatch, tmp_path, how):
    seen = []

    def spy(prediction, z, grid, original=training.LOSSES["l2"]):
        if prediction.requires_grad:
            seen.append((grid.shape[0], len(z)))
        return original(prediction, z, grid)

    monkeypatch.setitem(training.LOSSES, "l2", spy)
    carry_out(tmp_path, replace(SETTINGS, resolutions=how, epochs=6), coarser=(3, 6))
    # 4, 7 and 13 points; 5 pairs of 13 points are 65: 16 pairs of 4 points or 9 pairs of 7.
    assert {points for points, _ in seen} == {4, 7, 13}
    assert max(count for points, count in seen if points == 13) == 5
    if how == "growing":
        assert [points for points, _ in seen[:2]] == [4, 4]
        assert {points for points, _ in seen[2:6]} <= {4, 7}
    if how == "staged":
        assert seen == [(4, 13)] * 2 + [(7, 9), (7, 4)] * 2 + [(13, 5), (13, 5), (13, 3)] * 2


def test_symmetries_move_the_pairs_and_nothing_else(carry_out, monkeypatch, tmp_path):
    seen = []

    def spy(prediction, z, grid, original=training.LOSSES["l2"]):
        if prediction.requires_grad:
            seen.append(z[:, 0, 5])
        return original(prediction, z, grid)

    monkeypatch.setitem(training.LOSSES, "l2", spy)
    carry_out(tmp_path, replace(SETTINGS, augment=True))
    drawn = Lorenz63().sample(13, 12).z[:, 0, 5].float()
    epochs = torch.cat(seen).reshape(3, 13)
    assert torch.equal(epochs.abs().sort().values, drawn.abs().sort().values.expand(3, 13))
    signs = [{round(float(v.abs()), 4): bool(v > 0) for v in epoch} for epoch in epochs]
    assert signs[0] != signs[1]
    # The validation pairs stay where they are.
    validation = Lorenz63().sample(3, 12, first=13).to(dtype=torch.float32)
    best = min(record["validation_error"] for record in metrics(tmp_path))
    assert relative_errors(operformer.load(tmp_path / "operator"), validation).mean().item() == best


def test_what_does_not_go_together_is_refused_before_anything_is_written(carry_out, make_operator, tmp_path):
    for how in ("mixed", "growing"):
        with pytest.raises(UsageError, match=f'"{how}", but there is one resolution'):
            carry_out(tmp_path, replace(SETTINGS, resolutions=how))
    samples = ControlledODE().sample(5, 8).to(dtype=torch.float32)
    with pytest.raises(UsageError, match="names no symmetries"):
        train(make_operator(), samples, samples, replace(SETTINGS, augment=True), tmp_path)
    with pytest.raises(UsageError, match="torchrun"):
        carry_out(tmp_path, replace(SETTINGS, strategy="fsdp"))
    assert not list(tmp_path.iterdir())


def test_what_killed_writes_left_is_swept_away(carry_out, tmp_path):
    (tmp_path / "operator").mkdir()
    leftovers = [tmp_path / ".metrics.jsonl.k3.partial", tmp_path / "operator" / ".model.safetensors.ab.partial"]
    for path in leftovers:
        path.write_bytes(b"half")
    (tmp_path / ".mine").write_bytes(b"stays")
    carry_out(tmp_path, replace(SETTINGS, epochs=1))
    assert not any(path.exists() for path in leftovers)
    assert (tmp_path / ".mine").read_bytes() == b"stays"


# Every option changes something

CHANGES = {
    "epochs": 2, "batch_size": 4, "learning_rate": 5e-3, "schedule": "plateau", "loss": "h1", "weight_decay": 0.5,
    "clip_norm": 0.01, "seed": 1, "optimizer": "muon", "ema": 0.9, "averages": "bfloat16", "resolutions": "mixed",
    "augment": True, "batches": "pairs",
}  # fmt: skip
# Looked at by other tests, here, in test_batches, test_loop and test_ranks; restarts in test_recommended.
ELSEWHERE = {"stages", "device", "accumulation", "products", "compile", "strategy", "save_minutes", "restarts"}


def test_every_option_is_looked_at():
    assert CHANGES.keys() | ELSEWHERE == set(Training.__dataclass_fields__)


@pytest.mark.parametrize("name", CHANGES)
def test_every_option_changes_the_numbers(carry_out, tmp_path, name):
    coarser = (6,) if name in ("resolutions", "batches") else ()
    carry_out(tmp_path / "as it was", coarser=coarser)
    carry_out(tmp_path / "changed", replace(SETTINGS, **{name: CHANGES[name]}), coarser=coarser)
    assert metrics(tmp_path / "as it was") != metrics(tmp_path / "changed")


def test_accumulation_computes_a_batch_in_parts(carry_out, monkeypatch, tmp_path):
    seen = []

    def spy(prediction, z, grid, original=training.LOSSES["l2"]):
        if prediction.requires_grad:
            seen.append(len(z))
        return original(prediction, z, grid)

    monkeypatch.setitem(training.LOSSES, "l2", spy)
    carry_out(tmp_path, replace(SETTINGS, accumulation=2, epochs=1))
    assert seen == [3, 2, 3, 2, 2, 1]


def test_products_set_the_precision_of_torch(carry_out, monkeypatch, tmp_path):
    seen = set()

    def spy(prediction, z, grid, original=training.LOSSES["l2"]):
        seen.add(torch.get_float32_matmul_precision())
        return original(prediction, z, grid)

    monkeypatch.setitem(training.LOSSES, "l2", spy)
    carry_out(tmp_path / "full")
    assert seen == {"highest"}
    seen.clear()
    carry_out(tmp_path / "tf32", replace(SETTINGS, products="tf32"))
    assert seen == {"high"}
    assert torch.get_float32_matmul_precision() == "highest"


def test_compile_compiles(carry_out, monkeypatch, tmp_path):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda module, **_: compiled.append(module) or module)
    carry_out(tmp_path / "eager")
    assert not compiled
    operator = carry_out(tmp_path / "compiled", replace(SETTINGS, compile=True))
    assert [type(module) for module in compiled] == [type(operator)]
    assert metrics(tmp_path / "compiled") == metrics(tmp_path / "eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # raised by the compiler's own imports
def test_a_compiled_training_gives_the_numbers_of_an_eager_one(carry_out, tmp_path):
    carry_out(tmp_path / "eager")
    carry_out(tmp_path / "compiled", replace(SETTINGS, compile=True))
    for one, other in zip(metrics(tmp_path / "eager"), metrics(tmp_path / "compiled"), strict=True):
        # Adam divides by the root of small numbers, so that rounding of 1e-7 grows.
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)


def test_values_that_make_no_sense_are_refused():
    for name, value in (
        ("ema", 1.0),
        ("stages", (1.0, 0.0)),
        ("ema", -0.1),
        ("accumulation", 0),
        ("save_minutes", 0.0),
        ("accumulation", 6),
    ):
        with pytest.raises(UsageError, match=name):
            replace(SETTINGS, **{name: value})
    with pytest.raises(UsageError, match="Muon needs whole matrices"):
        replace(SETTINGS, optimizer="muon", strategy="fsdp")


def test_a_training_that_is_continued_may_change_how_it_runs(carry_out, tmp_path):
    carry_out(tmp_path, replace(SETTINGS, schedule="plateau", epochs=1))
    changed = replace(SETTINGS, schedule="plateau", epochs=2, accumulation=2, save_minutes=1.0)
    carry_out(tmp_path, changed)
    with pytest.raises(UsageError, match="another ema"):
        carry_out(tmp_path, replace(changed, ema=0.5))
    assert len(metrics(tmp_path)) == 2


def test_settings_of_a_folder_that_are_no_table_are_told(carry_out, tmp_path):
    carry_out(tmp_path, replace(SETTINGS, epochs=1, schedule="plateau"))
    (tmp_path / "training.json").write_text("[]")
    with pytest.raises(operformer.errors.DataError, match=r"training\.json"):
        carry_out(tmp_path, replace(SETTINGS, schedule="plateau"))


def test_samples_of_one_set_and_of_a_list_of_one_are_the_same(carry_out, make_operator, tmp_path):
    samples = Lorenz63().sample(16, 12).to(dtype=torch.float32)
    assert isinstance(samples, Samples)
    train(make_operator(), [samples[:13]], samples[13:], SETTINGS, tmp_path / "list")
    carry_out(tmp_path / "one")
    assert_same_run(tmp_path / "list", tmp_path / "one")
