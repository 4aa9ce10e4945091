"""Meshes by meshio: .vtu, .vtk, .msh and .xdmf files, each one sample on a mesh of its own."""

# DESIGN.md: A file of a mesh is one sample

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from operformer.data.contents import Array, Contents, Loaded, refusing_damage, why_not_numbers
from operformer.errors import DataError, UsageError
from operformer.text import shown

READERS = {".vtu": "vtu", ".vtk": "vtk", ".msh": "gmsh", ".xdmf": "xdmf", ".xmf": "xdmf"}  # meshio's, by suffix
# The simplices that a cell is cut into, by corners, and its dimension. Cells of order two keep all their points.
SIMPLICES: Mapping[str, tuple[int, tuple[tuple[int, ...], ...]]] = {
    "line": (1, ((0, 1),)),
    "line3": (1, ((0, 2), (2, 1))),
    "triangle": (2, ((0, 1, 2),)),
    "triangle6": (2, ((0, 3, 5), (3, 1, 4), (5, 4, 2), (3, 4, 5))),
    "quad": (2, ((0, 1, 2), (0, 2, 3))),
    "tetra": (3, ((0, 1, 2, 3),)),
    "hexahedron": (3, ((0, 1, 2, 6), (0, 2, 3, 6), (0, 3, 7, 6), (0, 7, 4, 6), (0, 4, 5, 6), (0, 5, 1, 6))),
}
IGNORED = ("vertex",)  # cells without volume, which files have beside others


def is_mesh(path: Path) -> bool:
    """Whether a file's name says that it is a mesh."""
    return path.suffix.lower() in READERS


@contextmanager
def open_mesh(path: Path) -> Iterator[Contents]:
    """The values at the points of a mesh, as one sample, and its points and cells."""
    meshio = _meshio()
    if not path.is_file():
        raise DataError(f"cannot read {path}: no such file or directory")
    with refusing_damage(path):
        _refuse_files_elsewhere(path)
        mesh = getattr(meshio, READERS[path.suffix.lower()]).read(str(path))  # meshio.read prints, and ends the process
        dim, cells = _simplices(mesh, path)
        points = _flat(np.asarray(mesh.points, dtype=np.float64), dim, path)
        arrays: dict[str, Array] = {"points": _known(points), "cells": _known(cells)}
        layouts, refused = {}, {}
        for name, values in mesh.point_data.items():
            one = np.asarray(values)
            reason = why_not_numbers(one.dtype)
            if reason is None and len(one) == len(points):
                arrays[name] = _known(one[None])
                layouts[name] = "b n c" if one.ndim == 2 else "b n"
            else:
                refused[name] = reason or "has another number of values than the mesh has points"
        for name in mesh.cell_data.keys() - mesh.point_data.keys():
            refused[name] = "is known on cells; average it to the points first"
        yield Contents(path, arrays, refused, layouts=layouts)


def _meshio() -> Any:
    try:
        import meshio
    except ModuleNotFoundError:
        raise UsageError("meshes are read by meshio, which is not installed; pip install operformer[mesh]") from None
    return meshio


def _refuse_files_elsewhere(path: Path) -> None:
    """Refuse an .xdmf whose values are not in a file beside it."""
    if READERS[path.suffix.lower()] != "xdmf":
        return
    others = re.findall(r">\s*([^<>:\s][^<>:]*):/", path.read_text("utf-8", errors="replace"))
    elsewhere = [other for other in others if Path(other.strip()).name != other.strip()]
    if elsewhere:
        raise DataError(f"{path} takes values from {shown(elsewhere[0])}; only files beside it are read")


def _known(values: np.ndarray) -> Loaded:
    return Loaded(values.shape, values.dtype, lambda: values)


def _simplices(mesh: Any, path: Path) -> tuple[int, np.ndarray]:
    """The dimension of the mesh, and the simplices (M, d + 1) of its cells of that dimension."""
    blocks = [(block.type, np.asarray(block.data, dtype=np.int64)) for block in mesh.cells if block.type not in IGNORED]
    unknown = sorted({kind for kind, _ in blocks} - SIMPLICES.keys())
    if unknown or not blocks:
        held = f"cells of the kind {shown(unknown[0])}" if unknown else "no cells"
        raise DataError(f"{path} has {held}; save it with {', '.join(SIMPLICES)}")
    dim = max(SIMPLICES[kind][0] for kind, _ in blocks)
    parts = [data[:, corners] for kind, data in blocks for corners in SIMPLICES[kind][1] if SIMPLICES[kind][0] == dim]
    return dim, np.concatenate(parts)


def _flat(points: np.ndarray, dim: int, path: Path) -> np.ndarray:
    """The points without the coordinates that a line or a plane does not have."""
    varying = [k for k in range(points.shape[1]) if np.ptp(points[:, k]) > 0]
    if len(varying) > dim or points.shape[1] < dim:
        raise DataError(f"{path} is a mesh of dimension {dim} in {len(varying)} dimensions; store it in its own plane")
    kept = varying if len(varying) == dim else list(range(dim))
    return points[:, kept]
