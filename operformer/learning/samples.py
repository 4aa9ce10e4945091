"""Training, validation and test pairs, and the normalisation fitted on the first of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from operformer.domain.moments import Moments
from operformer.errors import DataError, UsageError
from operformer.operators import Operator
from operformer.problems import Pairs

BLOCK = 64  # pairs that are looked at together, so that a set on disk need not fit into memory


@dataclass(frozen=True, eq=False)
class Split:
    """Pairs to learn from, pairs to choose by, and pairs that neither has seen."""

    train: Pairs
    validation: Pairs
    test: Pairs


def split(samples: Pairs, validation: int, test: int) -> Split:
    """The last ``test`` pairs, the ``validation`` pairs before them, and the rest to train on."""
    train = len(samples) - validation - test
    if min(validation, test) < 0 or train < 1:
        raise UsageError(
            f"validation and test must leave pairs to train on: got {validation} and {test} of {len(samples)}"
        )
    return Split(samples[:train], samples[train : train + validation], samples[train + validation :])


def check_samples(samples: Pairs, kind: str) -> None:
    """Refuse pairs that cannot be learnt from: not finite, or an output that is zero everywhere."""
    if not len(samples):
        raise DataError(f"there are no {kind} samples; give at least one")
    first = 0
    for block in samples.blocks(BLOCK):
        for name, values in (("u", block.u), ("z", block.z)):
            broken = ~torch.isfinite(values).flatten(1).all(1)
            if bool(broken.any()):
                where = f"{kind} sample {first + int(broken.nonzero()[0])}"
                raise DataError(f"{where} of {name} holds values that are not finite; leave it out")
        zero = (block.z == 0).flatten(1).all(1)
        if bool(zero.any()):
            where = f"{kind} sample {first + int(zero.nonzero()[0])}"
            raise DataError(f"{where} of z is zero everywhere and has no relative error; leave it out")
        first += len(block)


def check_channels(operator: Operator, samples: Pairs, kind: str) -> None:
    """Refuse pairs that the operator does not map to each other; broadcasting would hide it."""
    given = samples.channels
    if given != (operator.in_channels, operator.out_channels):
        expected = f"{operator.in_channels} to {operator.out_channels}"
        raise UsageError(f"the operator maps {expected} channels: got {kind} samples of {given[0]} to {given[1]}")


def fit_normalisation(operator: Operator, train: Pairs) -> None:
    """Give the operator the mean and the standard deviation of each channel over D and over the training pairs.

    Integrals by the grid's weights, so the fit does not depend on the resolution. A channel that is constant keeps
    scale 1. The domain of the grid becomes the operator's unit cube. Of an operator that adds its input, z - u counts;
    where what is learned is zero at the boundary, about zero: mean 0, and the root mean square for a deviation.
    """
    u, z = (Moments(channels) for channels in train.channels)
    for block in train.blocks(BLOCK):
        u.add(block.u, block.grid)
        z.add(block.z - block.u if operator.adds_input else block.z, block.grid)
    output = (torch.zeros_like(z.mean), z.root_mean_square) if operator.is_zero_at_boundary else (z.mean, z.std)
    for (found_mean, deviation), mean, scale in (
        ((u.mean, u.std), operator.input_mean, operator.input_scale),
        (output, operator.output_mean, operator.output_scale),
    ):
        mean.copy_(found_mean)
        scale.copy_(torch.where(deviation > 1e-12 * found_mean.abs(), deviation, 1.0))
    bounds = torch.tensor(train.grid.bounds, dtype=torch.float64)
    operator.domain_lower.copy_(bounds[:, 0])
    operator.domain_extent.copy_(bounds[:, 1] - bounds[:, 0])
