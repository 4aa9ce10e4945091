"""What the paper states about its experiments, each number once, under the label of its table or figure.

Numbers of parameters are in `experiments.parameters`. Curves in the paper's figures are pictures, not numbers, and are
not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from paper.parameters import PRINTED

PAPER = "Calvello, Kovachki, Levine and Stuart, Continuum Attention for Neural Operators, JMLR 26 (2025)"


@dataclass(frozen=True)
class Stated:
    """Relative L2 errors on the test set and the number of parameters; words where the paper has words."""

    label: str
    median: float | str
    worst: float | str | None = None
    parameters: float | None = None


_LOW, _HIGH = "tab:2d_median_errors_low", "tab:2d_median_errors_high"
_GALERKIN = Stated(_LOW, 7.30e-2, parameters=PRINTED["darcy-64-galerkin"])

STATED: Mapping[str, Stated] = MappingProxyType(
    {
        "lorenz-yz": Stated("fig:xtoyz", "< 1 %", "just below 10 %"),
        "darcy-64-tno": Stated(_LOW, 1.19e-2, parameters=PRINTED["darcy-64-tno"]),
        "darcy-64-fno": Stated(_LOW, 1.96e-2, parameters=PRINTED["darcy-64-fno"]),
        "darcy-64-afno": Stated(_LOW, 2.57e-2, parameters=PRINTED["darcy-64-afno"]),
        "darcy-64-galerkin": _GALERKIN,  # four layers, by the text
        "darcy-64-galerkin-layers-6": _GALERKIN,  # the table's number of parameters
        "darcy-416-vitno": Stated(_HIGH, 7.68e-3),
        "darcy-416-fano": Stated(_HIGH, 8.39e-3),
        "darcy-416-fno": Stated(_HIGH, 2.38e-2),
        "darcy-416-afno": Stated(_HIGH, 2.66e-2),
        "piecewise-416-vitno": Stated(_HIGH, 9.72e-3),
        "piecewise-416-fano": Stated(_HIGH, 1.38e-2),
        "piecewise-416-fno": Stated(_HIGH, 3.78e-2),
        "piecewise-416-afno": Stated(_HIGH, 3.09e-2),
        "kolmogorov-416-vitno": Stated(_HIGH, 1.07e-2),
        "kolmogorov-416-fano": Stated(_HIGH, 6.34e-3),
        "kolmogorov-416-fno": Stated(_HIGH, 1.52e-2),
        "kolmogorov-416-afno": Stated(_HIGH, 3.99e-3),
    }
)


# The other table that people quote, Darcy flow of Li et al. at 85 x 85: mean relative L2 errors by those who made them.
LI_ET_AL: Mapping[str, float] = MappingProxyType(
    {
        "FNO": 1.08e-2,
        "GNOT": 1.05e-2,
        "Galerkin transformer": 8.4e-3,
        "ONO": 7.6e-3,
        "LNO": 6.3e-3,
        "Transolver": 5.7e-3,
        "Transolver++": 4.9e-3,
    }
)


@dataclass(frozen=True)
class Complexity:
    """A row of Tables evaluation_cost, evaluation_cost1 and parameter_complexity1; d is d_model, c is d_u + d.

    In the paper's letters: N points in P patches, k_max Fourier modes, d_FNO = 128, b = 8. The dimension of the domain,
    the paper's d, is only seen inside c here.
    """

    scaling: str
    cost: str
    parameters: str


COMPLEXITY: Mapping[str, Complexity] = MappingProxyType(
    {
        "FNO": Complexity(
            "d N log √N + N d²",
            "2 N (c + 2 d) d_FNO + 2 N d_FNO d_z + 4 (15 d N log √N + k_max (2 d² - d) + 2 N d²)",
            "c d_FNO + 2 d_FNO d + d_FNO d_z + 4 (d² k_max + d²)",
        ),
        "AFNO": Complexity(
            "d N log √N + N d²/b",
            "2 N c d + 2 N d d_z + 4 (16 d² + 15 N d log √N + 6 N (2 d²/b - d))",
            "c d + N d + d d_z + 4 (8 + 4/b) d²",
        ),
        "TNO": Complexity(
            "d N² + N d²",
            "2 N c d + 2 N d d_z + 6 (8 d² N + 2 N² d + 4 d² N)",
            "c d + d d_z + 6 (6 d² + 2 d)",
        ),
        "ViTNO": Complexity(
            "d N (P + log √(N/P)) + N log √N + N d²",
            "(c + d) 15 N log √(N/P) / 2 + P k_max d (2 c - 1) + 2 N d d_z + 6 (8 d² N + 2 d N P + 4 d² N)",
            "c d k_max + d d_z + 6 (6 d² + 2 d)",
        ),
        "FANO": Complexity(
            "d N (P + log √(N/P)) + N log N + N d²",
            "2 N c d + 2 N d d_z + 6 (45 d N log √(N/P) + 3 k_max P (2 d² - d) + 2 N d² + 2 d N P + 4 N d²)",
            "c d + d d_z + 6 (3 d² k_max + 3 d² + 2 d)",
        ),
    }
)
