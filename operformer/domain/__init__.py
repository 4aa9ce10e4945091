"""Where functions live: grids and the quadrature that goes with them."""

from operformer.domain.grid import Grid
from operformer.domain.quadrature import h1_norm, inner_product, l2_norm, trapezoidal_weights, voronoi_weights

__all__ = ["Grid", "h1_norm", "inner_product", "l2_norm", "trapezoidal_weights", "voronoi_weights"]
