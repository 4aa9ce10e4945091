"""Kernels for a GPU, in Triton; what they compute stands in plain PyTorch in operators/, and tests compare the two."""

from importlib.util import find_spec

HAS_TRITON = find_spec("triton") is not None
