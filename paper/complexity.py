"""Parameters and evaluation costs by the formulas of Appendix C (Tables parameter_complexity1 and evaluation_cost1).

The formulas count what scales. Real modules also have biases (of the lift, of Q, K, V where they are pointwise, of
W_MultiHead and of the head) and, for LayerNorm, a gain and a shift for each of two norms where the tables have
2 d_model for both: `bias_parameters` is the difference, line by line. Costs count a product and a sum as two
operations, leave out activations, softmax and norms, and take an FFT of N points as 5 N log2 N. The tables count one of
the two products of an attention (with the keys, with the values); a machine does both. `cost_fano_in_coefficients` is
what this library does in place of the table's FANO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log2, prod, sqrt


@dataclass(frozen=True)
class Setting:
    """What the formulas speak of: d_u, d_z, d, d_model and, for the patched operators, k_max and P."""

    in_channels: int
    out_channels: int
    dim: int
    hidden_channels: int = 128
    n_modes: tuple[int, ...] = ()
    n_patches: tuple[int, ...] = ()
    n_layers: int = 6

    @property
    def k_max(self) -> int:
        """|{k in Z^d: |k_j| < m_j}|."""
        return prod(2 * m - 1 for m in self.n_modes)

    @property
    def patches(self) -> int:
        """P."""
        return prod(self.n_patches)


def parameters_tno(s: Setting) -> int:
    """(d_u + d) d_model + d_model d_z + L (6 d_model^2 + 2 d_model)."""
    d = s.hidden_channels
    return (s.in_channels + s.dim) * d + d * s.out_channels + s.n_layers * (6 * d**2 + 2 * d)


def parameters_vitno(s: Setting) -> int:
    """(d_u + d) d_model k_max + d_model d_z + L (6 d_model^2 + 2 d_model)."""
    d = s.hidden_channels
    return (s.in_channels + s.dim) * d * s.k_max + d * s.out_channels + s.n_layers * (6 * d**2 + 2 * d)


def parameters_fano(s: Setting) -> int:
    """(d_u + d) d_model + d_model d_z + L (3 d_model^2 k_max + 3 d_model^2 + 2 d_model)."""
    d = s.hidden_channels
    layer = 3 * d**2 * s.k_max + 3 * d**2 + 2 * d
    return (s.in_channels + s.dim) * d + d * s.out_channels + s.n_layers * layer


def parameters_fno(s: Setting, d_fno: int = 128, n_layers: int = 4) -> int:
    """(d_u + d) d_FNO + 2 d_FNO d_model + d_FNO d_z + 4 (d_model^2 k_max + d_model^2).

    With complex weights counted once and the FFT's symmetry used, k_max is the product of the modes, the last of them
    halved: 12 x 7 for 12 modes.
    """
    d = s.hidden_channels
    k_max = prod((*s.n_modes[:-1], s.n_modes[-1] // 2 + 1))
    ends = (s.in_channels + s.dim) * d_fno + 2 * d_fno * d + d_fno * s.out_channels
    return ends + n_layers * (d**2 * k_max + d**2)


def parameters_afno(s: Setting, n_points: int, blocks: int = 8, n_layers: int = 4) -> int:
    """(d_u + d) d_model + N d_model + d_model d_z + 4 (8 + 4 / b) d_model^2."""
    d = s.hidden_channels
    ends = (s.in_channels + s.dim) * d + n_points * d + d * s.out_channels
    return ends + n_layers * (8 * d**2 + 4 * d**2 // blocks)


def bias_parameters(s: Setting, operator: str) -> int:
    """What TNO, ViTNO and FANO have beyond the formulas: biases, and the second gain and shift of LayerNorm.

    Biases of the lift (not of ViTNO's, an integral operator) and of the head; in each layer of Q, K, V (not of FANO's),
    W_MultiHead and the two feed-forward maps; 4 d_model for two LayerNorms where the tables have 2 d_model.
    """
    d = s.hidden_channels
    per_layer = {"TNO": 6 * d, "ViTNO": 6 * d, "FANO": 3 * d}[operator]
    lift = 0 if operator == "ViTNO" else d
    return lift + s.out_channels + s.n_layers * (per_layer + 2 * d)


def cost_tno(s: Setting, n_points: int) -> float:
    """2 N (d_u + d) d_model + 2 N d_model d_z + L (8 d_model^2 N + 2 N^2 d_model + 4 d_model^2 N)."""
    n, d = n_points, s.hidden_channels
    layer = 8 * d**2 * n + 2 * n**2 * d + 4 * d**2 * n
    return _pointwise_ends(s, n) + s.n_layers * layer


def cost_vitno(s: Setting, n_points: int) -> float:
    """(d_u + d + d_model) 15 N log(sqrt(N / P)) / 2 + P k_max d_model (2 (d_u + d) - 1) + 2 N d_model d_z + layers."""
    n, d, c = n_points, s.hidden_channels, s.in_channels + s.dim
    lift = (c + d) * 15 * n * log2(sqrt(n / s.patches)) / 2 + s.patches * s.k_max * d * (2 * c - 1)
    layer = 8 * d**2 * n + 2 * d * n * s.patches + 4 * d**2 * n
    return lift + 2 * n * d * s.out_channels + s.n_layers * layer


def cost_fano(s: Setting, n_points: int) -> float:
    """2 N (d_u + d) d_model + 2 N d_model d_z, and in each of L layers 45 d_model N log(sqrt(N / P)) +
    3 k_max P (2 d_model^2 - d_model) + 2 N d_model^2 + 2 d_model N P + 4 N d_model^2.
    """
    n, d = n_points, s.hidden_channels
    transforms = 45 * d * n * log2(sqrt(n / s.patches))
    mixing = 3 * s.k_max * s.patches * (2 * d**2 - d)
    layer = transforms + mixing + 2 * n * d**2 + 2 * d * n * s.patches + 4 * n * d**2
    return _pointwise_ends(s, n) + s.n_layers * layer


def cost_fano_in_coefficients(s: Setting, n_points: int) -> float:
    """The products of this library's FANO on even patches, where torch's own counter counts the same number.

    One analysis, one mixing, scores and averages of k_max numbers in place of N / P points, W_MultiHead on
    coefficients, one synthesis, the feed-forward map on points. A pair of wave numbers k and -k costs 8 d_model^2 for
    each of Q, K, V: a complex product in real numbers.
    """
    n, d, p = n_points, s.hidden_channels, s.patches
    local = (n / p) ** (1 / s.dim)
    forward = backward = 0.0
    for k, m in enumerate(s.n_modes):
        # The last axis goes first: `local` points become 2 m numbers, or the reverse, for what the others are then.
        before, after = s.n_modes[:k], s.n_modes[k + 1 :]
        product = 2 * (2 * m) * local * d
        forward += product * local ** len(before) * prod(2 * j for j in after)
        backward += product * prod(2 * j for j in before) * local ** len(after)
    mixing = 3 * p * (2 * d**2 + (s.k_max - 1) / 2 * 8 * d**2)
    attention = 2 * 2 * p**2 * s.k_max * d
    merge = 2 * p * s.k_max * d**2
    layer = p * (forward + backward) + mixing + attention + merge + 4 * n * d**2
    return _pointwise_ends(s, n) + s.n_layers * layer


def cost_fno(s: Setting, n_points: int, d_fno: int = 128, n_layers: int = 4) -> float:
    """2 N (d_u + d + 2 d_model) d_FNO + 2 N d_FNO d_z, and in each of 4 layers 15 d_model N log(sqrt(N)) +
    k_max (2 d_model^2 - d_model) + 2 N d_model^2.
    """
    n, d = n_points, s.hidden_channels
    k_max = prod((*s.n_modes[:-1], s.n_modes[-1] // 2 + 1))
    ends = 2 * n * (s.in_channels + s.dim + 2 * d) * d_fno + 2 * n * d_fno * s.out_channels
    return ends + n_layers * (15 * d * n * log2(sqrt(n)) + k_max * (2 * d**2 - d) + 2 * n * d**2)


def cost_afno(s: Setting, n_points: int, blocks: int = 8, n_layers: int = 4) -> float:
    """2 N (d_u + d) d_model + 2 N d_model d_z, and in each of 4 layers 16 N d_model^2 + 15 N d_model log(sqrt(N)) +
    6 N (2 d_model^2 / b - d_model).
    """
    # Paper: the first term of a layer is printed without its N, which the scaling in Table evaluation_cost has.
    n, d = n_points, s.hidden_channels
    layer = 16 * d**2 * n + 15 * n * d * log2(sqrt(n)) + 6 * n * (2 * d**2 / blocks - d)
    return _pointwise_ends(s, n) + n_layers * layer


def _pointwise_ends(s: Setting, n: int) -> int:
    return 2 * n * (s.in_channels + s.dim) * s.hidden_channels + 2 * n * s.hidden_channels * s.out_channels


@dataclass(frozen=True)
class Complexity:
    """A row of Tables evaluation_cost, evaluation_cost1 and parameter_complexity1, in words and as functions.

    In the paper's letters: N points in P patches, k_max Fourier modes, d_FNO = 128, b = 8; d is d_model, c is d_u + d.
    The dimension of the domain, the paper's d, is only seen inside c here.
    """

    scaling: str
    cost: str
    parameters: str
    count_operations: Callable[[Setting, int], float]
    count_parameters: Callable[[Setting, int], int]  # of N points, which AFNO's depend on


COMPLEXITY: Mapping[str, Complexity] = {
    "FNO": Complexity(
        "d N log √N + N d²",
        "2 N (c + 2 d) d_FNO + 2 N d_FNO d_z + 4 (15 d N log √N + k_max (2 d² - d) + 2 N d²)",
        "c d_FNO + 2 d_FNO d + d_FNO d_z + 4 (d² k_max + d²)",
        cost_fno,
        lambda s, n: parameters_fno(s),
    ),
    "AFNO": Complexity(
        "d N log √N + N d²/b",
        "2 N c d + 2 N d d_z + 4 (16 d² + 15 N d log √N + 6 N (2 d²/b - d))",
        "c d + N d + d d_z + 4 (8 + 4/b) d²",
        cost_afno,
        parameters_afno,
    ),
    "TNO": Complexity(
        "d N² + N d²",
        "2 N c d + 2 N d d_z + 6 (8 d² N + 2 N² d + 4 d² N)",
        "c d + d d_z + 6 (6 d² + 2 d)",
        cost_tno,
        lambda s, n: parameters_tno(s),
    ),
    "ViTNO": Complexity(
        "d N (P + log √(N/P)) + N log √N + N d²",
        "(c + d) 15 N log √(N/P) / 2 + P k_max d (2 c - 1) + 2 N d d_z + 6 (8 d² N + 2 d N P + 4 d² N)",
        "c d k_max + d d_z + 6 (6 d² + 2 d)",
        cost_vitno,
        lambda s, n: parameters_vitno(s),
    ),
    "FANO": Complexity(
        "d N (P + log √(N/P)) + N log N + N d²",
        "2 N c d + 2 N d d_z + 6 (45 d N log √(N/P) + 3 k_max P (2 d² - d) + 2 N d² + 2 d N P + 4 N d²)",
        "c d + d d_z + 6 (3 d² k_max + 3 d² + 2 d)",
        cost_fano,
        lambda s, n: parameters_fano(s),
    ),
}
