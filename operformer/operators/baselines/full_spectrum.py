"""FFTs of real functions and back as real pairs, each with the other for its gradient.

torch's gradient of a real FFT fills half a spectrum with zeros to a whole one and transforms that. So compilers get two
operations that know better, and see nothing complex; uncompiled, torch's own derivatives of every kind are kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def half_fft(v: Tensor) -> Tensor:
    """v^_k = sum_j v(x_j) e^{-2 pi i k . x_j}: (batch, c, *points) -> (batch, c, *modes, 2).

    Along the last axis k is 0, ..., n // 2, along the others 0, ..., n - 1.
    """
    v = v.contiguous()  # where compilers see it: they turn the axes while something else is computed
    return half_fft_forth(v) if torch.compiler.is_compiling() else _forth(v)


def half_fft_back(pairs: Tensor, n_last: int) -> Tensor:
    """Re sum_k c_k z_k e^{2 pi i k . x_j}: (batch, c, *modes, 2) -> (batch, c, *points), n_last along the last axis.

    c_k = 1 at 0 and at half the number of points of the last axis, 2 between, where k stands for -k, too.
    """
    pairs = _symmetric(pairs, n_last).contiguous()
    return symmetric_fft_back(pairs, n_last) if torch.compiler.is_compiling() else _back(pairs, n_last)


def _symmetric(pairs: Tensor, n_last: int) -> Tensor:
    """(z_k + conj z_-k) / 2 where both are in the half spectrum: the same real part, and what every FFT understands.

    What irfftn makes of other numbers is not the same on every device.
    """
    axes = tuple(range(2, pairs.ndim - 2))
    n_inside = (n_last - 1) // 2
    first, inside, last = pairs.split([1, n_inside, pairs.shape[-2] - 1 - n_inside], -2)

    def mean(end: Tensor) -> Tensor:
        opposite = end.flip(axes).roll((1,) * len(axes), axes) if axes else end
        real, imaginary = opposite.unbind(-1)
        return (end + torch.stack([real, -imaginary], -1)) / 2

    return torch.cat([mean(first), inside, mean(last)], -2)


def _forth(v: Tensor) -> Tensor:
    return torch.view_as_real(torch.fft.rfftn(v, dim=tuple(range(2, v.ndim)))).contiguous()


def _back(pairs: Tensor, n_last: int) -> Tensor:
    """`half_fft_back` of a symmetric half spectrum."""
    z = torch.view_as_complex(pairs)
    shape = (*z.shape[2:-1], n_last)
    return torch.fft.irfftn(z, s=shape, dim=tuple(range(2, z.ndim)), norm="forward").contiguous()


@torch.library.custom_op("operformer::half_fft_forth", mutates_args=())
def half_fft_forth(v: Tensor) -> Tensor:
    """`half_fft` for compilers."""
    return _forth(v)


@torch.library.custom_op("operformer::symmetric_fft_back", mutates_args=())
def symmetric_fft_back(pairs: Tensor, n_last: int) -> Tensor:
    """`half_fft_back` of a symmetric half spectrum for compilers."""
    return _back(pairs, n_last)


@half_fft_forth.register_fake
def _(v: Tensor) -> Tensor:
    return v.new_empty(*v.shape[:-1], v.shape[-1] // 2 + 1, 2)


@symmetric_fft_back.register_fake
def _(pairs: Tensor, n_last: int) -> Tensor:
    return pairs.new_empty(*pairs.shape[:-2], n_last)


def _multiplicity(n_last: int, like: Tensor) -> Tensor:
    """c_k of `half_fft_back`: (modes of the last axis, 1)."""
    k = torch.arange(n_last // 2 + 1, device=like.device)
    return torch.where(2 * k % n_last == 0, 1.0, 2.0).to(like.dtype).unsqueeze(-1)


def _keep_last(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.n_last = inputs[0].shape[-1]


def _keep_given(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
    ctx.n_last = inputs[1]


def _gradient_forth(ctx: Any, gradient: Tensor) -> Tensor:
    halved = _symmetric(gradient / _multiplicity(ctx.n_last, gradient), ctx.n_last)
    return symmetric_fft_back(halved.contiguous(), ctx.n_last)


def _gradient_back(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return half_fft_forth(gradient.contiguous()) * _multiplicity(ctx.n_last, gradient), None


half_fft_forth.register_autograd(_gradient_forth, setup_context=_keep_last)
symmetric_fft_back.register_autograd(_gradient_back, setup_context=_keep_given)
