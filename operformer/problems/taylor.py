"""Taylor's method with dense output, for a batch of ODEs whose right-hand side is a polynomial."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from operformer.errors import DivergedError

# A step is too long where the last term of its series is not small; the terms left out would be of about that size.
LARGEST_LAST_TERM = 1e-10

# Maps the Taylor coefficients y_0, ..., y_k of a solution to the k-th coefficient of f(y(t)).
Recurrence = Callable[[Sequence[Tensor]], Tensor]


def taylor(f: Recurrence, y: Tensor, times: Tensor, step: float, order: int) -> Tensor:
    """y(t_n + theta h) = sum_k theta^k h^k y_k, (k + 1) y_{k+1} = f_k: the solution at the times (N,) as (N, *y.shape).

    The times may come in any order, t >= 0. The steps are [n h, (n + 1) h] whatever the times are, so that every set of
    times reads the same trajectory; inside a step it is the polynomial itself. Every operation acts element by element,
    so a trajectory does not depend on its batch.
    """
    position, order_of_times = torch.sort(times.to(y) / step)
    index = (position.ceil() - 1).clamp(min=0)
    theta = (position - index).reshape(-1, *[1] * y.ndim)
    solution = y.new_empty(len(times), *y.shape)
    last_term = y.new_zeros(())
    done = 0
    for count in torch.bincount(index.long()).tolist():
        terms = _series(f, y, step, order)
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


def _series(f: Recurrence, y: Tensor, step: float, order: int) -> list[Tensor]:
    """The terms h^k y_k, k = 0, ..., order."""
    terms = [y]
    for k in range(order):
        # h^(k+1) y_{k+1}: the recurrence is homogeneous, so it may be fed the terms with their powers of h.
        terms.append(f(terms) * (step / (k + 1)))
    return terms


def _evaluate(terms: Sequence[Tensor], theta: Tensor | float) -> Tensor:
    """Horner's rule."""
    value = terms[-1] * theta
    for term in reversed(terms[1:-1]):
        value = (value + term) * theta
    return value + terms[0]
