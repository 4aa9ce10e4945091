"""Transformers that act on functions: continuum attention and the neural operators built on it."""

from operformer.data.reading import read
from operformer.data.store import open_pairs
from operformer.domain import Grid, voronoi_weights
from operformer.operators import (
    FANO,
    TNO,
    Operator,
    Transformer,
    UniversalTNO,
    ViTNO,
    attention,
    export,
    from_pretrained,
    load,
    push_to_hub,
    set_precision,
)

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
    "export",
    "from_pretrained",
    "load",
    "open_pairs",
    "push_to_hub",
    "read",
    "set_precision",
    "voronoi_weights",
]
