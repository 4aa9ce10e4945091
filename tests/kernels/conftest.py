"""Without a GPU the kernels run in Triton's interpreter, in NumPy; it has no bfloat16 and takes small tiles."""

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
