"""Standardised outputs: in units of the mean and the deviation of all training samples, one of each for a channel.

The paper's code measures its losses and errors on them. With z' = (z - m) / s a relative error is larger than that of z
where the mean m is large: ||G(u)' - z'|| / ||z'|| = ||G(u) - z|| / ||z - m|| if there is one channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from operformer.domain import Pairs
from operformer.domain.dataset import BLOCK
from operformer.domain.samples import Moments, z_grid


@dataclass(frozen=True)
class Outputs:
    """Mean and standard deviation of each output channel, over D and over the training samples.

    Args:
        mean: one number for each channel.
        deviation: one positive number for each channel; 1 for a channel that is constant.

    Example:
        >>> z = torch.tensor([[[1.0, 3.0]], [[1.0, 3.0]]])
        >>> Outputs.of(Samples(z, z, Grid.uniform(2))).mean
        (2.0,)
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, samples: Pairs) -> Outputs:
        """Those of samples, by the weights of the grid they are known on."""
        found = Moments(samples.channels[1])
        for block in samples.blocks(BLOCK):
            found.add(block.z, z_grid(block))
        deviation = torch.where(found.std > 1e-12 * found.mean.abs(), found.std, 1.0)
        return cls(tuple(found.mean.tolist()), tuple(deviation.tolist()))

    def standardise(self, z: Tensor) -> Tensor:
        """(z - mean) / deviation, channels first: (batch, channels, *shape)."""
        mean, deviation = (
            torch.tensor(values, dtype=z.dtype, device=z.device).reshape(-1, *[1] * (z.ndim - 2))
            for values in (self.mean, self.deviation)
        )
        return (z - mean) / deviation
