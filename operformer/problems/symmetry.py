"""Symmetries of a law: moves of D and signs of channels that turn samples into samples of the same operator.

(g u)(x) = s_u u(g^-1 x) and (g z)(x) = s_z z(g^-1 x). On a uniform grid a move permutes the points, so it is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import torch
from torch import Tensor

from operformer.domain import Grid, Pairs, Samples
from operformer.domain.samples import z_grid
from operformer.errors import UsageError


@dataclass(frozen=True)
class Symmetry:
    """The powers g^0, ..., g^(order - 1) of one move.

    Args:
        order: how many powers there are; None, with a shift, is every whole step of the grid.
        flipped: axes that g reverses.
        transposed: whether g exchanges the two axes of a square.
        shifted: (axis, parts): g shifts by 1 / parts of the period. Powers that a grid cannot represent are not drawn.
        u_signs, z_signs: factors of the channels; None is +1 for all.
    """

    order: int | None = 2
    flipped: tuple[int, ...] = ()
    transposed: bool = False
    shifted: tuple[int, int] | None = None
    u_signs: tuple[int, ...] | None = None
    z_signs: tuple[int, ...] | None = None

    def powers(self, grid: Grid, uniform: Tensor) -> Tensor:
        """Uniform numbers (count,) of [0, 1) as powers of g, equally likely among those that the grid can represent."""
        if self.shifted is None:
            return (uniform * (self.order or 1)).long()
        axis, parts = self.shifted
        points = grid.shape[axis]
        if self.order is None:
            return (uniform * points).long()
        stride = parts // gcd(parts, points)  # the least power that shifts by whole steps
        return stride * (uniform * (self.order // stride)).long()

    def move(self, values: Tensor, grid: Grid, powers: Tensor, signs: tuple[int, ...] | None) -> Tensor:
        """Values (count, channels, *shape), each function moved by its own power of g."""
        is_odd = powers % 2 == 1
        for axis in range(values.ndim - 2):
            index = self._sources(grid, axis, powers, is_odd)
            if index is not None:
                shape = [len(powers), 1, *[1] * (values.ndim - 2)]
                shape[2 + axis] = grid.shape[axis]
                values = torch.take_along_dim(values, index.reshape(shape), 2 + axis)
        own = is_odd.reshape(-1, *[1] * (values.ndim - 1))
        if self.transposed:
            values = torch.where(own, values.transpose(-1, -2), values)
        if signs is not None:
            signed = torch.cat([sign * one for sign, one in zip(signs, values.split(1, 1), strict=True)], 1)
            values = torch.where(own, signed, values)
        return values

    def _sources(self, grid: Grid, axis: int, powers: Tensor, is_odd: Tensor) -> Tensor | None:
        """For each function the point (count, n) along an axis whose value comes to each point; None: its own."""
        n = grid.shape[axis]
        index = torch.arange(n, device=powers.device).expand(len(powers), n)
        shifts = self.shifted is not None and self.shifted[0] == axis
        if shifts and self.shifted is not None:
            steps = powers if self.order is None else powers * n // self.shifted[1]
            index = (index - steps[:, None]) % n
        if axis in self.flipped:
            # Around the middle of D; on a periodic grid, whose last point is missing, around its first point.
            mirrored = (-index) % n if grid.kind == "periodic" else n - 1 - index
            index = torch.where(is_odd[:, None], mirrored, index)
        return index if shifts or axis in self.flipped else None


def moved(samples: Samples, symmetries: Sequence[Symmetry], uniform: Tensor) -> Samples:
    """Samples moved by a power of each symmetry in turn, chosen by uniform numbers (symmetries, count) in [0, 1)."""
    u, z, grid = samples.u, samples.z, samples.grid
    for symmetry, draws in zip(symmetries, uniform, strict=True):
        check_symmetry(symmetry, samples)
        powers = symmetry.powers(grid, draws).to(u.device)
        u = symmetry.move(u, grid, powers, symmetry.u_signs)
        z = symmetry.move(z, z_grid(samples), powers, symmetry.z_signs)
    return Samples(u, z, grid, samples.query)


def check_symmetry(symmetry: Symmetry, samples: Pairs) -> None:
    """Refuse samples whose points the symmetry does not permute."""
    if samples.query is not None and symmetry.shifted is not None:
        raise UsageError("shifts need u and z on one grid: got samples with a query; set training.augment to false")
    for grid in {samples.grid, z_grid(samples)}:
        _check_grid(symmetry, grid)


def _check_grid(symmetry: Symmetry, grid: Grid) -> None:
    moves = symmetry.flipped or symmetry.transposed or symmetry.shifted is not None
    if moves and grid.kind not in ("nodes", "cells", "periodic"):
        raise UsageError(f"symmetries that move D need a uniform grid: got {grid}; set training.augment to false")
    if symmetry.shifted is not None and grid.kind == "nodes":
        raise UsageError(f"shifts need a periodic grid or cells: got {grid}; set training.augment to false")
    if symmetry.transposed and (len(grid.shape) != 2 or grid.shape[0] != grid.shape[1]):
        raise UsageError(f"the symmetries of the square need the same number of points along both axes: got {grid}")


def named_symmetries(names: Sequence[str], dim: int, channels: tuple[int, int]) -> tuple[Symmetry, ...]:
    """Symmetries that a user knows of a law, by name: each is one move.

    "mirror x" reverses an axis, "exchange" swaps the axes of a square, "shift x" moves along a period, and "sign"
    changes the signs of u and of z.
    """
    found = []
    for name in names:
        kind, _, letter = name.partition(" ")
        axis = "xyz"[:dim].find(letter) if letter else -1
        if name == "sign":
            found.append(Symmetry(u_signs=(-1,) * channels[0], z_signs=(-1,) * channels[1]))
        elif name == "exchange" and dim == 2:
            found.append(Symmetry(transposed=True))
        elif kind == "mirror" and axis >= 0:
            found.append(Symmetry(flipped=(axis,)))
        elif kind == "shift" and axis >= 0:
            found.append(Symmetry(None, shifted=(axis, 1)))
        else:
            choices = [f'"{kind} {letter}"' for kind in ("mirror", "shift") for letter in "xyz"[:dim]]
            choices += ['"exchange"'] * (dim == 2) + ['"sign"']
            raise UsageError(f"a symmetry in dimension {dim} is {', '.join(choices)}: got {name!r}")
    return tuple(found)


# They generate the eight symmetries of the square, for laws of scalars that treat its corners alike.
SQUARE = (Symmetry(flipped=(0,)), Symmetry(flipped=(1,)), Symmetry(transposed=True))
