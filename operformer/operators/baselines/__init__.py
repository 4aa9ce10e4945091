"""The operators that Section 6.2 compares with, behind the same interface `operator(u, grid)`."""

from operformer.operators.baselines.afno import AFNO
from operformer.operators.baselines.fno import FNO
from operformer.operators.baselines.galerkin import GalerkinTransformer

__all__ = ["AFNO", "FNO", "GalerkinTransformer"]
