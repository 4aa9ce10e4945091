"""Inputs for a trained operator from a file: `operformer.read_inputs`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from torch import Tensor

from operformer.data.reading.contents import UniformKind, WeightsName
from operformer.data.reading.options import Expected
from operformer.data.reading.reader import read_functions
from operformer.domain import Grid
from operformer.domain.box import Bounds, GivenBounds
from operformer.errors import DataError


class TakesFunctions(Protocol):
    """What has to be known of an operator to read its inputs."""

    in_channels: int
    dim: int

    @property
    def bounds(self) -> Bounds:
        """The box it was trained on."""


def read_inputs(
    path: str | Path,
    operator: TakesFunctions,
    u: str | Sequence[str] | None = None,
    *,
    layout: str | None = None,
    grid: Grid | UniformKind | None = None,
    bounds: GivenBounds | None = None,
    kind: UniformKind | None = None,
    weights: WeightsName = "voronoi",
) -> tuple[Tensor, Grid]:
    """Inputs for an operator from a file that `operformer.read` understands and that need not hold outputs.

    What the file does not say is what the operator takes: which axis are channels, and the domain it was trained on
    where there are no coordinates, as equispaced points of the ``kind`` ("nodes" if None). Scattered points without
    weights of their own get those of their Voronoi cells, or equal ones.
    """
    values, found = read_functions(
        path, Expected(operator.in_channels, operator.bounds, kind), u, layout, grid, bounds, weights
    )
    if found.dim != operator.dim:
        raise DataError(f"{path} has functions on {found}, and the operator takes dimension {operator.dim}")
    if values.shape[1] != operator.in_channels:
        raise DataError(f"{path} has {values.shape[1]} channels, and the operator takes {operator.in_channels}")
    return values, found
