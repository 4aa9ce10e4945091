"""Axes that have names, as in NetCDF: time, latitude, samples; an array of the same name holds coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from operformer.data.contents import Contents
from operformer.data.coordinates import read_row
from operformer.data.layout import Layout
from operformer.errors import DataError
from operformer.text import shown

TIME = {"time", "t", "times", "step", "steps", "frame", "timestep", "valid_time", "month", "year"}
SAMPLES = {
    "b", "sample", "samples", "batch", "member", "members", "ensemble", "number", "realization", "realisation", "case",
    "run", "sim", "simulation", "trial", "instance", "n_samples", "sample_id", "initial_condition",
}  # fmt: skip
CHANNELS = {"c", "channel", "channels", "component", "components", "variable", "field", "feature", "features"}
SPACE = {
    "x": {"x", "lon", "longitude", "longitudes", "rlon", "easting"},
    "y": {"y", "lat", "latitude", "latitudes", "rlat", "northing"},
    "z": {"z", "lev", "level", "depth", "height", "altitude", "plev"},
}


def with_letters(contents: Contents, names: Iterable[str], given: dict[str, Layout] | None) -> Contents:
    """The contents with a layout for each of the named arrays, and the coordinates of the axes of space.

    ``given`` are the layouts that the user says; then only the coordinates are looked for.
    """
    axes = {name: contents.dimensions[name] for name in names if name in contents.dimensions}
    if not axes:
        return contents
    if given is None:
        letters = _letters(contents, list(dict.fromkeys(one for several in axes.values() for one in several)))
        layouts = {name: " ".join(letters[one] for one in several) for name, several in axes.items()}
    else:
        pairs = [(one, k) for name, several in axes.items() for one, k in zip(several, given[name], strict=False)]
        letters, layouts = dict(pairs), {}
    space = {letter: one for one, letter in letters.items() if letter in "xyz"}
    rows = {
        letter: read_row(contents, space[letter]).values
        for letter in sorted(space)
        if _has_row(contents, space[letter])
    }
    return replace(contents, layouts={**contents.layouts, **layouts}, axes=rows)


def _letters(contents: Contents, dimensions: list[str]) -> dict[str, str]:
    """The letter of each named axis; one with another name is an axis of space if it has coordinates."""
    letters: dict[str, str] = {}
    for one in dimensions:
        word = one.lower()
        known = [letter for letter, words in (("t", TIME), ("b", SAMPLES), ("c", CHANNELS)) if word in words]
        if known and known[0] not in letters.values():
            letters[one] = known[0]
        elif known or not (_has_row(contents, one) or any(word in words for words in SPACE.values())):
            raise DataError(
                f"{contents.path}: what the axis {shown(one)} means is not known; say it by --layout (layout=), one "
                f"letter for each of {', '.join(dimensions)}: b samples, t time, c channels, x y z space"
            )
    space = [one for one in dimensions if one not in letters]
    named = {one: letter for one in space for letter, words in SPACE.items() if one.lower() in words}
    if len(space) > 3:
        raise DataError(f"{contents.path} has {len(space)} axes of space, {', '.join(space)}; 1, 2 or 3 are read")
    if sorted(named.values()) != list("xyz"[: len(space)]) or len(named) < len(space):
        named = dict(zip(space, "xyz", strict=False))
    return letters | named


def _has_row(contents: Contents, name: str) -> bool:
    array = contents.arrays.get(name)
    return array is not None and len(array.shape) == 1 and array.shape[0] > 1
