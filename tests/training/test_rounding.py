"""The loss scale by hand, and precision that is put back."""

import pytest
import torch

from operformer import TNO
from operformer.training import rounding as module
from operformer.training.rounding import LossScale, rounding, unscale


def test_the_scale_halves_at_an_overflow_and_doubles_after_many_good_updates(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 3)
    scale = LossScale()
    seen = [scale.value]
    for is_good in (True, True, False, True, True, True, True, True, True):
        if is_good:
            scale.success()
        else:
            assert scale.overflow()
        seen.append(scale.value)
    assert seen == [4096, 4096, 4096, 2048, 2048, 2048, 4096, 4096, 4096, 8192]


def test_a_scale_below_one_is_not_the_reason():
    scale = LossScale()
    assert [scale.overflow() for _ in range(13)] == [True] * 12 + [False]


def test_the_scale_goes_on_from_its_state():
    scale = LossScale()
    scale.overflow()
    scale.success()
    again = LossScale()
    again.load_state_dict(scale.state_dict())
    assert again.state_dict() == scale.state_dict() == {"value": 2048.0, "good": 1}
    for damaged in ({"value": "1", "good": 1}, {"value": 0.0, "good": 1}, {"value": 1e300, "good": 1}, {"good": 1}):
        with pytest.raises((ValueError, KeyError)):
            again.load_state_dict(damaged)


def test_gradients_are_unscaled_without_rounding():
    parameter = torch.nn.Parameter(torch.zeros(5))
    exact = torch.tensor([1 / 3, -7e-9, 5.5, 0.0, 1e20])
    parameter.grad = exact * 4096
    unscale([parameter, torch.nn.Parameter(torch.zeros(2))], 4096.0)
    assert torch.equal(parameter.grad, exact)


def test_precision_is_as_before_afterwards():
    operator = TNO(1, 1, 1, hidden_channels=4, n_layers=1, n_heads=2)
    before = torch.get_float32_matmul_precision()

    def averages():
        return {m.average_dtype for m in operator.modules() if hasattr(m, "average_dtype")}

    def interrupted():
        with rounding(operator, "bfloat16", "tf32"):
            assert averages() == {torch.bfloat16}
            assert torch.get_float32_matmul_precision() == "high"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert averages() == {None}
    assert torch.get_float32_matmul_precision() == before
