"""The problems of Section 6: laws of samples (u, z), each read at any resolution. They never know the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from operformer.problems.controlled_ode import ControlledODE
from operformer.problems.darcy import Darcy
from operformer.problems.kolmogorov import Kolmogorov
from operformer.problems.lorenz63 import Lorenz63
from operformer.problems.problem import Problem
from operformer.problems.symmetry import Symmetry
from operformer.settings import choose, construct

__all__ = ["LAWS", "ControlledODE", "Darcy", "Kolmogorov", "Lorenz63", "Problem", "Symmetry", "describe", "problem_of"]

# The kinds, for settings that describe a problem.
PROBLEMS: dict[str, type[Problem]] = {kind.__name__: kind for kind in (Lorenz63, ControlledODE, Darcy, Kolmogorov)}

# The laws of Section 6, for commands.
LAWS: dict[str, Problem] = {
    "lorenz-y": Lorenz63(recover=("y",)),
    "lorenz-yz": Lorenz63(recover=("y", "z"), initial=True),
    "controlled-ode": ControlledODE(),
    "darcy-lognormal": Darcy("lognormal"),
    "darcy-piecewise": Darcy("piecewise"),
    "darcy-li": Darcy.of_li_et_al(),
    "kolmogorov": Kolmogorov(),
}


def describe(problem: Problem) -> dict[str, Any]:
    """A problem as plain values, which `problem_of` reads back."""
    return {"name": type(problem).__name__} | asdict(problem)  # type: ignore[call-overload]


def problem_of(values: Mapping[str, Any], kinds: Mapping[str, type[Problem]] = MappingProxyType(PROBLEMS)) -> Problem:
    """The problem that plain values describe."""
    settings = dict(values)
    make = choose(kinds, settings.pop("name", "Lorenz63"), "problem.name")
    return construct(make, settings, "problem")
