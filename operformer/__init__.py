"""Transformers that act on functions: continuum attention and the neural operators built on it.

The names below are looked up when they are first used, so that ``import operformer`` alone does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operformer.data.reading import read
    from operformer.data.store import open_pairs
    from operformer.data.writing import write
    from operformer.domain import Grid, pad, unpad, voronoi_weights
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
    "export",
    "from_pretrained",
    "load",
    "open_pairs",
    "pad",
    "predict",
    "push_to_hub",
    "read",
    "read_inputs",
    "set_precision",
    "unpad",
    "voronoi_weights",
    "write",
]

# Where the names above are defined; the front's read_inputs is that of prediction.
_HOMES = ("domain", "operators", "prediction", "data.store", "data.reading", "data.writing")
_PACKAGES = ("data", "domain", "errors", "operators", "problems")  # operformer.domain.Grid needs no import of its own


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"{__name__}.{home}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
