"""ViTNO and FANO as Appendix B.2 and B.3 write them: FFTs on patches, three transforms, scores over points.

These are what the forms in coefficient space are compared with, in tests and in benchmarks. They take cells and
periodic grids that the patches divide.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from operformer.domain.basis import ExtendedFourier, Fourier
from operformer.domain.fourier import make_modes
from operformer.errors import UsageError
from operformer.operators.fano import FANO
from operformer.operators.integral import FourierIntegralOperator, Mixing, Spectrum
from operformer.operators.patched_attention import FourierAttention, FourierValue, PatchedAttention
from operformer.operators.vitno import ViTNO


def as_literal(operator: FANO | ViTNO, stores_complex: bool = False) -> FANO | ViTNO:
    """A copy of the operator with the attention, and the lift of a ViTNO, as the paper writes them.

    With ``stores_complex`` the copy has complex weights of its own, as the authors' code does; otherwise they are made
    from the real ones at every call, so that gradients can be compared.
    """
    literal = deepcopy(operator)
    for layer in literal.layers:
        attention = layer.attention
        if isinstance(attention, FourierAttention):
            layer.attention = LiteralFourierAttention(attention, stores_complex)
        elif isinstance(attention, FourierValue):
            layer.attention = LiteralFourierValue(attention, stores_complex)
        elif isinstance(attention, PatchedAttention):
            layer.attention = LiteralPatchedAttention(attention)
    if isinstance(literal, ViTNO):
        literal.lift = LiteralFourierOperator(literal.lift, stores_complex)  # type: ignore[assignment]
    return literal


class LiteralFourierAttention(nn.Module):
    """Q, K, V by three transforms forth and back, scores and averages over points (equation QKV_operator_implement)."""

    def __init__(self, original: FourierAttention, stores_complex: bool) -> None:
        super().__init__()
        self.original = original
        self.complex = _stored(original.mixing, original.spectrum) if stores_complex else None

    def forward(self, v: Tensor, measure: Any, source: Tensor | None = None) -> Tensor:
        """Attention of the patches of v (batch, P, *points, c) to each other."""
        spectrum = self.original.spectrum
        weights = complex_weights(self.original.mixing, spectrum) if self.complex is None else self.complex
        query, key, value = (literal_fourier_operator(part, v, spectrum) for part in weights.chunk(3, -1))
        return self.original.merge(_attend(query, key, value, self.original.n_heads))


class LiteralPatchedAttention(nn.Module):
    """Pointwise Q, K, V, scores over points (equations MC_approx_L2_1 and MC_approx_L2_2)."""

    def __init__(self, original: PatchedAttention) -> None:
        super().__init__()
        self.original = original

    def forward(self, v: Tensor, measure: Any, source: Tensor | None = None) -> Tensor:
        """Attention of the patches of v (batch, P, *points, c) to each other."""
        query, key, value = self.original.query(v), self.original.key(v), self.original.value(v)
        return self.original.merge(_attend(query, key, value, self.original.n_heads))


class LiteralFourierOperator(nn.Module):
    """F^-1(R . F v) by FFTs (equation int_discrete)."""

    def __init__(self, original: FourierIntegralOperator | FourierValue, stores_complex: bool) -> None:
        super().__init__()
        self.original = original
        self.complex = _stored(original.mixing, original.spectrum) if stores_complex else None

    def forward(self, v: Tensor, transform: Any) -> Tensor:
        """(batch, P, *points, c) -> (batch, P, *points, c')."""
        spectrum = self.original.spectrum
        weights = complex_weights(self.original.mixing, spectrum) if self.complex is None else self.complex
        return literal_fourier_operator(weights, v, spectrum)


class LiteralFourierValue(LiteralFourierOperator):
    """The same, and W_MultiHead at the points: attention to the one patch there is."""

    original: FourierValue

    def forward(self, v: Tensor, measure: Any, source: Tensor | None = None) -> Tensor:
        """(batch, 1, *points, c) -> the same."""
        return self.original.merge(super().forward(v, measure))


def literal_fourier_operator(weights: Tensor, v: Tensor, spectrum: Spectrum) -> Tensor:
    """F^-1(R . F v) by FFTs over the points of each patch, v (batch, P, *points, c) (equation frequency_comp).

    With the extension each patch is continued by its mirror image along every axis, which is cut off again; the mirror
    stands half a cell beyond the last point, where that of a patch of cells is.
    """
    axes = tuple(range(2, v.ndim - 1))
    points = v.shape[2:-1]
    if isinstance(spectrum.basis, ExtendedFourier):
        for axis in axes:
            v = torch.cat([v, v.flip(axis)], axis)
    sizes = v.shape[2:-1]
    transformed = torch.fft.rfftn(v, dim=axes, norm="forward")
    kept, slots = _bins(spectrum.n_modes, sizes)
    flat = transformed.flatten(2, -2)
    product_ = torch.einsum("bpkc,kcd->bpkd", flat[:, :, slots.to(v.device)], weights[kept.to(v.device)])
    result = flat.new_zeros(*flat.shape[:3], weights.shape[-1])
    result[:, :, slots.to(v.device)] = product_
    back = torch.fft.irfftn(result.unflatten(2, transformed.shape[2:-1]), s=sizes, dim=axes, norm="forward")
    return back[(slice(None), slice(None), *(slice(n) for n in points))]


def complex_weights(mixing: Mixing, spectrum: Spectrum) -> Tensor:
    """R(k) for -m < k_j < m, of the last axis 0 <= k_d < m, in the order of `_wave_numbers`: (bins, c, c')."""
    if not isinstance(spectrum.basis, Fourier | ExtendedFourier):
        raise UsageError("the literal form is about Fourier modes; use the Fourier basis")
    known = {k: number for number, k in enumerate(make_modes(spectrum.basis, spectrum.n_modes).wave_numbers)}
    # R(0) is real; then come real and imaginary parts by turns.
    matrices = mixing.matrices()
    real = torch.cat([matrices[:1], matrices[1::2]])
    imaginary = torch.cat([torch.zeros_like(matrices[:1]), matrices[2::2]])
    chosen, signs = [], []
    for k in _wave_numbers(spectrum.n_modes):
        opposite = tuple(-kj for kj in k)
        chosen.append(known[k] if k in known else known[opposite])
        signs.append(1.0 if k in known else -1.0)
    sign = torch.tensor(signs, dtype=imaginary.dtype, device=imaginary.device)[:, None, None]
    return torch.complex(real[chosen], imaginary[chosen] * sign)


def _attend(query: Tensor, key: Tensor, value: Tensor, n_heads: int) -> Tensor:
    shape = value.shape
    query, key, value = (t.unflatten(-1, (n_heads, -1)).flatten(2, -3) for t in (query, key, value))
    count, points = query.shape[1:3]
    scores = torch.einsum("bpmhd,bqmhd->bhpq", query, key) / (count * points)
    average = torch.einsum("bhpq,bqmhd->bpmhd", torch.softmax(scores, -1), value)
    return average.reshape(shape)


def _wave_numbers(n_modes: tuple[int, ...]) -> list[tuple[int, ...]]:
    ranges = [range(-m + 1, m) for m in n_modes[:-1]] + [range(n_modes[-1])]
    return list(product(*ranges))


def _bins(n_modes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Which wave numbers a grid resolves, and their places in the flattened output of rfftn."""
    kept, slots = [], []
    for number, k in enumerate(_wave_numbers(n_modes)):
        if any(2 * abs(kj) >= n for kj, n in zip(k, sizes, strict=True)):
            continue
        slot = 0
        for kj, n in zip(k[:-1], sizes[:-1], strict=True):
            slot = slot * n + kj % n
        kept.append(number)
        slots.append(slot * (sizes[-1] // 2 + 1) + k[-1])
    return torch.tensor(kept), torch.tensor(slots)


def _stored(mixing: Mixing, spectrum: Spectrum) -> nn.Parameter:
    return nn.Parameter(complex_weights(mixing, spectrum).detach())
