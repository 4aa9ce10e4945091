"""Functions as text for a page: 16 bits for each value, errors by sign and logarithm, in base64."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from operformer.domain import Grid, Samples
from operformer.domain.samples import z_grid
from operformer.files import write_bytes
from operformer.runs.report.figures import STYLE
from operformer.text import drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Array = NDArray[Any]
Encoded = tuple[float, float, str]  # what the lowest and the highest code stand for, and the codes

HIGHEST = 65534
MISSING = 65535  # no number: NaN or infinity
DECADES = 12.0  # below the largest error, beyond which errors count as the smallest one that is kept
NO_ERROR = -300.0  # the logarithm of the largest error where there is none
NEGATIVE = 1 << 15  # the sign of an error; by itself, no number


def encode_values(values: Array) -> Encoded:
    """v = lowest + code / 65534 (highest - lowest): off by at most 8e-6 of the span."""
    values = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(values)
    lowest, highest = (float(f(values[finite])) if finite.any() else 0.0 for f in (np.min, np.max))
    share = (np.where(finite, values, lowest) - lowest) / ((highest - lowest) or 1.0)
    return lowest, highest, _text(np.where(finite, np.rint(share * HIGHEST), MISSING))


def encode_errors(errors: Array) -> Encoded:
    """log10 |e| = lowest + (code - 1) / 32766 (highest - lowest), code 0 is e = 0, bit 15 the sign of e.

    Over twelve decades that is 0.04 % of each error, however small beside the function, so that truth + e gives the
    prediction, and a page need not hold both.
    """
    errors = np.asarray(errors, dtype=np.float64)
    finite, zero = np.isfinite(errors), errors == 0
    size = np.log10(np.abs(np.where(finite & ~zero, errors, 1.0)))
    kept = size[finite & ~zero]
    highest = float(kept.max()) if kept.size else NO_ERROR
    lowest = max(float(kept.min()), highest - DECADES) if kept.size else NO_ERROR
    share = np.clip((size - lowest) / ((highest - lowest) or 1.0), 0.0, 1.0)
    codes = np.rint(share * (NEGATIVE - 2)) + 1 + np.where(errors < 0, NEGATIVE, 0)
    return lowest, highest, _text(np.where(finite, np.where(zero, 0, codes), NEGATIVE))


def encode_floats(values: Array) -> str:
    """Numbers as they are, in 32 bits."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def decode_floats(text: str) -> NDArray[np.float32]:
    """The reverse, in one row; a ValueError for any other text."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")


def _text(codes: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(codes).astype("<u2").tobytes()).decode()


def write_thumbnails(samples: Samples, path: Path, names: Sequence[str] = ()) -> None:
    """Draw the pairs, a column for each, a row for each channel of u and z, into a PNG; channels may have names."""
    buffer = io.BytesIO()
    thumbnails(samples, names).savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    write_bytes(path, buffer.getvalue())


@mpl.rc_context(STYLE)
def thumbnails(samples: Samples, names: Sequence[str] = ()) -> Figure:
    """The pairs side by side."""
    plain = [f"{name}[{k}]" for name, channels in zip("uz", samples.channels, strict=True) for k in range(channels)]
    channels = [(one, samples.grid) for one in samples.u.unbind(1)]
    channels += [(one, z_grid(samples)) for one in samples.z.unbind(1)]
    rows = list(zip(map(drawn, names or plain), channels, strict=True))
    figure = Figure(figsize=(2.3 * len(samples) + 0.8, 2.0 * len(rows) + 0.2), layout="constrained")
    axes = figure.subplots(len(rows), len(samples), squeeze=False)
    for row, (name, (values, grid)) in enumerate(rows):
        for column in range(len(samples)):
            own = grid.of_sample(column)
            one = values[column] if grid.counts is None else values[column, : len(own.points)]
            image = _draw(axes[row, column], one, own)
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
    if grid.cells and grid.dim == 2:
        x, y = grid.points.T.numpy()
        corners = grid.cells[0].corners.numpy()
        return axes.tripcolor(x, y, values.numpy(), triangles=corners, shading="gouraud", rasterized=True)
    if grid.axes is None:
        return axes.scatter(grid.points[:, 0].numpy(), grid.points[:, 1].numpy(), c=values.numpy(), s=4)
    if grid.dim == 3:
        values = values[:, :, values.shape[2] // 2]
    (x, row), (y, column) = (axis.sort() for axis in grid.axes[:2])
    return axes.pcolormesh(x.numpy(), y.numpy(), values[row][:, column].T.numpy(), shading="nearest", rasterized=True)
