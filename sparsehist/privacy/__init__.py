"""Levels, and what the cost of several releases adds up to. Core: numpy and scipy only, no I/O."""

from sparsehist.privacy.composition import total_cost
from sparsehist.privacy.levels import Level, as_level, level_text

__all__ = ["Level", "as_level", "level_text", "total_cost"]
