"""The words of the catalogue: the scale of a run, and the protocol that a result at the paper's scale follows."""

from __future__ import annotations

from typing import Literal

from operformer.runs import Experiment

Scale = Literal["smoke", "paper"]
Scales = dict[Scale, Experiment]
Protocol = Literal["paper", "best"]  # see recipes.py
