"""The problems of Section 6: laws of pairs (u, z), each read at any resolution."""

from operformer.problems.controlled_ode import ControlledODE
from operformer.problems.darcy import Darcy
from operformer.problems.kolmogorov import Kolmogorov
from operformer.problems.lorenz63 import Lorenz63
from operformer.problems.problem import Problem
from operformer.problems.symmetry import Symmetry

__all__ = ["ControlledODE", "Darcy", "Kolmogorov", "Lorenz63", "Problem", "Symmetry"]
