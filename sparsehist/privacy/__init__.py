"""Levels, privacy guarantees, conversions between guarantees, and the joint cost of several releases.

The modules `gaussian`, `zcdp`, `pure`, `poisson` and `skellam` compute the (epsilon, delta) of the noise or
guarantee in their names. Privacy filters are in `filters`. This package needs only numpy and scipy, and does no I/O.
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
