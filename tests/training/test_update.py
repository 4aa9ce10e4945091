"""One update: parts that add up to the batch, a scale that does not show, and what is told when memory runs out."""

from dataclasses import replace

import pytest
import torch

from operformer.errors import ResourceError
from operformer.evaluation.loss import relative_l2
from operformer.training import update as update_module
from operformer.training.batches import shares
from operformer.training.checkpoint import State
from operformer.training.normalisation import fit_normalisation
from operformer.training.optimizer import Together, step_unless
from operformer.training.ranks import Ranks
from operformer.training.recipe import Training
from operformer.training.rounding import LossScale
from operformer.training.schedule import Cosine
from operformer.training.update import GraphedPass, Update


class Kept(torch.optim.SGD):
    """Leaves the weights and the gradients as they are."""

    def step(self, closure=None):
        pass

    def zero_grad(self, set_to_none=True):
        pass


def together(parameters, rate):
    """Two optimizers as one."""
    given = list(parameters)
    return Together(torch.optim.SGD(given[:3], rate), torch.optim.AdamW(given[3:], rate))


def fused(parameters, rate):
    """Steps before the norm is known, as on a GPU."""
    return torch.optim.AdamW(list(parameters), rate, fused=True)


@pytest.fixture
def make_update(make_operator, pairs):
    """An update of the small operator in float64, and its operator."""

    def make(optimizer=Kept, clip_norm=1e30, scale=None, rate=0.1, dtype=torch.float64):
        operator = make_operator(dtype=dtype)
        fit_normalisation(operator, pairs(13, dtype=dtype))
        ranks = Ranks(Training(device="cpu"))
        module = ranks.setup(operator, is_compiled=False)
        chosen = optimizer(operator.parameters(), rate)
        state = State(operator, chosen, Cosine(chosen, 10), scale=scale)
        return Update(ranks, module, state, "l2", clip_norm), operator

    return make


def gradients(operator):
    return [p.grad.clone() for p in operator.parameters()]


def by_hand(operator, samples):
    operator.zero_grad()
    relative_l2(operator(samples.u, samples.grid), samples.z, samples.grid).mean().backward()
    return gradients(operator)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_the_parts_of_a_batch_add_up_to_its_gradient(make_update, pairs, parts):
    update, operator = make_update()
    samples = pairs(7, dtype=torch.float64)
    given = [(samples[own], len(places)) for places, own in shares(torch.arange(7), 0, 1, parts)]
    (loss,) = update(given, 7, [])
    found = gradients(operator)
    torch.testing.assert_close(found, by_hand(operator, samples), rtol=1e-10, atol=1e-12)
    expected = relative_l2(operator(samples.u, samples.grid), samples.z, samples.grid).sum().item()
    assert loss == pytest.approx(expected, rel=1e-12)


class Tape:
    """Records as CUDA does: one output, written again by every call, and gradients where they were."""

    def __init__(self, parameters):
        self.parameters = list(parameters)

    def __call__(self, action):
        places = [p.grad.data_ptr() for p in self.parameters]
        output = torch.empty((), dtype=torch.float64)

        def replay():
            assert [p.grad.data_ptr() for p in self.parameters] == places
            return output.copy_(action())

        return replay


@pytest.mark.parametrize("scale", [None, LossScale])
@pytest.mark.parametrize("make_optimizer", [torch.optim.SGD, together, fused])
def test_updates_by_recordings_are_the_same(make_update, pairs, monkeypatch, scale, make_optimizer):
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    plain, one = make_update(make_optimizer, 0.5, scale and scale())
    update, other = make_update(make_optimizer, 0.5, scale and scale())
    graphs = GraphedPass(other, relative_l2, Tape(other.parameters()), warm=2)
    recorded = replace(update, graphs=graphs)
    drawn = [pairs(7, dtype=torch.float64)] * 2 + [pairs(6, dtype=torch.float64)] * 4
    grid = drawn[0].grid  # one object, as where pairs are on the GPU
    for samples in drawn:
        batch = replace(samples, grid=grid)
        given = [(batch[own], len(places)) for places, own in shares(torch.arange(len(batch)), 0, 1, 3)]
        asked = (given, len(batch), [1.0])
        assert recorded(*asked) == pytest.approx(plain(*asked), rel=1e-12)
        for p, q in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-12)
    assert len(graphs._recordings) == 1


