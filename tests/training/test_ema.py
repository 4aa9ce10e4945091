"""Averaged weights against a loop by hand, in a training and alone."""

import torch

from operformer.training.optimizer import WeightAverage


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
