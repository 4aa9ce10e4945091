"""Operations counted on the module itself, beside the formulas of Appendix C.

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
from operformer.operators.operator import Operator


def count_operations(make: Callable[[], Operator], grid: Grid) -> int:
    """Operations of one evaluation on the grid."""
    with torch.device("meta"):
        operator = make()
    u = torch.empty(1, operator.in_channels, *grid.shape, device="meta", dtype=operator.input_mean.dtype)
    aten: Any = torch.ops.aten
    transforms = {aten._fft_r2c: _real_fft, aten._fft_c2r: _real_fft, aten._fft_c2c: _fft}
    # Of torch's kernels for attention only the plain one is counted on every device.
    counter = FlopCounterMode(display=False, custom_mapping=transforms)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        operator.eval()(u, grid)
    return round(counter.get_total_flops())


def _fft(shape: Sequence[int], axes: Sequence[int], *_: Any, **__: Any) -> float:
    return 5 * prod(shape) * sum(log2(shape[axis]) for axis in axes)


def _real_fft(shape: Sequence[int], axes: Sequence[int], *_: Any, out_shape: Sequence[int], **__: Any) -> float:
    """Appendix C: all rows as if they were complex, then half of the columns."""
    real = max(shape, out_shape, key=prod)
    *others, rows = (log2(real[axis]) for axis in axes)
    return 5 * prod(real) * (rows + sum(others) / 2)
