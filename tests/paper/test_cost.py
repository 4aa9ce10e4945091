"""Costs by hand and by torch's own counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from operformer.operators.baselines import GalerkinTransformer
from paper.complexity import Setting
from paper.cost import cost_galerkin, cost_of
from paper.recipes import find_run

D = 128


def test_a_tno_by_hand():
    n = 64 * 64
    cost = cost_of(find_run("darcy-64-tno", "authors"))
    table = 2 * n * 3 * D + 2 * n * D + 6 * (8 * D**2 * n + 2 * n**2 * D + 4 * D**2 * n)
    assert cost.evaluation == table
    both = table + 6 * 2 * n**2 * D  # scores and averages
    assert cost.training == 3 * 3600 * 80 * both
    assert cost.seconds(1e12) == pytest.approx(3 * 3600 * 80 * both / 1e12)
    assert cost.parameters == 598_145


@pytest.mark.parametrize("name", ["darcy-416-fano", "darcy-416-vitno"])
def test_the_training_of_patched_operators_counts_what_torch_counts(name):
    """One evaluation at smoke scale, less the last layer, which Appendix C leaves out, too."""
    experiment = find_run(name, "smoke", ["operator.last=[]"])
    operator = experiment.make_operator().eval()
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        operator(torch.zeros(1, 1, 48, 48), experiment.problem.grid(48))
    counted = 3 * 160 * 10 * counter.get_total_flops()
    assert cost_of(experiment).training == pytest.approx(counted, rel=0.15)  # transforms of ViTNO are counted as FFTs


def test_the_galerkin_transformer_counts_what_torch_counts():
    operator = GalerkinTransformer(2, 3, 5, hidden_channels=14, n_layers=2, n_heads=7)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        operator(torch.zeros(1, 3, 11, 13))
    s = Setting(3, 5, 2, 14, n_layers=2)
    assert cost_galerkin(s, 11 * 13, 7) == counter.get_total_flops()


# The operators of Appendix C at the paper's sizes
