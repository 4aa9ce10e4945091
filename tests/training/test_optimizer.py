"""AdamW and Muon: which parameter goes to whom, and the same steps as torch's own optimizers apart."""

import pytest
import torch
from torch import nn

from operformer import FANO, TNO
from operformer.training.optimizer import (
    Muon,
    Together,
    WeightAverage,
    can_step_unless,
    make_optimizer,
    orthogonalised,
    parts_of,
    step_unless,
)
from operformer.training.schedule import Cosine


def tno(seed=0):
    torch.manual_seed(seed)
    return TNO(2, 1, 1, hidden_channels=6, n_layers=2, n_heads=2)


def fano(seed=0):
    torch.manual_seed(seed)
    return FANO((2, 2), 3, 1, 1, hidden_channels=6, n_layers=1, n_heads=2)


def isotropic(seed=0):
    torch.manual_seed(seed)
    return FANO((2, 2), 3, 1, 1, hidden_channels=6, n_layers=1, n_heads=2, basis="isotropic-fourier")


def gradients(operator, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in operator.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)


@pytest.mark.parametrize("make", [tno, fano])
def test_muon_takes_the_matrices_inside_the_layers(make):
    operator = make()
    muon, adamw = parts_of(make_optimizer("muon", operator, 1e-3, 0.0))
    names = {id(p): name for name, p in operator.named_parameters()}
    taken, left = ([names[id(p)] for group in part.param_groups for p in group["params"]] for part in (muon, adamw))
    assert len(taken) + len(left) == len(names)
    assert set(taken) | set(left) == set(names.values())
    assert all("layers." in name and dict(operator.named_parameters())[name].ndim == 2 for name in taken)
    assert any("merge.weight" in name for name in taken)
    for name in left:
        assert "layers." not in name or dict(operator.named_parameters())[name].ndim != 2


def test_muon_takes_the_few_matrices_of_isotropic_kernels_and_not_one_for_each_mode():
    for make, name, is_taken in ((isotropic, "radial", True), (fano, "weight", False)):
        operator = make()
        muon, _ = parts_of(make_optimizer("muon", operator, 1e-3, 0.0))
        mixing = dict(operator.named_parameters())[f"layers.0.attention.mixing.{name}"]
        assert mixing.ndim == 3
        assert any(p is mixing for group in muon.param_groups for p in group["params"]) == is_taken


def fused(operator):
    """Muon and AdamW as on a GPU."""
    muon, adamw = parts_of(make_optimizer("muon", operator, 1e-2, 0.1))
    parameters = [p for group in adamw.param_groups for p in group["params"]]
    return Together(muon, torch.optim.AdamW(parameters, 1e-2, weight_decay=0.1, fused=True))


def everything(operator, optimizer):
    """Weights and moments."""
    kept = [part.state[p] for part in optimizer.parts for group in part.param_groups for p in group["params"]]
    moments = [value.clone() for state in kept for _, value in sorted(state.items())]
    return [p.detach().clone() for p in operator.parameters()] + moments


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_unless_something_is_bad_is_the_same(dtype):
    one, other = tno().to(dtype), tno().to(dtype)
    guarded, plain = fused(one), fused(other)
    assert can_step_unless(guarded)
    for step in range(4):
        gradients(one, step)
        gradients(other, step)
        step_unless(guarded, torch.tensor(False))
        plain.step()
        torch.testing.assert_close(everything(one, guarded), everything(other, plain), rtol=0, atol=0)
    before = everything(one, guarded)
    for parameter in one.parameters():
        parameter.grad.fill_(torch.nan)
    step_unless(guarded, torch.tensor(True))
    torch.testing.assert_close(everything(one, guarded), before, rtol=0, atol=0)
    gradients(one, 9)
    gradients(other, 9)
    guarded.step()  # nothing of the bad step is left
    plain.step()
    torch.testing.assert_close(everything(one, guarded), everything(other, plain), rtol=0, atol=0)


def test_plain_adamw_cannot_step_unless():
    assert not can_step_unless(make_optimizer("muon", tno(), 1e-2, 0.1))


