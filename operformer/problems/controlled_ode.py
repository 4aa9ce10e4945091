"""A controlled ODE: from a random control to the solution it drives (Section 6.1, equation cde)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, tan

import numpy as np
import torch

from operformer.domain import Grid, Samples
from operformer.errors import UsageError
from operformer.problems.problem import TimeProblem
from operformer.settings import check_fields


@dataclass(frozen=True)
class ControlledODE(TimeProblem):
    """dz = sin(z) du, z(0) = z0, u(t) = sum_{j=1}^J xi_j j^(-decay) sin(pi eta_j t), xi_j ~ N(0, 1), eta_j ~ U([0, J]).

    The equation is separable: dz / sin(z) = d log tan(z / 2) = du. So tan(z(t) / 2) = tan(z0 / 2) exp(u(t) - u(0))
    exactly, and z stays between the zeros 0 and pi of the sine.

    Args:
        n_terms: J, the number of waves in the control.
        z0: the start of z, between 0 and pi.
        decay: the power of j that divides the j-th amplitude. Good values: 0, as in the paper, or 1.
        horizon: T.
    """

    n_terms: int = 10
    z0: float = 1.0
    # Paper: no decay. The authors' scripts divide the j-th term by j, which is decay = 1.
    decay: float = 0.0
    horizon: float = 2.0

    input_names = ("u",)
    output_names = ("z",)

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)
        if self.n_terms < 1:
            raise UsageError(f"n_terms must be at least 1: got {self.n_terms}; the paper has 10")
        if not 0 < self.z0 < pi:
            raise UsageError(f"z0 must lie between 0 and pi, where sin(z0) > 0: got {self.z0}; try 1.0")
        super().__post_init__()

    def _solve(self, draws: Sequence[np.random.Generator], grid: Grid) -> Samples:
        times = grid.points[:, 0]
        normals = np.stack([draw.standard_normal(self.n_terms) for draw in draws])
        frequencies = np.stack([draw.uniform(0.0, self.n_terms, self.n_terms) for draw in draws])
        xi, eta = (torch.from_numpy(values).to(times.device) for values in (normals, frequencies))
        # Term by term: all at once would take J times the memory of u.
        u = times.new_zeros(len(draws), len(times))
        for j in range(self.n_terms):
            u += xi[:, j, None] * (j + 1) ** -self.decay * torch.sin(pi * eta[:, j, None] * times)
        z = 2 * torch.atan(tan(self.z0 / 2) * torch.exp(u))  # u(0) = 0
        return Samples(u.unsqueeze(1), z.unsqueeze(1), grid)
