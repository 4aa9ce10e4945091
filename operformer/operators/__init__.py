"""The networks: attention, the encoder, and the neural operators built from them."""

from operformer.operators.attention import MultiHeadAttention, attention
from operformer.operators.fano import FANO
from operformer.operators.operator import Operator
from operformer.operators.precision import set_precision
from operformer.operators.pretrained import load
from operformer.operators.tno import TNO, UniversalTNO
from operformer.operators.transformer import Transformer
from operformer.operators.vitno import ViTNO

__all__ = [
    "FANO",
    "TNO",
    "MultiHeadAttention",
    "Operator",
    "Transformer",
    "UniversalTNO",
    "ViTNO",
    "attention",
    "load",
    "set_precision",
]
