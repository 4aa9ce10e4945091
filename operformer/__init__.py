"""Transformers that act on functions: continuum attention and the neural operators built on it.

The names below are looked up when they are first used, so that ``import operformer`` alone does not import torch.
"""

# DESIGN.md: The front imports late

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operformer.data.exchange import read, read_inputs, write
    from operformer.data.store import open_pairs
    from operformer.domain import Grid, Samples, pad, unpad, voronoi_weights
    from operformer.domain.basis import Cosine, ExtendedFourier, Fourier, Legendre
    from operformer.domain.blending import Overlap
    from operformer.evaluation.certificate import certify
    from operformer.evaluation.conformal import calibrate
    from operformer.evaluation.errors import evaluate
    from operformer.evaluation.prediction import predict
    from operformer.operators import (
        FANO,
        TNO,
        CodomainNO,
        Functional,
        Increment,
        Isotropic,
        Operator,
        Resampled,
        Smoothing,
        SpectralOperator,
        SpectralResidual,
        Transformer,
        UniversalTNO,
        ViTNO,
        attention,
        backend,
        load,
        set_precision,
    )
    from operformer.sharing.exporting import export
    from operformer.sharing.hub import from_pretrained, push_to_hub
    from operformer.training.loop import train
    from operformer.training.recipe import Training
    from operformer.training.recommend import Recommendation, recommend


__version__: str = import_module("operformer.version").VERSION  # which no type checker takes for a name of the front

# Each public name and the module that defines it.
_HOMES = {
    "domain": ("Grid", "Samples", "pad", "unpad", "voronoi_weights"),
    "domain.blending": ("Overlap",),
    "domain.basis": ("Cosine", "ExtendedFourier", "Fourier", "Legendre"),
    "operators": (
        *("TNO", "ViTNO", "FANO", "SpectralOperator", "CodomainNO", "UniversalTNO", "Transformer", "Operator"),
        *("Increment", "Resampled", "Functional", "Isotropic", "Smoothing", "SpectralResidual"),
        *("attention", "backend", "load", "set_precision"),
    ),
    "data.exchange": ("read", "read_inputs", "write"),
    "data.store": ("open_pairs",),
    "training.recipe": ("Training",),
    "training.recommend": ("Recommendation", "recommend"),
    "training.loop": ("train",),
    "evaluation.errors": ("evaluate",),
    "evaluation.prediction": ("predict",),
    "evaluation.certificate": ("certify",),
    "evaluation.conformal": ("calibrate",),
    "sharing.exporting": ("export",),
    "sharing.hub": ("from_pretrained", "push_to_hub"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)
_PACKAGES = ("data", "domain", "errors", "evaluation", "operators", "problems", "runs", "sharing", "training")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:  # operformer.domain.Grid needs no import of its own
        return import_module(f"{__name__}.{name}")
    if name in _HOME:
        globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
