"""Attention between patches, pointwise and in coefficient space (Section 3, Definitions patch_attention, d:9, d:10)."""

# DESIGN.md: FANO computes with coefficients
# DESIGN.md: Blended functions live on D

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from operformer.domain.blended_reading import BlendedTranslates
from operformer.domain.blending import AnyCover, AnyTransform, Cover, transform_on
from operformer.domain.dilation import Dilation, make_dilation
from operformer.domain.patches import TensorPatches
from operformer.domain.reading import Translates
from operformer.operators.attention import check_heads
from operformer.operators.integral import ModeTables, Spectrum, make_mixing


def patched_attention(
    query: Tensor, key: Tensor, value: Tensor, weights: Tensor, is_present: Tensor | None = None
) -> Tensor:
    """E_{k ~ q(.; u, v, j)}[V v(k)], q(k) ~ exp <Q u(j), K v(k)>_{L2(D')} (Definitions patch_attention and d:10).

    Functions on patches: query (..., P, M, d_k), key (..., O, M, d_k), value (..., O, M, d_v) -> (..., P, M, d_v). The
    inner product is the quadrature with ``weights`` (M,), the volumes of the cells. Patches that are not ``is_present``
    (O,) are not attended to.
    """
    scores = patch_scores(query, key, weights)
    return average_patches(scores, value.flatten(-2), is_present).unflatten(-1, value.shape[-2:])


def patch_scores(query: Tensor, key: Tensor, weights: Tensor) -> Tensor:
    """<Q u(j), K v(k)>_{L2(D')}: functions on patches (..., P, M, d_k) and (..., O, M, d_k) -> (..., P, O)."""
    return (query * weights.to(query).unsqueeze(-1)).flatten(-2) @ key.flatten(-2).transpose(-1, -2)


def average_patches(scores: Tensor, value: Tensor, is_present: Tensor | None) -> Tensor:
    """sum_k p(k) V v(k) with p = softmax of the scores: (..., P, O), (..., O, n) -> (..., P, n).

    Patches are few and functions on them long, so the scores are kept: fused kernels are for the opposite case.
    """
    if is_present is not None:
        scores = scores.masked_fill(~is_present.to(scores.device), -torch.inf)
    return torch.softmax(scores, -1) @ value


@dataclass(frozen=True, eq=False)
class CommonPoints:
    """What pointwise patched attention knows of the grid: the weights (M,) of the points that all patches have."""

    weights: Tensor  # they sum to |D'|, D scaled to the unit cube
    volume: float  # |D'|
    has_equal_weights: bool
    dilation: Dilation | None = None  # where patches overlap: functions are kept on D between attentions

    def cut(self, v: Tensor) -> Tensor:
        """v on patches (batch, P, *points, c), of v on D where they overlap."""
        return v if self.dilation is None else self.dilation.cut(v)

    def blend(self, f: Tensor) -> Tensor:
        """sum_j chi_j f_j on D where patches overlap, else the functions themselves."""
        return f if self.dilation is None else self.dilation.blend(f)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What attention in coefficient space knows of the grid: how to get there, |D'|, and which patches hold points."""

    transform: AnyTransform
    volume: float  # D scaled to the unit cube
    is_present: Tensor | None


def rounded(t: Tensor, dtype: torch.dtype | None) -> Tensor:
    """t with the digits of another format, in its own; see `set_precision`."""
    return t if dtype is None else t.to(dtype).to(t.dtype)


class PatchedAttention(nn.Module):
    """Multi-head patched attention with pointwise Q, K, V (Section 4.3): v is (batch, P, *points, c).

    Where patches overlap v is (batch, *shape, c), on D, and so is what is returned, blended.
    """

    def __init__(self, channels: int, n_heads: int) -> None:
        super().__init__()
        check_heads(channels, n_heads)
        self.n_heads = n_heads
        self.average_dtype: torch.dtype | None = None
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.merge = nn.Linear(channels, channels)

    def on(self, patches: TensorPatches | Cover, like: Tensor) -> CommonPoints:
        """What it needs of a partition whose patches have the same points, in the dtype and on the device of ``like``.

        The weights of a patch sum to |D'|, D scaled to the unit cube.
        """
        if isinstance(patches, Cover):
            made = make_dilation(patches, like)
            return CommonPoints(patches.volume * made.weights, patches.volume, made.has_equal_weights, made)
        weights = patches.axes[0].weights[0]
        for axis in patches.axes[1:]:
            weights = (weights.unsqueeze(-1) * axis.weights[0]).flatten()
        volume = 1 / prod(patches.n_patches)
        return CommonPoints((volume * weights).to(like), volume, patches.is_even)

    def forward(self, v: Tensor, measure: CommonPoints, source: Tensor | None = None) -> Tensor:
        """Attention of the patches of v to each other, or to those of ``source``, on points they have in common."""
        source = v if source is None else source
        return self.read(self.summary(v, measure, source), source, measure)

    def summary(self, v: Tensor, measure: CommonPoints, source: Tensor | None = None) -> Tensor:
        """The scores of patches with each other (batch, heads, P, O), which is all that integrals over them tell."""
        query, key = self.query(v), self.key(v if source is None else source)
        query, key = (self._split(measure.cut(rounded(t, self.average_dtype))) for t in (query, key))
        return patch_scores(query, key, measure.weights)

    def read(self, scores: Tensor, v: Tensor, measure: CommonPoints | Translates) -> Tensor:
        """What v gets from patches with these scores, at points that they have in common: v and the same."""
        value = rounded(self.value(v), self.average_dtype)
        if isinstance(measure, BlendedTranslates):
            parts = [
                chi.to(v) * self._average(scores[..., measure.rows(shift, v.device), :], measure.moved(value, shift))
                for shift, chi in measure.shifts
            ]
            return self.merge(sum(parts[1:], parts[0]))
        if isinstance(measure, Translates):
            return self.merge(self._average(scores, value))
        return self.merge(measure.blend(self._average(scores, measure.cut(value))))

    def _average(self, scores: Tensor, value: Tensor) -> Tensor:
        """sum_k p(k) V v(k): (batch, heads, P, O), (batch, O, *points, c) -> (batch, P, *points, c)."""
        split = self._split(value)
        average = average_patches(scores, split.flatten(-2), None).unflatten(-1, split.shape[-2:])
        return average.permute(0, 2, 3, 1, 4).flatten(-2).unflatten(2, value.shape[2:-1])

    def _split(self, t: Tensor) -> Tensor:
        """(batch, P, *points, c) -> (batch, heads, P, M, d_k)."""
        return t.flatten(2, -2).unflatten(-1, (self.n_heads, -1)).permute(0, 3, 1, 2, 4)


