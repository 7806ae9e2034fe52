"""Differential equations behind trajectories: which polynomial law moves the states."""

from exactformer.learning.dynamics.equations import Equations
from exactformer.learning.dynamics.identification import fit_dynamics

__all__ = ["Equations", "fit_dynamics"]
