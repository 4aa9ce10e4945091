"""Blended patches read at points: the translates and mirror images of a query, where dilated patches are compared.

In units of a patch a point of D is p + y, p the patch and y in [0, 1] its place there. The dilated patch j = p - s has
it at s + y, s = -1, 0 or 1 along each axis, and compares it with q + s + y in every other dilated patch q. So v is
needed at q + y for all q, and where D ends, at 1 - y by an even continuation: a set that no layer leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

from operformer.domain.basis import Basis
from operformer.domain.blending import Overlap, margins_of, window_of
from operformer.domain.grid import Grid
from operformer.domain.reading import Translates, distinct, translates

Shift = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class BlendedTranslates(Translates):
    """`Translates` whose points are closed under the continuation: functions on them are functions on D."""

    overlap: Overlap
    mirrors: tuple[Tensor | None, ...]  # along each axis of D, which point is 1 - y; None where nothing is continued

    def part(self, chosen: Tensor) -> BlendedTranslates:
        """Some of the points along the first axis, closed under its mirrors."""
        place = torch.empty(len(self.local[0]), dtype=torch.long, device=chosen.device)
        place[chosen] = torch.arange(len(chosen), device=chosen.device)
        reached = range(len(self.mirrors)) if self.is_scattered else range(1)
        mirrors = tuple(
            place[mirror[chosen]] if k in reached and mirror is not None else mirror
            for k, mirror in enumerate(self.mirrors)
        )
        return replace(self, local=(self.local[0][chosen], *self.local[1:]), mirrors=mirrors)

    def chunks(self, most: int) -> list[Tensor]:
        """Parts of the first axis that are closed under its mirrors, of about so many latent points."""
        every = torch.arange(len(self.local[0]), device=self.local[0].device)
        mirrors = [m for m in (self.mirrors if self.is_scattered else self.mirrors[:1]) if m is not None]
        orbit = every.unsqueeze(0)
        for mirror in mirrors:
            orbit = torch.cat([orbit, mirror[orbit]])
        first = orbit.amin(0) == every
        orbits = orbit[:, first]
        step = max(1, self._per_chunk(most) // len(orbit))
        return [torch.unique(orbits[:, start : start + step]) for start in range(0, orbits.shape[1], step)]

    @property
    def margins(self) -> tuple[float, ...]:
        """Along each axis."""
        return margins_of(self.overlap, self.n_patches)

    @cached_property
    def shifts(self) -> list[tuple[Shift, Tensor]]:
        """The shifts s whose patches count somewhere, with chi_{p - s} at the points (P, *points, 1)."""
        windows = [self._windows(k) for k in range(len(self.n_patches))]
        found = []
        for shift in product(*windows):
            chi = torch.ones((), dtype=torch.float64, device=self.local[0].device)
            for k, (s, count) in enumerate(zip(shift, self.n_patches, strict=True)):
                one, before = windows[k][s], chi.shape[k:]  # (P_k, M_k); of scattered points (P_k, N)
                chi = chi.unsqueeze(k) if self.is_scattered else chi.unsqueeze(k).unsqueeze(-1)
                points = len(before) if self.is_scattered else len(before) + 1
                shape = (count, *[1] * (points - 1), one.shape[1]) if points else (count, one.shape[1])
                chi = chi * one.reshape(shape)
            if bool((chi > 0).any()):
                found.append((shift, chi.flatten(0, len(self.n_patches) - 1).unsqueeze(-1)))
        return found

    def _windows(self, k: int) -> dict[int, Tensor]:
        """chi_{p - s}(p + y) along one axis, by s."""
        count, r = self.n_patches[k], self.margins[k]
        y = self.local[0][:, k] if self.is_scattered else self.local[k]
        if r == 0:
            return {0: torch.ones(count, len(y), dtype=y.dtype, device=y.device)}
        p = torch.arange(count, dtype=y.dtype, device=y.device).unsqueeze(1)
        is_even, found = self.overlap.continuation == "even", {}
        for s in (-1, 0, 1):
            chi = window_of(p + y, p - s, r, count, is_even)
            found[s] = chi.where((p - s >= 0) & (p - s < count), 0.0) if is_even else chi
        return found

    def rows(self, shift: Shift, device: torch.device) -> Tensor:
        """The patch p - s for each patch p (P,); any if there is no such patch."""
        index = torch.zeros(1, dtype=torch.long, device=device)
        for count, s in zip(self.n_patches, shift, strict=True):
            there = (torch.arange(count, device=device) - s) % count
            index = (index.unsqueeze(-1) * count + there).flatten()
        return index

    def moved(self, v: Tensor, shift: Shift) -> Tensor:
        """v at q + s + y: (batch, P, *points, c) -> the same."""
        d, v = len(self.n_patches), v.unflatten(1, self.n_patches)
        for k, (count, s) in enumerate(zip(self.n_patches, shift, strict=True)):
            mirror = self.mirrors[k]
            if s == 0:
                continue
            if mirror is None:
                v = torch.roll(v, -s, 1 + k)
                continue
            axis = 1 + d + (0 if self.is_scattered else k)
            end = v.narrow(1 + k, count - 1 if s > 0 else 0, 1).index_select(axis, mirror.to(v.device))
            rest = v.narrow(1 + k, 1 if s > 0 else 0, count - 1)
            v = torch.cat([rest, end] if s > 0 else [end, rest], 1 + k)
        return v.flatten(1, d)

    def synthesise(self, coefficients: Tensor, basis: Basis, n_modes: tuple[int, ...]) -> Tensor:
        """sum_j chi_j F_j from the coefficients of functions on the dilated patches (batch, P, sizes, c)."""
        parts = []
        for shift, chi in self.shifts:
            seen = [
                ((y + s + r) / (1 + 2 * r)).clamp(0, 1)
                for y, s, r in zip(self._coordinates(), shift, self.margins, strict=True)
            ]
            transform = self._synthesis(seen, basis, n_modes, coefficients)
            there = transform.synthesise(coefficients.index_select(1, self.rows(shift, coefficients.device)))
            parts.append(chi.to(coefficients) * there)
        return sum(parts[1:], parts[0])


def blended_translates(query: Grid, n_patches: Sequence[int], overlap: Overlap) -> BlendedTranslates:
    """Those of a query whose bounds are D's."""
    plain = translates(query, n_patches)
    is_mirrored = [overlap.continuation == "even" and r > 0 for r in margins_of(overlap, n_patches)]
    if plain.is_scattered:
        return _scattered(plain, overlap, is_mirrored)
    local, places = [], []
    mirrors: list[Tensor | None] = []
    for y, place, mirrored in zip(plain.local, plain.places, is_mirrored, strict=True):
        if not mirrored:
            local.append(y)
            places.append(place)
            mirrors.append(None)
            continue
        closed, which = distinct(torch.stack([y, 1 - y]))
        mirror = which.new_empty(len(closed))
        mirror[which[0]], mirror[which[1]] = which[1], which[0]
        patch, number = place // len(y), place % len(y)
        local.append(closed)
        places.append(patch * len(closed) + which[0][number])
        mirrors.append(mirror)
    return BlendedTranslates(plain.n_patches, plain.bounds, tuple(local), tuple(places), overlap, tuple(mirrors))


def _scattered(plain: Translates, overlap: Overlap, is_mirrored: list[bool]) -> BlendedTranslates:
    """Each point with its mirror images along the axes, one block of all points after the other."""
    points, count = plain.local[0], len(plain.local[0])
    mirrors: list[Tensor | None] = [None] * len(is_mirrored)
    for k, mirrored in enumerate(is_mirrored):
        if not mirrored:
            continue
        image = points.clone()
        image[:, k] = 1 - image[:, k]
        known = len(points)
        for j, mirror in enumerate(mirrors[:k]):
            mirrors[j] = None if mirror is None else torch.cat([mirror, mirror + known])
        every = torch.arange(known, device=points.device)
        mirrors[k] = torch.cat([every + known, every])
        points = torch.cat([points, image])
    patch, number = plain.places[0] // count, plain.places[0] % count
    places = patch * len(points) + number
    return BlendedTranslates(plain.n_patches, plain.bounds, (points,), (places,), overlap, tuple(mirrors))