def test_together_steps_as_both_do_apart():
    one, other = tno(), tno()
    together = make_optimizer("muon", one, 1e-2, 0.1)
    inside = [p for name, p in other.named_parameters() if p.ndim == 2 and "layers." in name]
    rest = [p for name, p in other.named_parameters() if not (p.ndim == 2 and "layers." in name)]
    apart = [
        torch.optim.Muon(inside, 1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, 1e-2, weight_decay=0.1),
    ]
    schedules = [Cosine(together, 20), *(Cosine(part, 20) for part in apart)]
    for step in range(7):
        gradients(one, step)
        gradients(other, step)
        for optimizer in (together, *apart):
            optimizer.step()
        for schedule in schedules:
            schedule.after_update()
    for (name, p), q in zip(one.named_parameters(), other.parameters(), strict=True):
        # Five iterations in bfloat16 know a direction to 0.05, and each of seven steps is 0.2 sqrt(6) 1e-2 long.
        is_rounded = any(q is matrix for matrix in inside)
        torch.testing.assert_close(p, q, rtol=0, atol=7 * 5e-3 * 0.05 if is_rounded else 0, msg=name)


@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (6, 6)])
def test_directions_are_nearly_orthogonal(shape):
    """U S V^T comes to U S' V^T with S' near 1, whatever the matrices beside it are."""
    generator = torch.Generator().manual_seed(3)
    matrices = torch.randn(4, *shape, generator=generator) * torch.tensor([1e-6, 1.0, 30.0, 1e8])[:, None, None]
    found = orthogonalised(matrices).float()
    for before, after in zip(matrices, found, strict=True):
        u, _, vt = torch.linalg.svd(before, full_matrices=False)
        inside = u.T @ after @ vt.T
        assert torch.linalg.svdvals(after).max() < 1.3
        assert torch.linalg.svdvals(after).min() > 0.6
        torch.testing.assert_close(inside, torch.diag(inside.diagonal()), rtol=0, atol=0.05)
        assert (inside.diagonal() > 0.6).all()


def test_a_stack_of_matrices_moves_as_its_matrices_do():
    generator = torch.Generator().manual_seed(4)
    values, slopes = torch.randn(2, 3, 5, 7, generator=generator).unbind(0)
    stack, singles = nn.Parameter(values.clone()), [nn.Parameter(v.clone()) for v in values]
    together, apart = Muon([stack], 1e-2, 0.1), Muon(singles, 1e-2, 0.1)
    for _ in range(3):
        stack.grad = slopes.clone()
        for single, slope in zip(singles, slopes, strict=True):
            single.grad = slope.clone()
        together.step()
        apart.step()
    torch.testing.assert_close([*stack], [*singles], rtol=0, atol=1e-6)


def test_a_rate_that_is_set_reaches_both_parts():
    together = make_optimizer("muon", tno(), 1e-2, 0.0)
    assert isinstance(together, Together)
    for group in together.param_groups:
        group["lr"] = 0.5
    assert [group["lr"] for part in together.parts for group in part.param_groups] == [0.5, 0.5]


# Averaged weights against a loop by hand


def linear(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Linear(3, 2).double()


def test_the_average_is_that_of_a_loop_by_hand():
    module = linear()
    average = WeightAverage(module, decay=0.7)
    expected = {name: p.detach().clone().tolist() for name, p in module.named_parameters()}
    generator = torch.Generator().manual_seed(1)
    for n in range(1, 41):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        average.update()
        decay = min(0.7, (1 + n) / (10 + n))  # 2/11, 3/12, ... and 0.7 from n = 20 on
        for name, parameter in module.named_parameters():
            old = torch.tensor(expected[name], dtype=torch.float64)
            expected[name] = (decay * old + (1 - decay) * parameter.detach()).tolist()
    for name, weights in average.weights.items():
        torch.testing.assert_close(weights, torch.tensor(expected[name], dtype=torch.float64), rtol=1e-10, atol=1e-10)
    assert average.updates == 40


def test_applied_weights_are_put_back_to_the_bit():
    module = linear()
    average = WeightAverage(module, decay=0.9)
    with torch.no_grad():
        module.weight.mul_(1 / 3)
    average.update()
    before = module.weight.detach().clone()
    with average.applied():
        assert torch.equal(module.weight, average.weights["weight"])
        assert not torch.equal(module.weight, before)
    assert torch.equal(module.weight, before)
