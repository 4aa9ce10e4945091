"""What the channels of a set of pairs are called and mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operformer.problems.problem import Boundary


@dataclass(frozen=True)
class Fields:
    """What the channels are called, when they hold, and what holds at the edge of D.

    With ``times``, u's channel and z's are one field at these times.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    times: tuple[float, ...] | None = None
    boundary: Boundary = "open"
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def series(self) -> str:
        """The name of the one field: vorticity, if its moments are vorticity_0, vorticity_1, ..."""
        return self.inputs[0].removesuffix("_0")
