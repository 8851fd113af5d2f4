"""Levels, guarantees and what follows from them, and what several releases cost together.

Core: numpy and scipy only, no I/O. The exact conversions of one kind of noise stand in modules of their own:
`gaussian`, `zcdp`, `pure`, `poisson`, `skellam`; what may be promised in advance in `filters`.
"""

from typing import TYPE_CHECKING

from sparsehist.privacy.composition import Cost, path_cost, total_cost
from sparsehist.privacy.levels import Level, as_level, level_text

if TYPE_CHECKING:
    from sparsehist.privacy import filters, gaussian, poisson, pure, skellam, zcdp
    from sparsehist.privacy.guarantees import Epsilon, EpsilonDelta, Mu, Rho

__all__ = [
    "Cost",
    "Epsilon",
    "EpsilonDelta",
    "Level",
    "Mu",
    "Rho",
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


def __getattr__(name: str) -> object:
    """Import guarantees and conversions when first asked for: levels are read by commands that need no scipy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sparsehist.privacy import guarantees

    # Importing from a module makes the module a name of its package.
    if name == "filters":
        from sparsehist.privacy.filters import Filter as _Filter  # noqa: F401
    if name == "poisson":
        from sparsehist.privacy.poisson import delta as _poisson  # noqa: F401
    if name == "skellam":
        from sparsehist.privacy.skellam import delta as _skellam  # noqa: F401
    return globals()[name] if name in globals() else getattr(guarantees, name)
