"""Operators and their samples as the explorer shows them, made up by hand."""

import numpy as np
import pytest

from operformer.runs.report.explorer import Exhibit, Shown


@pytest.fixture(scope="session")
def make_exhibit():
    """An operator whose prediction is the truth and an error of 1e-5 to 1 times ``off``, on some grids."""

    def make(problem, operator, off, shapes, draws=(5, 11, 2), inputs=("a",), outputs=("p", "q"), absent=None):
        views = {label: _shown(shape, draws, len(inputs), len(outputs), off) for label, shape in shapes.items()}
        return Exhibit(problem, operator, inputs, outputs, views, shapes, absent or {})

    return make


def _shown(shape, draws, inputs, outputs, off):
    axes = [np.linspace(0.0, 1.0 + d, n) ** (1 if n % 2 else 2) for d, n in enumerate(shape)]  # even sizes are graded
    mesh = np.stack(np.meshgrid(*axes, indexing="ij")).sum(0)
    u = np.stack([[mesh * (1 + k) + draw for k in range(inputs)] for draw in draws])
    z = np.stack([[np.sin(3 * mesh + draw + k) for k in range(outputs)] for draw in draws])
    signs = np.where(np.arange(mesh.size).reshape(shape) % 3, 1.0, -1.0)
    error = off * signs * 10.0 ** (-5 * mesh / mesh.max())
    errors = off * (1 + np.arange(len(draws))) / 7
    x, y = (*axes, None)[:2]
    return Shown(x, y, u, z, z + error, errors, np.array(draws))
