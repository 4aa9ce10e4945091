"""Parameters and operations counted on the module itself, beside the formulas of Appendix C (`complexity`).

Nothing is computed: the operator is called without memory (torch's "meta" device) while torch counts the products of
matrices. An FFT of n points counts as 5 n log2 n operations, and a real one on a square of N points as
(15 / 2) N log2 sqrt(N), as in Appendix C; activations, softmax and norms are left out there and here. Scores and
averages of an attention are both counted, where the tables have one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2, prod
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from operformer.domain import Grid
from operformer.operators.baselines import FNO
from operformer.operators.operator import Operator


def count_parameters(operator: Operator) -> int:
    """The numbers that are learned; a complex one counts once, as in the paper's tables."""
    pairs = sum(p.numel() for p in operator.spectral) if isinstance(operator, FNO) else 0
    return sum(p.numel() for p in operator.parameters()) - pairs // 2


def count_operations(make: Callable[[], Operator], grid: Grid) -> int:
    """Operations of one evaluation on the grid."""
    with torch.device("meta"):
        operator = make()
    u = torch.empty(1, operator.in_channels, *grid.shape, device="meta", dtype=operator.input_mean.dtype)
    ours: Any = torch.ops.operformer
    transforms = {ours.half_fft: _half_fft, ours.symmetric_fft_back: _half_fft_back}
    # Of torch's kernels for attention only the plain one is counted on every device.
    counter = FlopCounterMode(display=False, custom_mapping=transforms)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        operator.eval()(u, grid)
    return round(counter.get_total_flops())


def _half_fft(shape: Sequence[int], *_: Any, **__: Any) -> float:
    """Appendix C: all rows as if they were complex, then half of the columns."""
    *others, rows = map(log2, shape[2:])
    return 5 * prod(shape) * (rows + sum(others) / 2)


def _half_fft_back(shape: Sequence[int], n_last: int, *_: Any, **__: Any) -> float:
    """As many as forth."""
    return _half_fft((*shape[:-2], n_last))
