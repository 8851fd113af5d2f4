"""Release the histogram of a sensitive log under differential privacy, any number of times.

All releases of a series together cost as much as the finest release. Each public name is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparsehist import audiences, dense, errors, histogram, interactive, local, noise, privacy, workload
    from sparsehist.counting import Counting, Counts, Files, Query, check_log
    from sparsehist.counting.sources import check_query
    from sparsehist.counting.with_sql import counting_sql
    from sparsehist.declaration import Every, Keep, Measure, Share, Steps
    from sparsehist.dense.multiple_release import MultipleRelease
    from sparsehist.domain import Catalogue, Dates, Domain, Hash64, Integers, Open, Product, Strings
    from sparsehist.privacy.guarantees import EpsilonDelta
    from sparsehist.release.key_discovery import discover_keys
    from sparsehist.release.planning import Plan, plan
    from sparsehist.release.releases import Release, WorkloadRelease, read
    from sparsehist.series.create import create
    from sparsehist.series.max_keys import choose_max_keys
    from sparsehist.series.store import Store, open, sql
    from sparsehist.sqlfront.analyst import AnalystSession, open_analyst
    from sparsehist.store import adopt

__version__ = "0.1.0"

__all__ = [
    "AnalystSession", "Catalogue", "Counting", "Counts", "Dates", "Domain", "EpsilonDelta", "Every", "Files",
    "Hash64", "Integers", "Keep", "Measure", "MultipleRelease", "Open", "Plan", "Product", "Query", "Release",
    "Share", "Steps", "Store", "Strings", "WorkloadRelease", "adopt", "audiences", "check_log", "check_query",
    "choose_max_keys", "counting_sql", "create", "dense", "discover_keys", "errors", "histogram", "interactive",
    "local", "noise", "open", "open_analyst", "plan", "privacy", "read", "sql", "workload",
]  # fmt: skip

_NAMES = {
    "counting": "Counting Counts Files Query check_log", "counting.with_sql": "counting_sql",
    "declaration": "Every Keep Measure Share Steps", "dense.multiple_release": "MultipleRelease",
    "domain": "Catalogue Dates Domain Hash64 Integers Open Product Strings", "counting.sources": "check_query",
    "release.key_discovery": "discover_keys", "privacy.guarantees": "EpsilonDelta", "release.planning": "Plan plan",
    "release.releases": "Release WorkloadRelease read", "series.create": "create",
    "series.max_keys": "choose_max_keys", "series.store": "Store open sql",
    "sqlfront.analyst": "AnalystSession open_analyst", "store": "adopt",
}  # fmt: skip
_HOME = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _HOME:
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted(__all__)