class SpectralMap(nn.Module):
    """W V, V a Fourier integral operator on each patch and W a matrix at each point: a layer without attention.

    W commutes with synthesis, so it acts on the coefficients that V makes, the kept modes alone.
    """

    def __init__(self, channels: int, spectrum: Spectrum, maps: int = 1) -> None:
        super().__init__()
        self.spectrum = spectrum
        self.modes = ModeTables(spectrum)
        self.mixing = make_mixing(spectrum, channels, maps * channels)
        self.merge = nn.Linear(channels, channels)

    def on(self, patches: AnyCover, like: Tensor, by_least_squares: bool = False) -> Coefficients:
        """What it needs of a partition, in the dtype and on the device of ``like``."""
        transform = transform_on(patches, self.spectrum.basis, self.spectrum.n_modes, like, by_least_squares)
        return Coefficients(transform, patches.volume, patches.is_present)

    def forward(self, v: Tensor, measure: Coefficients, source: Tensor | None = None) -> Tensor:
        """What the patches of v (batch, P, *points, c) get from each other, or from those of ``source``.

        Where patches overlap v is (batch, *shape, c), on D, and so is what they get, blended.
        """
        return self.read(self.summary(v, measure, source), v, measure)

    def summary(self, v: Tensor, measure: Coefficients, source: Tensor | None = None) -> Tensor:
        """The coefficients of what each patch gets: (batch, P, sizes, c)."""
        merged = self.average(v, measure, source) @ self.merge.weight.T
        # A constant is the first function, at a fraction of the points' cost.
        merged[0] += self.merge.bias * self.spectrum.basis.one ** len(self.spectrum.n_modes)
        return self.modes.scatter(merged).unflatten(0, (v.shape[0], -1))

    def read(self, coefficients: Tensor, v: Tensor, measure: Coefficients) -> Tensor:
        """The function with these coefficients, at the points of ``measure``."""
        return measure.transform.synthesise(coefficients)

    def average(self, v: Tensor, measure: Coefficients, source: Tensor | None) -> Tensor:
        """Coefficients (E, batch P, c) of what is merged."""
        return self.mixed(v if source is None else source, measure.transform)

    def mixed(self, v: Tensor, transform: AnyTransform) -> Tensor:
        """Coefficients of all maps of v, one behind the other: (E, batch P, maps c)."""
        return self.mixing(self.modes.gather(transform.analyse(v).flatten(0, 1)))


class FourierAttention(SpectralMap):
    """Multi-head patched attention whose Q, K, V are Fourier integral operators (Section 4.4), in coefficient space.

    Q, K and V see and make only the kept modes; the inner product of L2(D') is a dot product of coefficients
    (Parseval); the average of V commutes with synthesis, too. So one analysis, one mixing for each mode, attention
    between coefficients, one synthesis: the same function as three transforms back and forth, and scores without a
    resolution.
    """

    def __init__(self, channels: int, n_heads: int, spectrum: Spectrum) -> None:
        check_heads(channels, n_heads)
        super().__init__(channels, spectrum, maps=3)
        self.n_heads = n_heads
        self.average_dtype: torch.dtype | None = None

    def average(self, v: Tensor, measure: Coefficients, source: Tensor | None) -> Tensor:
        """Coefficients (E, batch P, c) of the averages of all heads."""
        transform, modes, batch = measure.transform, self.modes, v.shape[0]
        query, key, value = self.mixed(v, transform).chunk(3, -1)
        if source is not None:
            key, value = self.mixed(source, transform).chunk(3, -1)[1:]
        if not self.spectrum.basis.is_orthonormal:
            weighed = transform.weigh(modes.scatter(key).unflatten(0, (batch, -1)))
            key = modes.gather(weighed.flatten(0, 1))
        query, key, value = (self._split(t, batch) for t in (query, key, value))
        scores = measure.volume * (query @ key.transpose(-1, -2))
        average = average_patches(scores, value, measure.is_present)
        entries = average.unflatten(-1, (modes.count, -1)).permute(3, 0, 2, 1, 4)
        return entries.flatten(1, 2).flatten(2)

    def _split(self, entries: Tensor, batch: int) -> Tensor:
        """(E, batch P, c) -> (batch, heads, P, E d_k)."""
        entries = rounded(entries, self.average_dtype)
        split = entries.unflatten(1, (batch, -1)).unflatten(-1, (self.n_heads, -1))
        return split.permute(1, 3, 2, 0, 4).flatten(3)
