"""FFTs of real functions and back as real pairs, each with the other for its gradient.

torch's gradient of a real FFT fills half a spectrum with zeros to a whole one and transforms that. Compilers see two
operations here, nothing complex.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("operformer::half_fft", mutates_args=())
def half_fft(v: Tensor) -> Tensor:
    """v^_k = sum_j v(x_j) e^{-2 pi i k . x_j}: (batch, c, *points) -> (batch, c, *modes, 2).

    Along the last axis k is 0, ..., n // 2, along the others 0, ..., n - 1.
    """
    return torch.view_as_real(torch.fft.rfftn(v.contiguous(), dim=tuple(range(2, v.ndim)))).contiguous()


@half_fft.register_fake
def _(v: Tensor) -> Tensor:
    return v.new_empty(*v.shape[:-1], v.shape[-1] // 2 + 1, 2)


@torch.library.custom_op("operformer::half_fft_back", mutates_args=())
def half_fft_back(pairs: Tensor, n_last: int) -> Tensor:
    """Re sum_k c_k z_k e^{2 pi i k . x_j}, c_k of `multiplicity`, n_last points along the last axis.

    Nothing made the half spectrum symmetric. What irfftn does with such a one is not the same on every device, so only
    the last axis is left to it, and only with real numbers at both ends.
    """
    z = torch.view_as_complex(pairs.contiguous())
    axes = tuple(range(2, z.ndim - 1))
    z = torch.fft.ifftn(z, dim=axes, norm="forward") if axes else z.clone()
    ends = slice(None, None, n_last // 2 if n_last % 2 == 0 else z.shape[-1])
    z.imag[..., ends] = 0
    return torch.fft.irfft(z, n=n_last, dim=-1, norm="forward").contiguous()


@half_fft_back.register_fake
def _(pairs: Tensor, n_last: int) -> Tensor:
    return pairs.new_empty(*pairs.shape[:-2], n_last)


def multiplicity(n_last: int, like: Tensor) -> Tensor:
    """c_k = 1 at 0 and at half the number of points, 2 between, where k stands for -k, too: (modes of the last axis, 1)."""
    k = torch.arange(n_last // 2 + 1, device=like.device)
    return torch.where(2 * k % n_last == 0, 1.0, 2.0).to(like.dtype).unsqueeze(-1)


def _keep_last(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.n_last = inputs[0].shape[-1]


def _keep_given(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
    ctx.n_last = inputs[1]


def _back(ctx: Any, gradient: Tensor) -> Tensor:
    return half_fft_back(gradient / multiplicity(ctx.n_last, gradient), ctx.n_last)


def _forth(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return half_fft(gradient) * multiplicity(ctx.n_last, gradient), None


half_fft.register_autograd(_back, setup_context=_keep_last)
half_fft_back.register_autograd(_forth, setup_context=_keep_given)
