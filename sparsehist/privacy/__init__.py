"""Levels, guarantees, their conversions, and the cost of several releases together.

Core: numpy and scipy only, no I/O. Each kind of noise has a module of conversions: `gaussian`, `zcdp`, `pure`,
`poisson`, `skellam`; privacy filters are in `filters`.
"""

from sparsehist.privacy import filters, gaussian, poisson, pure, skellam, zcdp
from sparsehist.privacy.composition import Cost, path_cost, total_cost
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.privacy.levels import Level, as_level, level_text

__all__ = [
    "Cost",
    "EpsilonDelta",
    "Level",
    "as_level",
    "filters",
    "gaussian",
    "level_text",
    "path_cost",
    "poisson",
    "pure",
    "skellam",
    "total_cost",
    "zcdp",
]
