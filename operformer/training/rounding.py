"""Precision by place while training: averages may be rounded, points may not; the loss is scaled where fp16 is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import nn

from operformer.operators.attention import set_precision

AverageName = Literal["full", "bfloat16", "float16"]
ProductName = Literal["full", "tf32"]
DTYPES: dict[AverageName, torch.dtype | None] = {"full": None, "bfloat16": torch.bfloat16, "float16": torch.float16}

FIRST_SCALE = 4096.0
LARGEST_SCALE = 2.0**24
PATIENCE = 2000  # updates without an overflow before the scale is doubled


@contextmanager
def rounding(operator: nn.Module, averages: AverageName, products: ProductName) -> Iterator[None]:
    """Query, key and value in ``averages``, float32 products in ``products``; afterwards as before."""
    before = torch.get_float32_matmul_precision()
    if products == "tf32":
        torch.set_float32_matmul_precision("high")
    set_precision(operator, DTYPES[averages])
    try:
        yield
    finally:
        set_precision(operator, None)
        torch.set_float32_matmul_precision(before)


class LossScale:
    """A power of two in front of the loss, so that small gradients do not vanish in float16.

    It is halved when a gradient overflows, whose update is left out, and doubled after many that do not.
    """

    def __init__(self) -> None:
        self.value, self._good = FIRST_SCALE, 0

    def overflow(self) -> bool:
        """The gradient was not finite: halve the scale; False if it cannot be the scale's fault."""
        self.value, self._good = self.value / 2, 0
        return self.value >= 1

    def success(self) -> None:
        """The gradient was finite."""
        self._good += 1
        if self._good == PATIENCE:
            self.value, self._good = min(2 * self.value, LARGEST_SCALE), 0

    def state_dict(self) -> dict[str, Any]:
        """The scale, and the updates since it changed."""
        return {"value": self.value, "good": self._good}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        value, good = state["value"], state["good"]
        if type(value) is not float or not 1 <= value <= LARGEST_SCALE or type(good) is not int or good < 0:
            raise ValueError(f"the state of the loss scale is invalid: {state}")
        self.value, self._good = value, good


def unscale(parameters: list[nn.Parameter], scale: float) -> None:
    """Divide the gradients by the scale, a power of two, so without rounding."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    torch._foreach_mul_(gradients, 1 / scale)
