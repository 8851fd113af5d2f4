"""SHOW SERIES, SHOW RELEASES and SHOW LEDGER as tables."""

from __future__ import annotations

import polars as pl

from sparsehist.ledger.table import DEFAULT_DELTA
from sparsehist.series.series_handle import Series
from sparsehist.series.store_handle import Store
from sparsehist.sqlfront.heads import Show
from sparsehist.sqlfront.released import releases


def shown(store: Store, head: Show) -> pl.DataFrame:
    """What a SHOW statement shows; public parameters only."""
    if head.what == "ledger":
        return store.ledger(delta=_delta(head), series=head.series, since=head.since, short=head.short)
    names = store.series_names() if head.series is None else [head.series]
    if head.what == "series":
        return pl.DataFrame([_row(store, store.series(name)) for name in names], schema=_SERIES)
    return pl.concat([releases(store, ""), *(releases(store, name) for name in names)])


def explained(head: Show) -> str:
    """What cannot be told from the table."""
    said = f"epsilon holds at delta {_delta(head):g}, whatever the noise, for what did happen"
    return said if head.what == "ledger" else ""


def _delta(head: Show) -> float:
    return DEFAULT_DELTA if head.delta is None else head.delta


_SERIES = {
    "name": pl.String,
    "unit": pl.String,
    "key": pl.String,
    "max_keys": pl.Int64,
    "domain": pl.String,
    "noise": pl.String,
    "cap": pl.String,
    "population": pl.String,
    "unverified": pl.Boolean,
    "source": pl.String,
    "releases": pl.Int64,
}


def _row(store: Store, series: Series) -> dict[str, object]:
    declared = series.declaration.as_json()
    kept = {field: declared[field] for field in _SERIES if field in declared}
    return {
        "name": series.name,
        **kept,
        "unit": series.declaration.unit_text,
        "source": series.declaration.source or None,
        "key": ", ".join(series.declaration.key),
        "domain": series.declaration.domain.describe(),
        "releases": releases(store, series.name).height,
    }
