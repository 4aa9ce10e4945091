"""Settings and weights as versions before 0.2 wrote them, brought to today's names when they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from operformer.errors import UsageError

T = TypeVar("T")

# Settings that are gone, and the value that today's operators have.
_DROPPED = {"learnable_skips": False, "norm": "after"}
_WRAPPERS = {"resample": "Resampled", "adds_input": "Increment"}
_RENAMED = ((re.compile(r"^last\.residual\."), "last_layers.0."), (re.compile(r"^waves\."), "positions."))


def today(name: Any, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any], list[str]]:
    """The name, the settings and the wrappers of an operator; today's come back as they are."""
    values = dict(settings)
    for key, kept in _DROPPED.items():
        if values.pop(key, kept) != kept:
            raise UsageError(f"{key}={settings[key]!r} is a setting of operformer 0.1 without a successor; train again")
    wrappers = list(values.pop("wrappers", ()))
    wrappers += [wrapper for key, wrapper in _WRAPPERS.items() if values.pop(key, False)]
    if "periodic_extension" in values or "isotropic" in values:
        basis = values.get("basis", "fourier")
        basis = "extended-fourier" if values.pop("periodic_extension", False) else basis
        values["basis"] = f"isotropic-{basis}" if values.pop("isotropic", False) else basis
    if "final_modes" in values or "smoothing" in values:
        modes, smoothing = values.pop("final_modes", 0), values.pop("smoothing", "none")
        values["last"] = [*([modes] if modes else []), *([] if smoothing == "none" else [smoothing])]
    patches = values.get("n_patches")
    if name == "FANO" and isinstance(patches, list | tuple) and set(patches) == {1}:
        name, modes = "SpectralOperator", values.get("n_modes")
        values["n_modes"] = [modes] * len(patches) if isinstance(modes, int) else modes
        for patched in ("n_patches", "n_heads", "overlap"):
            values.pop(patched, None)
    return name, values, wrappers


def with_hard_patches(name: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a file; where it has no overlap, it was written when patches ended at their faces."""
    is_patched = name in ("FANO", "ViTNO") and "overlap" not in settings
    return {**settings, "overlap": 0.0} if is_patched else dict(settings)


def today_names(weights: Mapping[str, T], wrappers: int) -> dict[str, T]:
    """What belongs to weights under today's names, inside so many wrappers."""
    found = {}
    for name, value in weights.items():
        for pattern, new in _RENAMED:
            name = pattern.sub(new, name)
        found["operator." * wrappers + name] = value
    return found
