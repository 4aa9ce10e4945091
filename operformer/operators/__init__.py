"""The networks: attention, the encoder, and the neural operators built from them."""

from operformer.operators.attention import MultiHeadAttention, attention, set_precision
from operformer.operators.backends import backend
from operformer.operators.codomain import CodomainNO
from operformer.operators.fano import FANO
from operformer.operators.integral import Isotropic
from operformer.operators.last import Smoothing, SpectralResidual
from operformer.operators.operator import Operator
from operformer.operators.pretrained import load
from operformer.operators.spectral import SpectralOperator
from operformer.operators.tno import TNO, Transformer, UniversalTNO
from operformer.operators.vitno import ViTNO
from operformer.operators.wrappers import Functional, Increment, Resampled

__all__ = [
    "FANO",
    "TNO",
    "CodomainNO",
    "Functional",
    "Increment",
    "Isotropic",
    "MultiHeadAttention",
    "Operator",
    "Resampled",
    "Smoothing",
    "SpectralOperator",
    "SpectralResidual",
    "Transformer",
    "UniversalTNO",
    "ViTNO",
    "attention",
    "backend",
    "load",
    "set_precision",
]
