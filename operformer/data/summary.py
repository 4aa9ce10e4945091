"""What a set of samples looks like: shapes, ranges, and the samples that nothing can be learnt from."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import Tensor

from operformer.domain import Grid, Pairs
from operformer.domain.samples import Moments, z_grid

BLOCK = 64  # samples that are looked at together, so that a set on disk need not fit into memory
LISTED = 20


@dataclass(frozen=True)
class Channel:
    """The finite values of one channel; mean and standard deviation are those over D, by the grid's weights."""

    minimum: float
    maximum: float
    mean: float
    std: float


@dataclass(frozen=True)
class Summary:
    """Samples go by their index: with NaN or infinity, with z zero everywhere, (earlier, later) with the same u."""

    count: int
    shape: tuple[int, ...]
    grid: str
    dtype: str
    u: tuple[Channel, ...]
    z: tuple[Channel, ...]
    not_finite_u: tuple[int, ...]
    not_finite_z: tuple[int, ...]
    zero_z: tuple[int, ...]
    repeated_u: tuple[tuple[int, int], ...]

    def lines(self) -> list[str]:
        """The summary for a terminal."""
        pairs = "1 pair" if self.count == 1 else f"{self.count} pairs"
        table = [f"{pairs} of {self.dtype} on {self.grid}", f"{'':8}{'min':>12}{'max':>12}{'mean':>12}{'std':>12}"]
        for name, channels in (("u", self.u), ("z", self.z)):
            for k, one in enumerate(channels):
                numbers = "".join(f"{value:12.4g}" for value in (one.minimum, one.maximum, one.mean, one.std))
                table.append(f"{f'{name}[{k}]':8}{numbers}")
        whats = "u has NaN or infinity in", "z has NaN or infinity in", "z is zero everywhere in"
        for what, samples in zip(whats, (self.not_finite_u, self.not_finite_z, self.zero_z), strict=True):
            if samples:
                noun = "sample" if len(samples) == 1 else "samples"
                listed = _listed([str(k) for k in samples])
                table.append(f"{what} {noun} {listed}; no training takes it (import --skip)")
        if self.repeated_u:
            table.append(f"u is the same in samples {_listed([f'{one} = {other}' for one, other in self.repeated_u])}")
        return table


def summarise(samples: Pairs) -> Summary:
    """Look at every sample once, some at a time, so that a set on disk need not fit into memory."""
    columns = [_Column(channels) for channels in samples.channels]
    dtypes: set[str] = set()
    zero: list[int] = []
    seen: dict[bytes, int] = {}
    repeated: list[tuple[int, int]] = []
    first = 0
    for block in samples.blocks(BLOCK):
        dtypes |= {str(values.dtype).removeprefix("torch.") for values in (block.u, block.z)}
        columns[0].add(block.u.cpu(), block.grid, first)
        columns[1].add(block.z.cpu(), z_grid(block), first)
        zero += [first + k for k in _where((block.z == 0).flatten(1).all(1))]
        for k, one in enumerate(block.u.cpu()):
            key = blake2b(one.contiguous().numpy().tobytes(), digest_size=16).digest()
            if seen.setdefault(key, first + k) < first + k:
                repeated.append((seen[key], first + k))
        first += len(block)
    u, z = columns
    bad = tuple(u.not_finite), tuple(z.not_finite), tuple(zero)
    grids = repr(samples.grid) if samples.query is None else f"{samples.grid}, z on {samples.query}"
    kind = grids, " and ".join(sorted(dtypes))
    return Summary(first, samples.grid.shape, *kind, u.channels(), z.channels(), *bad, tuple(repeated))


class _Column:
    """The channels of u or of z, block by block; a sample that is not finite counts in minimum and maximum only."""

    def __init__(self, channels: int) -> None:
        self._moments = Moments(channels)
        self._minimum = torch.full((channels,), torch.inf, dtype=torch.float64)
        self._maximum = -self._minimum
        self.not_finite: list[int] = []

    def add(self, values: Tensor, grid: Grid, first: int) -> None:
        flat = values.flatten(2).double()
        finite = torch.isfinite(flat)
        self._minimum = torch.minimum(self._minimum, flat.where(finite, torch.inf).amin((0, 2)))
        self._maximum = torch.maximum(self._maximum, flat.where(finite, -torch.inf).amax((0, 2)))
        whole = finite.flatten(1).all(1)
        self.not_finite += [first + k for k in _where(~whole)]
        self._moments.add(flat[whole], grid.of_samples(whole))

    def channels(self) -> tuple[Channel, ...]:
        columns = (self._minimum, self._maximum, self._moments.mean, self._moments.std)
        return tuple(Channel(*(float(c[k]) for c in columns)) for k in range(len(self._minimum)))


def _where(flags: Tensor) -> list[int]:
    return [int(k) for k in flags.nonzero().flatten()]


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - LISTED} more" if len(items) > LISTED else ""
    return ", ".join(items[:LISTED]) + more
