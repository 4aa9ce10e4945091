"""Transformers that act on functions: continuum attention and the neural operators built on it."""

from operformer.data.reading import read
from operformer.data.store import open_pairs
from operformer.data.writing import write
from operformer.domain import Grid, pad, unpad, voronoi_weights
from operformer.operators import FANO, TNO, Operator, Transformer, UniversalTNO, ViTNO, attention, load, set_precision
from operformer.prediction import predict, read_inputs

__version__ = "0.1.0"

__all__ = [
    "FANO",
    "TNO",
    "Grid",
    "Operator",
    "Transformer",
    "UniversalTNO",
    "ViTNO",
    "attention",
    "load",
    "open_pairs",
    "pad",
    "predict",
    "read",
    "read_inputs",
    "set_precision",
    "unpad",
    "voronoi_weights",
    "write",
]
