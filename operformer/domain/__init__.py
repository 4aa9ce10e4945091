"""Where functions live: grids and the quadrature that goes with them."""

from operformer.domain.grid import Grid
from operformer.domain.quadrature import h1_norm, inner_product, l2_norm, trapezoidal_weights, voronoi_weights
from operformer.domain.ragged import pad, unpad

__all__ = ["Grid", "h1_norm", "inner_product", "l2_norm", "pad", "trapezoidal_weights", "unpad", "voronoi_weights"]