@pytest.mark.parametrize("clip_norm", [0.01, 1e30])
def test_the_gradient_is_clipped_to_its_norm(make_update, pairs, clip_norm):
    update, operator = make_update(clip_norm=clip_norm)
    samples = pairs(5, dtype=torch.float64)
    whole = by_hand(operator, samples)
    operator.zero_grad()
    update([(samples, 5)], 5, [])
    norm = torch.cat([g.flatten() for g in whole]).norm()
    factor = min(1.0, clip_norm / (norm.item() + 1e-6))  # torch's own guard against zero
    for one, other in zip(gradients(operator), whole, strict=True):
        torch.testing.assert_close(one, factor * other, rtol=1e-10, atol=1e-14)


def test_a_scaled_loss_gives_the_same_gradient(make_update, pairs):
    scaled, one = make_update(scale=LossScale())
    plain, other = make_update()
    samples = pairs(5, dtype=torch.float64)
    assert scaled([(samples, 5)], 5, []) == plain([(samples, 5)], 5, [])
    torch.testing.assert_close(gradients(one), gradients(other), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("make_optimizer", [torch.optim.SGD, fused])
def test_an_overflow_leaves_the_weights_and_halves_the_scale(make_update, pairs, make_optimizer):
    scale = LossScale()
    update, operator = make_update(make_optimizer, scale=scale)
    samples = pairs(5, dtype=torch.float64)
    before = [p.detach().clone() for p in operator.parameters()]
    next(operator.parameters()).register_hook(lambda gradient: gradient * torch.inf)
    assert update([(samples, 5)], 5, []) is not None
    assert scale.value == 2048
    assert all(torch.equal(p, q) for p, q in zip(operator.parameters(), before, strict=True))
    while scale.value > 1:
        update([(samples, 5)], 5, [])
    assert update([(samples, 5)], 5, []) is None  # no scale would help
    assert all(torch.equal(p, q) for p, q in zip(operator.parameters(), before, strict=True))


def test_an_early_step_is_the_one_of_a_late_one(make_update, pairs, monkeypatch):
    samples, calls = pairs(5, dtype=torch.float64), []
    monkeypatch.setattr(update_module, "step_unless", lambda *given: calls.append(1) or step_unless(*given))
    early, one = make_update(fused, 0.5)
    late, other = make_update(fused, 0.5)
    for _ in range(3):
        found = early([(samples, 5)], 5, [])
        with monkeypatch.context() as patch:
            patch.setattr(update_module, "can_step_unless", lambda optimizer: False)
            assert late([(samples, 5)], 5, []) == found
    assert len(calls) == 3
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))


def test_an_infinite_loss_changes_nothing_though_its_gradient_is_zero(make_update, pairs):
    update, operator = make_update(fused, dtype=torch.float32)
    samples = pairs(5, dtype=torch.float32)
    update([(samples, 5)], 5, [])  # moments that would move the weights by themselves
    before = [p.detach().clone() for p in operator.parameters()]
    operator.output_scale.fill_(1e22)
    assert update([(samples, 5)], 5, []) is None
    assert all(torch.equal(p, q) for p, q in zip(operator.parameters(), before, strict=True))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    ],
)
def test_memory_that_runs_out_is_told_with_the_batch_and_its_points(make_update, pairs, error):
    update, _ = make_update()

    def fail(*_):
        raise error

    failing = replace(update, module=fail)
    with pytest.raises(ResourceError, match=r"out of memory .* with a batch of 7 samples of 11 points"):
        failing([(pairs(7), 7)], 7, [])


def test_other_errors_are_not_taken_for_memory(make_update, pairs):
    update, _ = make_update()

    def fail(*_):
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        replace(update, module=fail)([(pairs(7), 7)], 7, [])
