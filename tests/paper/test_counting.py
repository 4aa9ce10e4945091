"""Counts without computing against counts of real calls, formulas and values by hand."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from operformer import TNO, Grid, ViTNO
from operformer.operators.baselines import AFNO
from paper.counting import count_operations


def test_nothing_is_computed_and_the_count_is_that_of_a_real_call():
    grid = Grid.uniform((10, 12), kind="cells")

    def make():
        return ViTNO((2, 3), 2, 1, 2, hidden_channels=6, n_layers=2, n_heads=2)

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        make()(torch.ones(1, 1, 10, 12), grid)
    assert count_operations(make, grid) == counter.get_total_flops() > 0


def test_transforms_of_an_afno_count_as_in_appendix_c():
    """A layer more: FFTs of 4 channels on 8 x 16 points, forth and back, and products of matrices."""
    grid = Grid.uniform((8, 16), kind="cells")

    def total(n_layers):
        return count_operations(lambda: AFNO((8, 16), 1, 1, 4, n_layers=n_layers, n_blocks=2), grid)

    # For each channel forth and back 5 N (log2 16 + log2(8) / 2), N = 128.
    transforms = 2 * 4 * 5 * 128 * (4 + 3 / 2)
    # MLP 4 -> 16 -> 4 on the points; two complex maps on 8 x 9 modes in 2 blocks of 2 as 4 x 4 real ones.
    products = 128 * 2 * (2 * 4 * 16) + 8 * 9 * 2 * (2 * 2 * 4 * 4)
    assert total(2) - total(1) == transforms + products


def test_an_operator_that_looks_at_its_grid_is_counted():
    assert count_operations(lambda: TNO(1, 3, 2, 8, n_layers=1, n_heads=2, initial_channels=2), Grid.uniform(11)) > 0
