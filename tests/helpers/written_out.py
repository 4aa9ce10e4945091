"""The definitions, written out: what the fast forms are compared with, in tests and in benchmarks.

They are slow and hold everything in memory; every sum is visible (Section 2, Appendix B).
"""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import softshrink

from operformer.domain import Grid
from operformer.domain.basis import ExtendedFourier, Fourier
from operformer.domain.fourier import make_modes
from operformer.domain.patches import Patches
from operformer.errors import UsageError
from operformer.operators.baselines.afno import AFNO, SpectralMLP
from operformer.operators.baselines.fno import FNO
from operformer.operators.baselines.uniform import check_uniform, with_coordinates
from operformer.operators.fano import FANO
from operformer.operators.integral import FourierIntegralOperator, Mixing, Spectrum
from operformer.operators.patched_attention import FourierAttention, PatchedAttention, SpectralMap
from operformer.operators.spectral import SpectralOperator
from operformer.operators.vitno import ViTNO

# The definitions, written out (Section 2, Appendix B.1): float64, no fused kernels, every sum visible.


def literal_attention(
    query: Tensor, key: Tensor, value: Tensor, weights: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """sum_j w_j exp(scale <q_i, k_j>) v_j / sum_j w_j exp(scale <q_i, k_j>), in float64 (Definitions 1-8)."""
    query, key, value = query.double(), key.double(), value.double()
    scores = scale * torch.einsum("...ic,...jc->...ij", query, key)
    if weights is not None:
        scores = scores.masked_fill(weights.unsqueeze(-2) == 0, -torch.inf)
    # Dividing both sums by the same number keeps exp from overflowing and changes nothing.
    density = torch.exp(scores - scores.amax(-1, keepdim=True))
    if weights is not None:
        density = density * weights.double().unsqueeze(-2)
    return torch.einsum("...ij,...jc->...ic", density, value) / density.sum(-1, keepdim=True)


def literal_trapezoidal_attention(query: Tensor, key: Tensor, value: Tensor, x: Tensor) -> Tensor:
    """The trapezoidal sums of equations (riemann_expect) and (riemann_p) on sorted points x of an interval.

    One Python sum per point, as the paper writes it: query (n, d_k), key (n, d_k), value (n, d_v) -> (n, d_v).
    """
    query, key, value, x = query.double(), key.double(), value.double(), x.double()
    rows = []
    for j in range(len(x)):
        density = torch.exp(key @ query[j])
        normaliser = torch.zeros((), dtype=torch.float64)
        average = torch.zeros(value.shape[-1], dtype=torch.float64)
        for k in range(1, len(x)):
            step = x[k] - x[k - 1]
            normaliser = normaliser + 0.5 * (density[k] + density[k - 1]) * step
            average = average + 0.5 * (value[k] * density[k] + value[k - 1] * density[k - 1]) * step
        rows.append(average / normaliser)
    return torch.stack(rows)


# kernels/mending.py in plain operations, all scores of S at once: for comparisons, and where there is no GPU.


def take_away(
    query: Tensor, key: Tensor, value: Tensor, log_missing: Tensor, every: Tensor, every_sum: Tensor, most: float,
    scale: float, wide: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """L = L_0 + log(1 - r) and o = o_0 / (1 - r) - o_S r / (1 - r), r = e^{L_S - L_0} <= ``most``."""
    exact = every_sum.dtype
    scores = scale * (query.to(exact) @ key.to(exact).mT) + log_missing.to(exact)
    few = torch.softmax(scores, -1) @ value.to(exact)
    ratio = (scores.logsumexp(-1) - every_sum).exp().clamp(max=most)
    share = (ratio / (1 - ratio)).unsqueeze(-1)
    out = every.to(exact) * (1 + share) - few * share
    return out if wide else out.to(query.dtype), every_sum + torch.log1p(-ratio)


def take_gradients_away(
    d_out: Tensor, query: Tensor, key: Tensor, value: Tensor, log_missing: Tensor, out: Tensor, total: Tensor,
    d_query: Tensor, points: int, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """dk and dv of S, and ds k less in ``d_query``: p = (1 - w) e^{s - L}, ds = scale p (<do, v> - <do, o>)."""
    exact = total.dtype
    q, k, v, g = (t.to(exact) for t in (query, key, value, d_out))
    p = (scale * (q @ k.mT) + log_missing.to(exact) - total.unsqueeze(-1)).exp()
    ds = scale * p * (g @ v.mT - (g * out.to(exact)).sum(-1, keepdim=True))
    d_query.copy_(d_query.to(exact) - ds @ k)
    return (ds.mT @ q).to(key.dtype), (p.mT @ g).to(value.dtype)


# ViTNO and FANO as Appendix B.2 and B.3 write them: FFTs on patches, three transforms, scores over points.


def as_literal(
    operator: FANO | SpectralOperator | ViTNO, stores_complex: bool = False
) -> FANO | SpectralOperator | ViTNO:
    """A copy of the operator with the attention, and the lift of a ViTNO, as the paper writes them.

    With ``stores_complex`` the copy has complex weights of its own, as the authors' code does; otherwise they are made
    from the real ones at every call, so that gradients can be compared.
    """
    literal = deepcopy(operator)
    for layer in literal.layers:
        attention = layer.attention
        if operator.overlap.margin:
            layer.attention = LiteralBlendedAttention(attention)
        elif isinstance(attention, FourierAttention):
            layer.attention = LiteralFourierAttention(attention, stores_complex)
        elif isinstance(attention, SpectralMap):
            layer.attention = LiteralSpectralMap(attention, stores_complex)
        elif isinstance(attention, PatchedAttention):
            layer.attention = LiteralPatchedAttention(attention)
    if isinstance(literal, ViTNO) and operator.overlap.margin:
        literal.lift = LiteralBlendedLift(literal.lift, literal.layers[0].attention)  # type: ignore[assignment]
    elif isinstance(literal, ViTNO):
        literal.lift = LiteralFourierOperator(literal.lift, stores_complex)  # type: ignore[assignment]
    return literal


class LiteralFourierAttention(nn.Module):
    """Q, K, V by three transforms forth and back, scores and averages over points (equation QKV_operator_implement)."""

    def __init__(self, original: FourierAttention, stores_complex: bool) -> None:
        super().__init__()
        self.original = original
        self.complex = _stored(original.mixing, original.spectrum) if stores_complex else None

    def on(self, patches: Patches, like: Tensor) -> Any:
        """What the original needs of a partition."""
        return self.original.on(patches, like)

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

    def on(self, patches: Patches, like: Tensor) -> Any:
        """What the original needs of a partition."""
        return self.original.on(patches, like)

    def forward(self, v: Tensor, measure: Any, source: Tensor | None = None) -> Tensor:
        """Attention of the patches of v (batch, P, *points, c) to each other."""
        query, key, value = self.original.query(v), self.original.key(v), self.original.value(v)
        return self.original.merge(_attend(query, key, value, self.original.n_heads))


class LiteralFourierOperator(nn.Module):
    """F^-1(R . F v) by FFTs (equation int_discrete)."""

    def __init__(self, original: FourierIntegralOperator | SpectralMap, stores_complex: bool) -> None:
        super().__init__()
        self.original = original
        self.complex = _stored(original.mixing, original.spectrum) if stores_complex else None

    def forward(self, v: Tensor, transform: Any) -> Tensor:
        """(batch, P, *points, c) -> (batch, P, *points, c')."""
        spectrum = self.original.spectrum
        weights = complex_weights(self.original.mixing, spectrum) if self.complex is None else self.complex
        return literal_fourier_operator(weights, v, spectrum)


class LiteralSpectralMap(LiteralFourierOperator):
    """The same, and W_MultiHead at the points: attention to the one patch there is."""

    original: SpectralMap

    def on(self, patches: Patches, like: Tensor) -> Any:
        """What the original needs of a partition."""
        return self.original.on(patches, like)

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


# Blended patches: loops over dilated patches, continuation by index, windows, sums. They need uniform grids on which
# the margin is a whole number of spacings.


def dilated_axis(n: int, count: int, margin: float, kind: str, continuation: str) -> list[list[tuple[Any, ...]]]:
    """Of each dilated patch along an axis: (indices of the value, place in [0, 1], weight, index to write to, chi)."""
    spacings = (n - 1 if kind == "nodes" else n) // count  # of a patch
    reach = round(margin * spacings) if count > 1 else 0
    assert count == 1 or abs(reach - margin * spacings) < 1e-9
    is_cells = kind == "cells"
    patches = []
    for j in range(count):
        start, stop = j * spacings - reach, (j + 1) * spacings + reach
        entries = []
        for i in range(start, stop if is_cells else stop + 1):
            place = (i - start + 0.5 * is_cells) / (stop - start)
            weight = (1.0 if is_cells or start < i < stop else 0.5) / (stop - start)
            x = (i + 0.5 * is_cells) / spacings
            chi = 1.0
            if j > 0 or (continuation == "periodic" and count > 1):
                chi *= quintic((x - (j - margin)) / (2 * margin))
            if j < count - 1 or (continuation == "periodic" and count > 1):
                chi *= quintic((j + 1 + margin - x) / (2 * margin))
            last = n if is_cells else n - 1  # of the ends, where x = count
            if continuation == "even" or count == 1:
                mirrored = -i - is_cells if i < 0 else 2 * last - i - is_cells if i > last - is_cells else i
                entries.append(((mirrored,), place, weight, i if mirrored == i else None, chi))
            elif kind == "nodes":  # both ends are the same point
                at = i % (n - 1)
                entries.append(((at,) if at else (0, n - 1), place, weight, at, chi))
            else:
                entries.append(((i % n,), place, weight, i % n, chi))
        patches.append(entries)
    return patches


def quintic(s: float) -> float:
    """The step s^3 (10 - 15 s + 6 s^2) from 0 to 1."""
    s = min(max(s, 0.0), 1.0)
    return 10 * s**3 - 15 * s**4 + 6 * s**5


class LiteralBlendedAttention(nn.Module):
    """sum_j chi_j A(v)(j), v (batch, *shape, c) cut into functions on dilated patches and these compared by sums."""

    def __init__(self, original: FourierAttention | PatchedAttention) -> None:
        super().__init__()
        self.original = original
        self.cover: Any = None

    def on(self, cover: Any, like: Tensor) -> Any:
        """The cover itself."""
        self.cover = cover
        return cover

    def forward(self, v: Tensor, cover: Any, source: Tensor | None = None) -> Tensor:
        """Attention of the dilated patches of v to each other, blended."""
        patches = literal_patches(cover)
        volume = 1.0
        for count in cover.n_patches:
            volume *= (1 + 2 * cover.overlap.margin) / count if count > 1 else 1.0
        parts = [self._parts(literal_cut(v, patch), patch) for patch in patches]
        heads, out = self.original.n_heads, []
        for query, _, _ in parts:
            scores = [
                volume * (literal_weights(patch) * query.unflatten(-1, (heads, -1)) * key.unflatten(-1, (heads, -1)))
                .flatten(1, -3).sum((1, 3))
                for patch, (_, key, _) in zip(patches, parts, strict=True)
            ]  # fmt: skip
            shares = torch.softmax(torch.stack(scores), 0)
            average: Any = 0
            for share, (_, _, value) in zip(shares, parts, strict=True):
                share = share.reshape(len(v), *[1] * (query.ndim - 2), heads, 1)
                average = average + (share * value.unflatten(-1, (heads, -1))).flatten(-2)
            out.append(self.original.merge(average))
        return literal_blend(out, patches, v.shape, cover)

    def _parts(self, values: Tensor, patch: Any) -> list[Tensor]:
        if isinstance(self.original, PatchedAttention):
            return [part(values) for part in (self.original.query, self.original.key, self.original.value)]
        return list(literal_integral_operator(self.original, values, patch).chunk(3, -1))


class LiteralBlendedLift(nn.Module):
    """sum_j chi_j W u|D_j^+, W the Fourier integral operator; the cover is that of the first attention."""

    def __init__(self, original: FourierIntegralOperator, attention: LiteralBlendedAttention) -> None:
        super().__init__()
        self.original, self.attention = original, [attention]  # not a module of its own

    def forward(self, v: Tensor, transform: Any) -> Tensor:
        """(batch, *shape, c) -> (batch, *shape, c')."""
        cover = self.attention[0].cover
        patches = literal_patches(cover)
        lifted = [literal_integral_operator(self.original, literal_cut(v, patch), patch) for patch in patches]
        return literal_blend(lifted, patches, v.shape, cover)


def literal_patches(cover: Any) -> list[Any]:
    """All dilated patches: for each of them the entries of `dilated_axis` along all axes."""
    grid, overlap = cover.grid, cover.overlap
    axes = [
        dilated_axis(n, count, overlap.margin, grid.kind, overlap.continuation)
        for n, count in zip(grid.shape, cover.n_patches, strict=True)
    ]
    return list(product(*axes))


def literal_cut(v: Tensor, patch: Any) -> Tensor:
    """v on one dilated patch: (batch, *shape, c) -> (batch, *points, c)."""
    for k, entries in enumerate(patch):
        v = torch.stack([sum(v.select(1 + k, i) for i in found) / len(found) for found, *_ in entries], 1 + k)
    return v


def literal_weights(patch: Any) -> Tensor:
    """Quadrature weights (*points, 1, 1) of one dilated patch, 1 in sum."""
    total = torch.ones((), dtype=torch.float64)
    for entries in patch:
        total = total.unsqueeze(-1) * torch.tensor([weight for _, _, weight, _, _ in entries], dtype=torch.float64)
    return total[..., None, None]


def literal_blend(functions: list[Tensor], patches: list[Any], shape: Any, cover: Any) -> Tensor:
    """sum_j chi_j F_j on D."""
    out = functions[0].new_zeros(*shape[:-1], functions[0].shape[-1])
    for function, patch in zip(functions, patches, strict=True):
        for local in product(*(range(len(entries)) for entries in patch)):
            places = [patch[k][i][3] for k, i in enumerate(local)]
            chi = 1.0
            for k, i in enumerate(local):
                chi *= patch[k][i][4]
            if None not in places and chi:
                out[(slice(None), *places)] += chi * function[(slice(None), *local)]
    if cover.grid.kind == "nodes" and cover.overlap.continuation == "periodic":
        for k, count in enumerate(cover.n_patches):
            if count > 1:
                out = torch.cat([out.narrow(1 + k, 0, shape[1 + k] - 1), out.narrow(1 + k, 0, 1)], 1 + k)
    return out


def literal_integral_operator(original: Any, values: Tensor, patch: Any) -> Tensor:
    """F^-1(R . F v) on one dilated patch (batch, *points, c): by FFTs, or by sums over cosines."""
    spectrum = original.spectrum
    if isinstance(spectrum.basis, Fourier | ExtendedFourier):
        weights = complex_weights(original.mixing, spectrum)
        return literal_fourier_operator(weights, values.unsqueeze(1), spectrum)[:, 0]
    matrices = original.mixing.matrices()
    out = values.new_zeros(*values.shape[:-1], matrices.shape[-1])
    for number, k in enumerate(product(*map(range, spectrum.n_modes))):
        function = torch.ones((), dtype=torch.float64)
        for kj, entries in zip(k, patch, strict=True):
            places = torch.tensor([place for _, place, *_ in entries], dtype=torch.float64)
            function = function.unsqueeze(-1) * (torch.cos(torch.pi * kj * places) * (2**0.5 if kj else 1.0))
        function = function.unsqueeze(-1)
        weighed = literal_weights(patch).squeeze(-1) * function
        coefficient = (weighed * values).flatten(1, -2).sum(1) @ matrices[number]
        out = out + function * coefficient.reshape(len(values), *[1] * len(k), -1)
    return out


# AFNO's mixing of modes in complex numbers, as it is written: what ours is compared with, in tests and benchmarks.


def as_literal_afno(operator: AFNO) -> AFNO:
    """A copy of the operator, with weights of the same names, that mixes modes literally."""
    literal = deepcopy(operator)
    for layer in literal.layers:
        layer.mixing.__class__ = LiteralSpectralMLP
    return literal


class LiteralSpectralMLP(SpectralMLP):
    """torch's own FFTs and complex products, in two dimensions; what irfft ignores at both ends is left to it."""

    def forward(self, v: Tensor) -> Tensor:
        """(batch, *shape, channels) -> the same."""
        spectrum = torch.fft.rfft2(v, dim=(1, 2), norm="ortho").unflatten(-1, self.bias_1.shape[1:])
        w1, b1, w2, b2 = (torch.complex(*t) for t in (self.weight_1, self.bias_1, self.weight_2, self.bias_2))
        inner = torch.einsum("...ki,kio->...ko", spectrum, w1) + b1
        inner = torch.complex(inner.real.relu(), inner.imag.relu())
        outer = torch.einsum("...ki,kio->...ko", inner, w2) + b2
        parts = (softshrink(part, self.threshold) for part in (outer.real, outer.imag))
        rows = torch.fft.ifft(torch.complex(*parts).flatten(-2), dim=1, norm="ortho")
        return v + torch.fft.irfft(rows, n=v.shape[2], dim=2, norm="ortho")


# FNO as neuraloperator computes it, by FFTs of all points: what ours is compared with, in tests and in benchmarks.


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
