"""Kernels for a GPU, in Triton; what they compute stands in plain PyTorch in operators/, and tests compare the two."""
