"""Operators that are worth a try on some samples, each with its training: the recipes by name, and those of "auto"."""

# DESIGN.md: Operator and training are chosen by the samples

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from math import log2, prod
from typing import Any

from operformer.operators.pretrained import OPERATORS
from operformer.settings import check_name, construct
from operformer.training.features import Features
from operformer.training.recipe import Training

AUTO = "auto"
SPECTRAL = ("isotropic", "cosine", "fourier")  # a SpectralOperator with these kernels
ATTENTION = {"tno": "TNO", "fano": "FANO", "vitno": "ViTNO"}
RECIPES = (AUTO, *SPECTRAL, *ATTENTION)
PATCHES = 2  # along an axis
CLEARLY = 2 / 3  # an error below this part of another is a better one
POINTS_PER_BATCH = 4096
MOST_HALF_WAVES = {1: 64, 2: 20, 3: 8}  # along an axis, two for a mode of Fourier's basis

Candidate = tuple[dict[str, Any], Training]


def candidates(
    features: Features, recipe: str, operator: Mapping[str, Any], training: Mapping[str, Any], count: int
) -> list[Candidate]:
    """The operators of a recipe with their trainings, none twice; "auto" has those that may win on such samples.

    What is given in ``operator`` and ``training`` is kept.
    """
    check_recipe(recipe)
    common = common_settings(features, count)
    found = [_settings(features, name) for name in (_open(features) if recipe == AUTO else [recipe])]
    fitting = [settings for settings in found if _has(settings, operator)]  # all that is given
    changed = [_changed(features, settings, operator) for settings in fitting or found[:1]]
    return [
        (one, construct(Training, {**common, "learning_rate": _rate(one), **training}, "training"))
        for k, one in enumerate(changed)
        if one not in changed[:k]
    ]


def check_recipe(name: str) -> None:
    """Refuse a recipe that is not known."""
    check_name(name, list(RECIPES), f"unknown recipe {name!r}")


def recipe_of(operator: Mapping[str, Any]) -> str:
    """The recipe that an operator's settings are of."""
    if operator.get("name") == "SpectralOperator":
        return str(operator.get("basis", "fourier")).partition("-")[0]
    return str(operator.get("name")).lower()


def winner(candidates: list[Candidate], errors: list[float]) -> int:
    """The smallest error, unless the first candidate is favoured: then others have to be much better.

    Isotropic kernels on a box need fewer samples in the end. On a periodic domain they hardly learn what moves in one
    direction, whatever a short training says.
    """
    best = errors.index(min(errors))
    is_favoured = candidates[0][0].get("basis") in ("isotropic-cosine", "fourier")
    return 0 if is_favoured and errors[best] > CLEARLY * errors[0] else best


def common_settings(features: Features, count: int) -> dict[str, Any]:
    """The training's settings that all candidates share."""
    batch = 2 ** round(log2(max(1.0, POINTS_PER_BATCH / prod(features.grid.shape))))
    batch = max(1, min(16, max(4, batch), count // 8))
    loss = "l2+h1" if features.has_slopes else "l2"
    return {"batch_size": batch, "schedule": "one-cycle", "optimizer": "muon", "loss": loss}


def _open(features: Features) -> list[str]:
    """The recipes between which features do not settle; what is first may be favoured."""
    found = ["fourier"] if features.is_periodic else ["cosine", "fourier"]
    if features.grid.dim > 1 or features.is_zero_at_boundary:  # on a line, boundary value problems
        found = [*found, "isotropic"] if features.is_periodic else ["isotropic", *found]
    return [*found, "tno"] if features.grid.axes is None else found


def _settings(features: Features, recipe: str) -> dict[str, Any]:
    """The operator of a recipe on such samples."""
    dim, points = features.grid.dim, prod(features.grid.shape)
    shared: dict[str, Any] = {"hidden_channels": 32, "n_layers": 4}
    wrappers = ["Increment"] if features.is_flow else ["Functional"] if features.is_number else []
    if recipe == "vitno" and not _divides(features):
        wrappers = ["Resampled", *wrappers]
    if wrappers:
        shared["wrappers"] = wrappers
    if features.is_zero_at_boundary and recipe != "tno":
        shared["last"] = ["dirichlet"]
    if recipe == "tno":
        sources = 256 if points > 512 else None
        return {"name": "TNO", "n_heads": 4, "waves": 8, "sources": sources, **shared}
    own = "fourier" if features.is_periodic else "cosine"  # a basis of functions on all of D
    if recipe in ATTENTION:
        return {"name": ATTENTION[recipe], **_patched(features, recipe), **shared}
    basis = f"isotropic-{own}" if recipe == "isotropic" else recipe
    modes = _modes(features, 2 if basis.endswith("fourier") else 1)
    waves = 0 if basis == "fourier" else 8
    return {"name": "SpectralOperator", "n_modes": [modes] * dim, "basis": basis, "waves": waves, **shared}


def _patched(features: Features, recipe: str) -> dict[str, Any]:
    """Patches that reach into their neighbours; functions on them have no period."""
    dim = features.grid.dim
    overlap = {"margin": 0.25, "continuation": "periodic"} if features.is_periodic else 0.25
    modes = max(2, -(-_modes(features, 1) * 3 // (2 * PATCHES * 2)))
    basis = "isotropic-cosine" if recipe == "fano" and dim > 1 and not features.is_periodic else "cosine"
    return {
        "n_patches": [PATCHES] * dim, "n_modes": [modes] * dim, "n_heads": 4, "basis": basis, "waves": 8,
        "overlap": overlap,
    }  # fmt: skip


def _divides(features: Features) -> bool:
    """Whether all patches have the same points."""
    kind, shape = features.grid.kind, features.grid.shape
    return kind in ("nodes", "cells", "periodic") and all((n - (kind == "nodes")) % PATCHES == 0 for n in shape)


def _has(settings: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether the operator of a candidate, or the one that is given, has all settings that are given."""
    name = given.get("name", settings["name"])
    return name in OPERATORS and given.keys() <= {"name", "wrappers", *signature(OPERATORS[name]).parameters}


def _changed(features: Features, settings: dict[str, Any], operator: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with those that the user gives; an operator of another name has those of its own recipe."""
    name = operator.get("name", settings["name"])
    if name != settings["name"]:
        own = next((recipe for recipe, of in ATTENTION.items() if of == name), None)
        if own is not None:
            settings = _settings(features, own)
        elif name in OPERATORS:
            known = {"name", "wrappers", *signature(OPERATORS[name]).parameters}
            settings = {key: value for key, value in settings.items() if key in known}
            if "n_heads" in known:
                settings["n_heads"] = 4
    return {**settings, **operator}


def _rate(settings: Mapping[str, Any]) -> float:
    """The highest rate of one cycle with Muon that the operators were tried with."""
    if "n_heads" in settings:
        return 2e-3
    return 8e-3 if str(settings.get("basis")).startswith("isotropic") else 4e-3


def _modes(features: Features, halves: int) -> int:
    """Modes along an axis: what z is made of and half as many again, as far as the points and the time allow."""
    grid = features.grid
    per_axis = min(grid.shape) if grid.axes is not None else int(prod(grid.shape) ** (1 / grid.dim))
    most = min(MOST_HALF_WAVES[grid.dim] // halves, per_axis // 2)
    if features.half_waves is None:
        return max(2, most)
    return max(2, min(most, max(8, -(-3 * features.half_waves // (2 * halves)))))
