"""Transformers that act on functions: continuum attention and the neural operators built on it.

The names below are looked up when they are first used, so that ``import operformer`` alone does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operformer.data.exchange import read, read_inputs, write
    from operformer.data.store import open_pairs
    from operformer.domain import Grid, Samples, pad, unpad, voronoi_weights
    from operformer.evaluation.certificate import certify
    from operformer.evaluation.conformal import calibrate
    from operformer.evaluation.errors import evaluate
    from operformer.evaluation.prediction import predict
    from operformer.operators import (
        FANO,
        TNO,
        Operator,
        Transformer,
        UniversalTNO,
        ViTNO,
        attention,
        load,
        set_precision,
    )
    from operformer.sharing.exporting import export
    from operformer.sharing.hub import from_pretrained, push_to_hub
    from operformer.training.loop import train
    from operformer.training.recipe import Training

__version__ = "0.1.0"

# Each public name and the module that defines it.
_HOMES = {
    "Grid": "domain",
    "Samples": "domain",
    "pad": "domain",
    "unpad": "domain",
    "voronoi_weights": "domain",
    "FANO": "operators",
    "TNO": "operators",
    "Operator": "operators",
    "Transformer": "operators",
    "UniversalTNO": "operators",
    "ViTNO": "operators",
    "attention": "operators",
    "load": "operators",
    "set_precision": "operators",
    "open_pairs": "data.store",
    "read": "data.exchange",
    "read_inputs": "data.exchange",
    "write": "data.exchange",
    "Training": "training.recipe",
    "train": "training.loop",
    "calibrate": "evaluation.conformal",
    "certify": "evaluation.certificate",
    "evaluate": "evaluation.errors",
    "predict": "evaluation.prediction",
    "export": "sharing.exporting",
    "from_pretrained": "sharing.hub",
    "push_to_hub": "sharing.hub",
}
__all__ = [
    "FANO",
    "TNO",
    "Grid",
    "Operator",
    "Samples",
    "Training",
    "Transformer",
    "UniversalTNO",
    "ViTNO",
    "attention",
    "calibrate",
    "certify",
    "evaluate",
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
    "train",
    "unpad",
    "voronoi_weights",
    "write",
]
_PACKAGES = ("data", "domain", "errors", "evaluation", "operators", "problems", "runs", "sharing", "training")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:  # operformer.domain.Grid needs no import of its own
        return import_module(f"{__name__}.{name}")
    if name in _HOMES:
        globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
