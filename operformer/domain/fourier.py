"""Complex Fourier modes from real coefficients (Definition FourierIntegralOperator_final).

Analysis axis by axis gives products of cosines and sines. A translation-invariant operator acts on pairs
cos(2 pi k . x), sin(2 pi k . x), k in Z^d. Each is a sum of 2^(d-1) products: cos(a + b) = cos a cos b - sin a sin b.
For real functions one of k and -k is enough, so there are (2 m - 1)^d real coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod, sqrt
from typing import Any

import torch
from torch import Tensor

from operformer.domain.basis import Basis


@dataclass(frozen=True, eq=False)
class Modes:
    """The E functions that an integral operator acts on, one by one or as pairs (cos, sin) of a wave number.

    The first ``n_single`` functions stand alone: k = 0, or all of a real basis. The pairs follow, cosine first. Each
    function is a signed sum of products of one-dimensional functions. The map between their coefficients is an
    isometry, so its adjoint is its inverse: a signed sum for each product.
    """

    wave_numbers: tuple[tuple[int, ...], ...]  # of the singles, then of the pairs
    n_single: int
    terms: Tensor  # (E, r), which products
    signs: Tensor
    adjoint_terms: Tensor  # (products, r), which functions
    adjoint_signs: Tensor

    @property
    def count(self) -> int:
        """E, the number of functions: (2 m - 1)^d for Fourier's basis."""
        return len(self.terms)


@cache
def make_modes(basis: Basis, n_modes: tuple[int, ...]) -> Modes:
    """The functions of a basis with these numbers of modes; cached, so on the CPU whatever the default device is."""
    if not basis.has_pairs:
        terms = torch.arange(prod(n_modes), device="cpu").unsqueeze(-1)
        signs = torch.ones_like(terms, dtype=torch.float64)
        return Modes(tuple(product(*map(range, n_modes))), len(terms), terms, signs, terms, signs)
    wave_numbers, entries = [], []
    for k in product(*map(range, n_modes)):
        moving = [j for j, kj in enumerate(k) if kj]
        # The signs that make different waves of |k|, one of each pair of opposite ones.
        for direction in product(*((1, -1) if j in moving[1:] else (1,) for j in range(len(k)))):
            wave_numbers.append(tuple(s * kj for s, kj in zip(direction, k, strict=True)))
            entries.append(_expansion(k, direction, n_modes, is_sine=False))
            if any(k):
                entries.append(_expansion(k, direction, n_modes, is_sine=True))
    adjoint: list[list[tuple[int, float]]] = [[] for _ in range(prod(2 * m for m in n_modes))]
    for number, entry in enumerate(entries):
        for index, sign in entry:
            adjoint[index].append((number, sign))
    return Modes(tuple(wave_numbers), 1, *_table(entries), *_table(adjoint))


def signed_sums(source: Tensor, terms: Tensor, signs: Tensor, back: Tensor, back_signs: Tensor) -> Tensor:
    """sum_r signs[:, r] source[terms[:, r]]: (n, rows, c) -> (len(terms), rows, c); ``back`` is the adjoint's table."""
    # Compilers refuse functions with a jvp of their own, and ask for none.
    summed = _Gathered if torch.compiler.is_compiling() else _SignedSum
    return summed.apply(source, terms, signs, back, back_signs)


class _Gathered(torch.autograd.Function):
    """`_signed_sum` with a gradient that gathers by the adjoint table; torch's own would scatter."""

    @staticmethod
    def forward(source: Tensor, terms: Tensor, signs: Tensor, back: Tensor, back_signs: Tensor) -> Tensor:
        return _signed_sum(source, terms, signs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        terms, signs, back, back_signs = ctx.saved_tensors
        return signed_sums(gradient, back, back_signs, terms, signs), None, None, None, None


class _SignedSum(_Gathered):
    """The same for torch.func's transforms: with forward derivatives, and a rule of vmap that torch makes."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:])

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        return signed_sums(tangent, *ctx.saved_tensors)


def _signed_sum(source: Tensor, terms: Tensor, signs: Tensor) -> Tensor:
    """sum_r signs[:, r] source[terms[:, r]]: (n, rows, c) -> (len(terms), rows, c)."""
    terms, signs = terms.to(source.device), signs.to(source)
    total = source.index_select(0, terms[:, 0]) * signs[:, 0, None, None]
    for r in range(1, terms.shape[1]):
        total = torch.addcmul(total, source.index_select(0, terms[:, r]), signs[:, r, None, None])
    return total


def _table(sums: list[list[tuple[int, float]]]) -> tuple[Tensor, Tensor]:
    """Indices and signs as tensors, short sums padded with zeros."""
    longest = max(map(len, sums))
    padded = [[*terms, *[(0, 0.0)] * (longest - len(terms))] for terms in sums]
    indices = torch.tensor([[index for index, _ in terms] for terms in padded], device="cpu")
    return indices, torch.tensor([[sign for _, sign in terms] for terms in padded], dtype=torch.float64, device="cpu")


def _expansion(
    k: tuple[int, ...], direction: tuple[int, ...], n_modes: tuple[int, ...], is_sine: bool
) -> list[tuple[int, float]]:
    """cos or sin of sum_j s_j a_j as a sum over products of cos a_j and sin a_j: flat indices and factors.

    exp(i sum_j s_j a_j) = prod_j (cos a_j + i s_j sin a_j): a product with n sines has the factor i^n prod s_j.
    """
    norm = 1 / sqrt(2 ** max(sum(kj > 0 for kj in k) - 1, 0))
    entries: list[tuple[int, float]] = []
    for sines in product((0, 1), repeat=len(k)):
        if sum(sines) % 2 != int(is_sine) or any(b and not kj for b, kj in zip(sines, k, strict=True)):
            continue  # the other part, or sin 0
        sign = (-1.0) ** (sum(sines) // 2) * prod(s for s, b in zip(direction, sines, strict=True) if b)
        index = 0
        for kj, b, m in zip(k, sines, n_modes, strict=True):
            index = index * 2 * m + 2 * kj + b
        entries.append((index, sign * norm))
    return entries
