"""Without a GPU the kernels run in Triton's interpreter, in NumPy; it has no bfloat16 and takes small tiles."""

import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch

if find_spec("triton") is None:
    collect_ignore_glob = ["*"]


@pytest.fixture
def device(monkeypatch):
    """Where kernels run here, set up for that."""
    if torch.cuda.is_available():
        return "cuda"
    from triton.runtime import interpreter

    from operformer.kernels import head_projection, pointwise_block, small_heads

    before = interpreter._patch_lang_tensor

    def patch(tensor, scope):
        before(tensor, scope)
        # NumPy no longer makes a number of an array of one element.
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patch)
    monkeypatch.setattr(pointwise_block, "KEPT", torch.float32)
    monkeypatch.setattr(pointwise_block, "FORWARD_ROWS", 16)
    monkeypatch.setattr(pointwise_block, "BACKWARD_ROWS", 16)
    monkeypatch.setattr(head_projection, "ROWS", 16)
    monkeypatch.setattr(head_projection, "SPLITS", 2)
    monkeypatch.setattr(head_projection, "TILE", 16)
    monkeypatch.setattr(head_projection, "COLUMNS", 2)
    for kind in small_heads.TILINGS:
        monkeypatch.setitem(small_heads.TILINGS, kind, small_heads.Tiling(32, 16, 4, 1))
    monkeypatch.setattr(small_heads, "ROWS", 16)
    return "cpu"


@pytest.fixture
def small_heads_are_taken(monkeypatch):
    """Heads of 16 channels take the kernel for small heads, with a GPU or without."""
    from operformer.operators import MultiHeadAttention
    from operformer.operators.backends import HALF, has_small_heads

    def takes(call):
        return call.query.dtype in HALF and call.query.shape[-1] == 16

    def widened(row):
        is_it = row.applies is has_small_heads
        return replace(row, applies=takes) if is_it else row

    home = sys.modules[MultiHeadAttention.__module__]  # `operformer.operators.attention` is a function, too
    monkeypatch.setattr(home, "ATTENTION", [widened(row) for row in home.ATTENTION])
