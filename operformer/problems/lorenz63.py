"""The Lorenz '63 system: recover what is not observed (Section 6.1, equation l63)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from operformer.domain import Grid, Samples
from operformer.errors import DivergedError, UsageError
from operformer.problems.problem import TimeProblem
from operformer.problems.symmetry import Symmetry
from operformer.settings import check_fields

# On [0, 2] samples agree with DOP853 at tolerances of 1e-13 to 4.1e-9 (the worst of 2000); what is left is rounding,
# amplified by the flow. A power of two makes the times of the steps exact.
STEP = 2.0**-6
ORDER = 16
LARGEST_LAST_TERM = 1e-10  # relative; the terms of the series that are left out are of about that size

# The paper does not say where trajectories start; this box is the one of the authors' scripts.
LOWEST_START = (-15.0, -15.0, 0.0)
HIGHEST_START = (15.0, 15.0, 40.0)


@dataclass(frozen=True)
class Lorenz63(TimeProblem):
    """dx = sigma (y - x) dt, dy = (x (rho - z) - y) dt, dz = (x y - beta z) dt: recover y, z or both from x on [0, T].

    Without initial values the recovery rests on synchronization of the flow: u does not determine z.

    Args:
        recover: the output's channels in their order, "y", "z" or both.
        initial: whether the constants y(0) and z(0) are channels of u, next to x.
        horizon: T. Good values: 2, as in the paper; trajectories are chaotic.
        sigma, rho, beta: the constants of the system.
    """

    recover: tuple[Literal["y", "z"], ...] = ("y",)
    initial: bool = False
    horizon: float = 2.0
    sigma: float = 10.0
    rho: float = 28.0
    beta: float = 8 / 3

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)
        if self.recover not in (("y",), ("z",), ("y", "z"), ("z", "y")):
            raise UsageError(f'recover must be a tuple of "y", "z" or both: got {self.recover!r}; try ("y",)')
        super().__post_init__()

    @property
    def input_names(self) -> tuple[str, ...]:
        """x, and the two initial values."""
        return ("x", "y0", "z0") if self.initial else ("x",)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The recovered components."""
        return self.recover

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """(x, y, z) -> (-x, -y, z); the box of starts has it, too."""
        signs = {"x": -1, "y": -1, "z": 1}
        inputs = ("x", "y", "z") if self.initial else ("x",)
        u_signs, z_signs = (tuple(signs[name] for name in names) for names in (inputs, self.recover))
        return (Symmetry(u_signs=u_signs, z_signs=z_signs),)

    def _solve(self, draws: Sequence[np.random.Generator], grid: Grid) -> Samples:
        times = grid.points[:, 0]
        starts = np.stack([draw.uniform(LOWEST_START, HIGHEST_START) for draw in draws], axis=1)
        start = torch.from_numpy(starts).to(times.device)
        x, y, z = torch.einsum("nci->cin", self._trajectories(start, times))
        # Paper: y(0) and z(0) enter at t = 0 only, by an embedding of their own. As constant functions they make u a
        # function on every grid, with t = 0 in it or not.
        constants = [value.unsqueeze(-1).expand_as(x) for value in start[1:]] if self.initial else []
        recovered = [{"y": y, "z": z}[name] for name in self.recover]
        return Samples(torch.stack([x, *constants], dim=1), torch.stack(recovered, dim=1), grid)

    def _trajectories(self, start: Tensor, times: Tensor) -> Tensor:
        """The states (N, 3, count) at the times (N,) that come from the states (3, count) at time 0."""

        def field(terms: Sequence[Tensor]) -> Tensor:
            x, y, z = terms[-1].unbind()
            # The product of two series: sum_i x_i (y, z)_{k - i}.
            product = terms[0][0] * terms[-1][1:]
            for one, other in zip(terms[1:], reversed(terms[:-1]), strict=True):
                product.addcmul_(one[0].expand(2, -1), other[1:])
            return torch.stack([self.sigma * (y - x), self.rho * x - product[1] - y, product[0] - self.beta * z])

        try:
            return taylor(field, start, times, STEP, ORDER)
        except DivergedError as error:
            constants = f"sigma={self.sigma:g}, rho={self.rho:g}, beta={self.beta:g}"
            raise DivergedError(f"Lorenz '63 with {constants}: {error}; try smaller constants") from None


# Maps the Taylor coefficients y_0, ..., y_k of a solution to the k-th coefficient of f(y(t)).
Recurrence = Callable[[Sequence[Tensor]], Tensor]


def taylor(f: Recurrence, y: Tensor, times: Tensor, step: float, order: int) -> Tensor:
    """y(t_n + theta h) = sum_k theta^k h^k y_k, (k + 1) y_{k+1} = f_k: Taylor's method with dense output.

    The right-hand side is a polynomial. The times (N,), t >= 0, come in any order; the result is (N, *y.shape). The
    steps are [n h, (n + 1) h] whatever the times are, so every set of times reads the same trajectory. All operations
    act element by element, so a trajectory does not depend on its batch.
    """
    position, order_of_times = torch.sort(times.to(y) / step)
    index = (position.ceil() - 1).clamp(min=0)
    theta = (position - index).reshape(-1, *[1] * y.ndim)
    solution = y.new_empty(len(times), *y.shape)
    last_term = y.new_zeros(())
    done = 0
    for count in torch.bincount(index.long()).tolist():
        terms = [y]  # h^k y_k; the recurrence is homogeneous, so it takes the terms with their powers of h
        for k in range(order):
            terms.append(f(terms) * (step / (k + 1)))
        now = slice(done, done + count)
        if count:
            solution[order_of_times[now]] = _evaluate(terms, theta[now])
        y = _evaluate(terms, 1.0)
        last_term = torch.maximum(last_term, terms[-1].abs().max() / terms[0].abs().max().clamp(min=1.0))
        done += count
    # Written so that NaN does not pass.
    if not bool(last_term <= LARGEST_LAST_TERM):
        raise DivergedError(f"steps of {step:g} are too long for this equation: its series has not converged")
    return solution


def _evaluate(terms: Sequence[Tensor], theta: Tensor | float) -> Tensor:
    """Horner's rule."""
    value = terms[-1] * theta
    for term in reversed(terms[1:-1]):
        value = (value + term) * theta
    return value + terms[0]
