"""Families of noise, one a file, and the protocol they share. Core: numpy and scipy only, no I/O."""

from sparsehist.noise.family import Family
from sparsehist.noise.gaussian import Gaussian

__all__ = ["Family", "Gaussian"]
