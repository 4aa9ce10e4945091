"""Operators as graphs for other programs: torch.export (.pt2) and ONNX (.onnx), at every resolution.

A graph has no Grid. Of a uniform one nothing but its sizes is unknown when the graph is made, so the coordinates, the
weights and the matrices of transforms are computed inside it, from the sizes of the input.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from operformer import __version__
from operformer.checking import checked
from operformer.domain import Grid
from operformer.domain.basis import Legendre
from operformer.domain.grid import UniformKind, symbolic_grid
from operformer.errors import ResourceError, UsageError
from operformer.files import write_bytes
from operformer.operators.fano import FANO
from operformer.operators.last import Smoothing
from operformer.operators.operator import Operator
from operformer.operators.patched import PatchedOperator
from operformer.operators.spectral import SpectralOperator
from operformer.operators.tno import TNO, Transformer, UniversalTNO
from operformer.operators.vitno import ViTNO
from operformer.operators.wrappers import Wrapper

EXPORTED = (TNO, UniversalTNO, Transformer, ViTNO, FANO, SpectralOperator)
MOST = 2**16  # points of a patch along an axis, and functions in a batch
# The batch and the points of a patch along each axis while the graph is made; primes, which divide nothing by chance.
TRACED_BATCH, TRACED = 3, (11, 13, 7)


@checked
def export(
    operator: Operator,
    path: str | Path,
    kind: UniformKind = "nodes",
    names: Sequence[Sequence[str]] = (),
    query: Grid | None = None,
    units: Mapping[str, str] | None = None,
) -> Path:
    """Write u (batch, in_channels, *shape) -> z, on uniform grids of this kind in the operator's domain, as one file.

    With a ``query`` z is on its points, which are part of the graph, for u of any size.

    ``path`` ends in .pt2 (`torch.export.load`) or .onnx (any ONNX runtime). Batch and sizes are free, patched operators
    take sizes that their patches divide, on nodes one more than these. Normalisation is part of the graph: physical
    units in and out. An .onnx file also says in its metadata the version, the kind of grid and the domain, and
    ``names``, those of the input's channels and those of the output's, and their ``units`` by name, if they are given.
    """
    path = Path(path)
    writers: dict[str, Callable[[OnUniformGrids], bytes]] = {".pt2": _program, ".onnx": _onnx}
    if path.suffix not in writers:
        raise UsageError(f"an exported operator is a .pt2 or an .onnx file: got {path}")
    _refuse(operator, kind)
    module = OnUniformGrids(operator, kind, query).eval()
    module.names, module.units = [list(each) for each in names], dict(units or {})
    write_bytes(path, writers[path.suffix](module))
    return path


class OnUniformGrids(nn.Module):
    """z = operator(u) on the uniform grid of one kind that has the sizes of u: no argument but a tensor."""

    def __init__(self, operator: Operator, kind: UniformKind, query: Grid | None = None) -> None:
        super().__init__()
        self.operator = deepcopy(operator).cpu()
        self.bounds, self.kind, self.query = operator.bounds, kind, query
        self.names: list[list[str]] = []  # of the channels of input and output, for who reads the file
        self.units: dict[str, str] = {}  # by name
        if query is not None:  # what is made of its points is looked at now, and a constant of the graph
            example = self.example()
            with torch.no_grad():
                self.operator(example, Grid.uniform(tuple(example.shape[2:]), self.bounds, kind), query)

    def forward(self, u: Tensor) -> Tensor:
        """(batch, in_channels, *shape) -> (batch, out_channels, *shape)."""
        return self.operator(u, symbolic_grid(u.shape[2:], self.bounds, self.kind), self.query)

    def example(self) -> Tensor:
        """An input to make the graph with."""
        sizes = [count * m + self._shared(count) for count, m in zip(self.operator.partition, TRACED, strict=False)]
        return self.operator.input_mean.new_zeros(TRACED_BATCH, self.operator.in_channels, *sizes)

    def dynamic_shapes(self) -> dict[str, dict[int, Any]]:
        """Which sizes are free: the batch, and along each axis the points of a patch."""
        shapes: dict[int, Any] = {0: Dim("batch", min=1, max=MOST)}
        last = getattr(self.operator, "last", ())
        is_smooth = any(isinstance(layer, Smoothing) for layer in last)  # which keeps the modes of all points
        is_patched = isinstance(_inside(self.operator), PatchedOperator)
        for axis, count in enumerate(self.operator.partition):
            # The modes of a patch of nodes are those of its intervals, and one interval is a case of its own.
            is_one_patch_of_nodes = self.kind == "nodes" and count == 1 and is_patched
            points = Dim(f"n{axis}", min=3 if is_smooth or is_one_patch_of_nodes else 2, max=MOST)
            shapes[2 + axis] = count * points + self._shared(count) if count > 1 else points
        return {"u": shapes}

    def _shared(self, count: int) -> int:
        """The node that ends an axis, which several patches of equally many intervals leave over."""
        return int(self.kind == "nodes" and count > 1)


def _refuse(operator: Operator, kind: UniformKind) -> None:
    """What a graph cannot hold, in one line."""
    inside = _inside(operator)
    if not isinstance(inside, EXPORTED):
        names = ", ".join(kind.__name__ for kind in EXPORTED)
        raise UsageError(f"{names} can be exported: got {type(inside).__name__}")
    if kind not in get_args(UniformKind):
        raise UsageError(f"kind must be one of {', '.join(get_args(UniformKind))}: got {kind!r}")
    if getattr(operator, "sources", None) is not None:
        raise UsageError("sources are chosen by looking at the points, which a graph cannot; set operator.sources=None")
    if getattr(operator, "initial_channels", 0) and kind == "cells":
        raise UsageError("the initial condition needs a point at the start of D, and cells have none; use nodes")
    if kind == "left" and max(inside.partition) > 1:
        raise UsageError("patches of left ends differ in size, which a graph for all sizes cannot hold; use cells")
    if isinstance(inside, PatchedOperator) and isinstance(inside.spectrum.basis, Legendre):
        raise UsageError("the modes of a Legendre basis depend on the number of points by a root; it is not exported")


def _inside(operator: Operator) -> Operator:
    """The operator inside of all wrappers."""
    while isinstance(operator, Wrapper):
        operator = operator.operator
    return operator


def _traced(module: OnUniformGrids) -> ExportedProgram:
    """The graph. What torch cannot prove of all sizes, such as 1 % (2 n) = 1, it compares when the graph runs."""
    shapes = module.dynamic_shapes()
    return torch.export.export(
        module, (module.example(),), dynamic_shapes=shapes, prefer_deferred_runtime_asserts_over_guards=True
    )


def _program(module: OnUniformGrids) -> bytes:
    buffer = BytesIO()
    with _quiet():
        torch.export.save(_traced(module), buffer)
    return buffer.getvalue()


def _onnx(module: OnUniformGrids) -> bytes:
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ResourceError(
            f"an .onnx file needs {missing[0]}, not installed here; try: pip install 'operformer[onnx]'"
        )
    with _quiet():
        made = torch.onnx.export(_traced(module), (), dynamo=True, input_names=["u"], output_names=["z"], verbose=False)
    if made is None:
        raise ResourceError("this torch makes no ONNX graph; try: pip install --upgrade torch onnxscript")
    graph = made.model_proto
    _name_sizes(graph.graph)
    told = {"operformer": __version__, "grid": module.kind, "bounds": json.dumps(module.bounds)}
    told |= dict(zip(("inputs", "outputs"), map(json.dumps, module.names), strict=False))
    if module.units:
        told["units"] = json.dumps(module.units)
    for key, value in told.items():
        entry = graph.metadata_props.add()
        entry.key, entry.value = key, value
    return graph.SerializeToString()


def _name_sizes(graph: Any) -> None:
    """batch, n0, n1, ... for the symbols that torch calls s44, s16, ... in the sizes of all tensors."""
    sizes = [dim.dim_param for dim in graph.input[0].type.tensor_type.shape.dim]
    symbols = [re.findall(r"s\d+", size) for size in sizes]
    names = ["batch", "", *(f"n{axis}" for axis in range(len(sizes) - 2))]
    new = {found[0]: name for found, name in zip(symbols, names, strict=True) if found}
    for tensor in (*graph.input, *graph.output, *graph.value_info):
        for dim in tensor.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = re.sub(r"s\d+", lambda found: new.get(found[0], found[0]), dim.dim_param)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says about packages of its own that are not needed here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
