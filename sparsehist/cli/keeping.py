"""Commands that copy, adopt and erase: backup, adopt, drop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import sparsehist as sh
from sparsehist.cli import options
from sparsehist.cli.answer import Answer
from sparsehist.cli.making import confirm
from sparsehist.cli.options import DEFAULT, StorePath, Using, on_disk
from sparsehist.cli.tables import escape
from sparsehist.ledger.ledger import Ledger

_VOUCHED = (
    "Adopting is safe only if the store this was copied from is gone for good, no other copy of it is used, and "
    "nothing was released after this copy was made."
)


def backup(
    store: StorePath,
    destination: Annotated[Path, Parameter(name="DEST", help="New directory for the copy.")],
    /,
    *,
    using: Using = DEFAULT,
) -> Answer:
    """Copy a store, consistently and durably.

    The copy is as secret as the store. It is refused until it is adopted in the
    place of a lost store, and always once the store has released something
    after it: two stores would draw two noises for one level.

    For example:
      sparsehist backup logs.sparsehist /backups/logs.sparsehist
    """
    with using.open(store) as opened:
        opened.backup(destination)
    shown = [f"copied {escape(str(store))} to {escape(str(destination))}; it holds the same secrets"]
    return Answer({"store": str(store), "backup": str(destination)}, shown)


def adopt(
    store: StorePath,
    /,
    *,
    home_is_gone: Annotated[
        bool,
        Parameter(
            help="You vouch that the store this was copied from is gone for good, that no other copy of it is used, "
            "and that nothing was released after this copy was made. Asked for on a terminal.",
        ),
    ] = False,
    using: Using = DEFAULT,
) -> Answer:
    """Accept a copied or restored store in place of one that is gone for good.

    Refused while the original is still where it was, and if anything was released
    from it since the copy was made, as far as that can be known.

    For example:
      sparsehist adopt logs.sparsehist --home-is-gone
    """
    if not home_is_gone and sys.stdin.isatty():
        home_is_gone = input(f"{_VOUCHED} Type 'home is gone' if so: ").strip().lower() == "home is gone"
    sh.adopt(on_disk(store), home_is_gone=home_is_gone, wait=using.wait)
    return Answer({"store": str(store), "status": "adopted"}, [f"{escape(str(store))} is ready for use"])


def drop(
    store: StorePath,
    /,
    *,
    series: options.SeriesName,
    yes: options.Yes = False,
    reason: options.Reason = None,
    using: Using = DEFAULT,
) -> Answer:
    """Erase a series: its keys, counts and noise.

    This cannot be undone. A periodic series itself can be dropped while it holds
    no period and none was released. What the series has cost stays in the
    ledger, and what was published stays published.

    For example:
      sparsehist drop logs.sparsehist --series queries --yes
    """
    with using.open(store) as opened:
        opened.series(series)
        with opened.home.hold() as state:
            warning = Ledger.of(state).ended_by_dropping(series)
        if not yes:
            confirm(f"{warning}Erase the series {series} of {store} for ever? Type its name: ", series, warning)
        opened.drop(series, reason=reason)
    data = {"store": str(store), "series": series, "status": "dropped"}
    shown = [f"{warning}Erased the series {series}; what it has cost stays in the ledger"]
    return Answer(data | ({"warning": warning.strip()} if warning else {}), shown)
