"""Random numbers that follow from a seed, and orders of convergence: for tests of many rooms."""

import numpy as np
import torch


def noise(*shape, seed=0, dtype=torch.float64):
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def observed_order(sizes, errors):
    """p, where errors fall like size^-p."""
    return -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
