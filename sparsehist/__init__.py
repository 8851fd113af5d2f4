"""Release the histogram of a sensitive log under differential privacy, again and again.

All releases of a series together cost what the finest of them costs, in whatever order they are made.
Names are imported when they are first used, so that `import sparsehist` and the command line start at once.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparsehist import audiences, dense, errors, histogram, interactive, local, noise, privacy, workload
    from sparsehist.counting import Counts, Files, Query, check_log
    from sparsehist.counting.queries import check_query
    from sparsehist.counting.with_sql import CountingSql, counting_sql
    from sparsehist.dense.multiple_release import MultipleRelease
    from sparsehist.domain import Catalogue, Dates, Domain, Hash64, Integers, Open, Product, Strings
    from sparsehist.ledger.signatures import make_keys
    from sparsehist.privacy.guarantees import EpsilonDelta
    from sparsehist.release.creation import create
    from sparsehist.release.planning import Plan, plan
    from sparsehist.release.releases import Release, WorkloadRelease, read
    from sparsehist.series.key_discovery import discover_keys
    from sparsehist.series.max_keys import MaxKeysChoice, choose_max_keys
    from sparsehist.series.periodic_series import PeriodicSeries, create_periodic, open_periodic
    from sparsehist.series.running_series import RunningSeries, create_running, open_running
    from sparsehist.series.series_handle import Series
    from sparsehist.series.store_handle import Store, open
    from sparsehist.sqlfront.analyst import AnalystSession, open_analyst
    from sparsehist.sqlfront.results import SqlResult
    from sparsehist.sqlfront.running import sql
    from sparsehist.store import adopt, backup
    from sparsehist.workload import Identity, Kronecker, Marginals, Prefix, Ranges, Total, Union, Workload

__version__ = "0.1.0"

__all__ = [
    "AnalystSession",
    "Catalogue",
    "CountingSql",
    "Counts",
    "Dates",
    "Domain",
    "EpsilonDelta",
    "Files",
    "Hash64",
    "Identity",
    "Integers",
    "Kronecker",
    "Marginals",
    "MaxKeysChoice",
    "MultipleRelease",
    "Open",
    "PeriodicSeries",
    "Plan",
    "Prefix",
    "Product",
    "Query",
    "Ranges",
    "Release",
    "RunningSeries",
    "Series",
    "SqlResult",
    "Store",
    "Strings",
    "Total",
    "Union",
    "Workload",
    "WorkloadRelease",
    "__version__",
    "adopt",
    "audiences",
    "backup",
    "check_log",
    "check_query",
    "choose_max_keys",
    "counting_sql",
    "create",
    "create_periodic",
    "create_running",
    "dense",
    "discover_keys",
    "errors",
    "histogram",
    "interactive",
    "local",
    "make_keys",
    "noise",
    "open",
    "open_analyst",
    "open_periodic",
    "open_running",
    "plan",
    "privacy",
    "read",
    "sql",
    "workload",
]

_MODULES = ("audiences", "dense", "errors", "histogram", "interactive", "local", "noise", "privacy", "workload")

_HOME = {
    "sparsehist.series.key_discovery": ("discover_keys",),
    "sparsehist.series.max_keys": ("MaxKeysChoice", "choose_max_keys"),
    "sparsehist.counting": ("Counts", "Files", "Query", "check_log"),
    "sparsehist.counting.with_sql": ("CountingSql", "counting_sql"),
    "sparsehist.domain": ("Catalogue", "Dates", "Domain", "Hash64", "Integers", "Open", "Product", "Strings"),
    "sparsehist.counting.queries": ("check_query",),
    "sparsehist.release.creation": ("create",),
    "sparsehist.dense.multiple_release": ("MultipleRelease",),
    "sparsehist.ledger.signatures": ("make_keys",),
    "sparsehist.series.periodic_series": ("PeriodicSeries", "create_periodic", "open_periodic"),
    "sparsehist.privacy.guarantees": ("EpsilonDelta",),
    "sparsehist.release.planning": ("Plan", "plan"),
    "sparsehist.release.releases": ("Release", "WorkloadRelease", "read"),
    "sparsehist.series.running_series": ("RunningSeries", "create_running", "open_running"),
    "sparsehist.series.series_handle": ("Series",),
    "sparsehist.series.store_handle": ("Store", "open"),
    "sparsehist.store": ("adopt", "backup"),
    "sparsehist.sqlfront.analyst": ("AnalystSession", "open_analyst"),
    "sparsehist.sqlfront.results": ("SqlResult",),
    "sparsehist.sqlfront.running": ("sql",),
    "sparsehist.workload": ("Identity", "Kronecker", "Marginals", "Prefix", "Ranges", "Total", "Union", "Workload"),
}

_FROZEN_BY_PYTHON = 1000  # at most; 3.12 begins with 375 objects

_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

_LENT = {
    "ledger": {"in_notebook": "sparsehist.report.html_tables"},
    "series": {
        "in_notebook": "sparsehist.report.html_tables",
        "open_queries": "sparsehist.release.query_session",
        "plan_queries": "sparsehist.release.query_session",
        "plot_largest": "sparsehist.report.plots",
        "plot_plan": "sparsehist.report.plots",
        "save_plot": "sparsehist.report.plots",
        "store_report": "sparsehist.report.store_report",
        "sql": "sparsehist.sqlfront.running",
    },
}
"""Names of a lower package that are made above it, and where. Only this module knows, so arrows run downwards."""


def _find(package: str, homes: Mapping[str, str], name: str) -> object:
    """Import a name from where it is made, when it is first used (PEP 562)."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    collects = gc.isenabled()
    gc.disable()  # hardly anything that modules make is garbage, and looking for it takes a third of their import
    try:
        return getattr(import_module(homes[name]), name)
    finally:
        if collects:
            if gc.get_freeze_count() < _FROZEN_BY_PYTHON:  # else by somebody who wants it so
                gc.freeze()
                gc.unfreeze()  # all that is there counts as old, and is not looked through twice more
            gc.enable()


class _Package(ModuleType):
    """This package: whenever Python makes a subpackage its attribute, it gets the names that are lent to it."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _LENT and isinstance(value, ModuleType):
            vars(value)["__getattr__"] = partial(_find, value.__name__, _LENT[name])
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:  # a type checker that sees __getattr__ takes every misspelt name for a public one

    def __getattr__(name: str) -> object:
        """Import a public name on first use."""
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        value = globals()[name] = _find(__name__, _MODULE_OF, name)
        return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted(__all__)
