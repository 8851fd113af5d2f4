"""The ledger as people print it, and whole."""

import polars as pl

import sparsehist as sh
from sparsehist.ledger.table import SCHEMA


def test_the_ledger_fits_a_screen_unless_all_of_it_is_asked_for() -> None:
    """Eight columns are printed without an ellipsis; the limit is a cap, or the budget of the population."""
    store = sh.open(":memory:", seed=1)
    store.set_budget(rho=2)
    log = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
    series = sh.create(
        store, log, name="visits", unit="user", key="url", max_keys=1, domain=sh.Strings(max_bytes=8), cap=1
    )
    series.release("first", level=0.5)
    ledger = store.ledger()
    assert ledger.columns == ["scope", "population", "series", "path", "level", "epsilon", "limit", "remaining"]
    assert "…" not in str(ledger).splitlines()[1]
    limits = dict(ledger.filter(pl.col("scope") != "path").select("scope", "limit").rows())
    assert limits == {"series": "1", "population": "rho 2", "everybody": None}
    assert store.ledger(full=True).columns == list(SCHEMA)
