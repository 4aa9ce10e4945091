"""FNO as neuraloperator computes it, by FFTs of all points: what ours is compared with, in tests and in benchmarks."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor
from torch.func import functional_call

from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.operators.baselines.fno import FNO
from operformer.operators.baselines.uniform import check_uniform, with_coordinates


def as_literal_fno(operator: FNO) -> LiteralFNO:
    """A copy of the operator, with weights of the same names, that calls neuraloperator's own forward pass."""
    literal = deepcopy(operator)
    literal.__class__ = LiteralFNO
    return literal  # type: ignore[return-value]  # it has just become one


class LiteralFNO(FNO):
    """neuralop.models.FNO as it is. Even in float64 it rounds the product with the weights to complex64."""

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        check_uniform("FNO", grid, query)
        odd = [n for n in grid.shape[:-1] if n % 2]
        if odd:
            raise UsageError(
                f"neuraloperator shifts the modes of an axis with an odd number of points by one: got {grid}; use even "
                "numbers along all axes but the last"
            )
        weights = {
            f"fno_blocks.convs.{k}.weight.tensor": torch.view_as_complex(pair) for k, pair in enumerate(self.spectral)
        }
        return functional_call(self.network, weights, (with_coordinates(self, u, grid),))
