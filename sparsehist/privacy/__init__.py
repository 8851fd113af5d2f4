"""Levels, and what the cost of several releases adds up to. Core: numpy and scipy only, no I/O."""

from sparsehist.privacy.composition import Cost, path_cost, total_cost
from sparsehist.privacy.levels import Level, as_level, level_text

__all__ = ["Cost", "Level", "as_level", "level_text", "path_cost", "total_cost"]
