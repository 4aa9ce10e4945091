"""Where functions live: grids, the quadrature that goes with them, and samples of functions on them."""

from operformer.domain.grid import Grid
from operformer.domain.quadrature import h1_norm, inner_product, l2_norm, trapezoidal_weights, voronoi_weights
from operformer.domain.samples import Pairs, Samples, pad, unpad

__all__ = [
    "Grid",
    "Pairs",
    "Samples",
    "h1_norm",
    "inner_product",
    "l2_norm",
    "pad",
    "trapezoidal_weights",
    "unpad",
    "voronoi_weights",
]
