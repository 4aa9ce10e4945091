"""A picture of the first pairs of a set: curves, images, slices or points."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from torch import Tensor

from operformer.domain import Grid, Samples
from operformer.files import write_bytes
from operformer.runs.report.figures import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_thumbnails(samples: Samples, path: Path, names: Sequence[str] = ()) -> None:
    """Draw the pairs, a column for each, a row for each channel of u and z, into a PNG; channels may have names."""
    buffer = io.BytesIO()
    thumbnails(samples, names).savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    write_bytes(path, buffer.getvalue())


@mpl.rc_context(STYLE)
def thumbnails(samples: Samples, names: Sequence[str] = ()) -> Figure:
    """The pairs side by side."""
    plain = [f"{name}[{k}]" for name, channels in zip("uz", samples.channels, strict=True) for k in range(channels)]
    channels = (*samples.u.unbind(1), *samples.z.unbind(1))
    rows = list(zip(names or plain, channels, strict=True))
    figure = Figure(figsize=(2.3 * len(samples) + 0.8, 2.0 * len(rows) + 0.2), layout="constrained")
    axes = figure.subplots(len(rows), len(samples), squeeze=False)
    for row, (name, values) in enumerate(rows):
        for column in range(len(samples)):
            image = _draw(axes[row, column], values[column], samples.grid)
            if image is not None:
                figure.colorbar(image, ax=axes[row, column], shrink=0.8)
        axes[row, 0].set_ylabel(name)
    return figure


def _draw(axes: Axes, values: Tensor, grid: Grid) -> Any:
    """One function; the picture that a colour bar belongs to, if there is one."""
    values, grid = values.double().cpu(), grid.to("cpu")
    if grid.dim == 1:
        order = grid.points[:, 0].argsort()
        axes.plot(grid.points[order, 0].numpy(), values[order].numpy(), linewidth=1)
        return None
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.set_aspect("equal")
    if grid.axes is None:
        return axes.scatter(grid.points[:, 0].numpy(), grid.points[:, 1].numpy(), c=values.numpy(), s=4)
    if grid.dim == 3:
        values = values[:, :, values.shape[2] // 2]
    (x, row), (y, column) = (axis.sort() for axis in grid.axes[:2])
    return axes.pcolormesh(x.numpy(), y.numpy(), values[row][:, column].T.numpy(), shading="nearest", rasterized=True)
