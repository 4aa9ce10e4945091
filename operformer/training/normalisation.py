"""The normalisation that an operator carries, fitted on its training samples."""

from __future__ import annotations

import torch

from operformer.domain import Pairs
from operformer.domain.dataset import BLOCK
from operformer.domain.interpolation import interpolate
from operformer.domain.samples import Moments, z_grid
from operformer.errors import UsageError
from operformer.operators import Operator
from operformer.operators.operator import check_takes_functions


def check_channels(operator: Operator, samples: Pairs, kind: str) -> None:
    """Refuse pairs that the operator does not map to each other; broadcasting would hide it."""
    if samples.grid.dim != operator.dim:
        raise UsageError(f"the operator has dimension {operator.dim}: got {kind} samples on {samples.grid}")
    check_takes_functions(operator, samples.query)
    given = samples.channels
    if given != (operator.in_channels, operator.out_channels):
        expected = f"{operator.in_channels} to {operator.out_channels}"
        raise UsageError(f"the operator maps {expected} channels: got {kind} samples of {given[0]} to {given[1]}")


def fit_normalisation(operator: Operator, train: Pairs) -> None:
    """Give the operator the mean and the standard deviation of each channel over D and over the training pairs.

    Integrals by the grid's weights, so the fit does not depend on the resolution. A channel that is constant keeps
    scale 1. The domain of the grid becomes the operator's unit cube. Of an operator that adds its input, z - u counts;
    where what is learned is zero at the boundary, about zero: mean 0, and the root mean square for a deviation.
    One that was trained before keeps its means and deviations, which its weights are made for.
    """
    bounds = torch.tensor(train.grid.bounds, dtype=torch.float64)
    is_trained = is_fitted(operator)
    operator.domain_lower.copy_(bounds[:, 0])
    operator.domain_extent.copy_(bounds[:, 1] - bounds[:, 0])
    if is_trained:
        return
    u, z = (Moments(channels) for channels in train.channels)
    for block in train.blocks(BLOCK):
        u.add(block.u, block.grid)
        there = block.u if block.query is None else interpolate(block.u, block.grid, block.query)
        z.add(block.z - there if operator.adds_input else block.z, z_grid(block))
    output = (torch.zeros_like(z.mean), z.root_mean_square) if operator.is_zero_at_boundary else (z.mean, z.std)
    for (found_mean, deviation), mean, scale in (
        ((u.mean, u.std), operator.input_mean, operator.input_scale),
        (output, operator.output_mean, operator.output_scale),
    ):
        mean.copy_(found_mean)
        scale.copy_(torch.where(deviation > 1e-12 * found_mean.abs(), deviation, 1.0))


def is_fitted(operator: Operator) -> bool:
    """Whether an operator carries a normalisation: fresh from its constructor it has means 0 and deviations 1."""
    means, scales = (operator.input_mean, operator.output_mean), (operator.input_scale, operator.output_scale)
    return any(bool((mean != 0).any()) for mean in means) or any(bool((scale != 1).any()) for scale in scales)
