"""What bounding met is counted exactly, on every engine and for each way of bounding."""

from __future__ import annotations

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.release.stored_declaration import read_bounding

from .logs import TEXTS, a_log, count


@pytest.mark.parametrize("outside", ["error", "drop"])
@pytest.mark.parametrize("weights", [None, [(64, 5), (40, 12)]], ids=["keep", "share"])
def test_pairs_and_units_above_the_bound(outside, weights):
    """Pairs and units above the bound are those that brute force counts among the keys inside the domain."""
    log = a_log(500, 60)
    domain = TEXTS if outside == "error" else sh.Strings(max_bytes=4)
    inside = log.filter(pl.col("query").str.len_bytes() <= (32 if outside == "error" else 4)).unique()
    sizes = inside.group_by("user_id").len()["len"]
    assert 0 < (sizes > 5).sum() < sizes.len()
    found = count(log, domain=domain, on_outside=outside, weights=weights)
    assert (found.bounding.pairs, found.bounding.units_above) == (inside.height, (sizes > 5).sum())
    assert str(inside.height) not in repr(found) + repr(found.bounding)
    if weights is None:
        assert found.frame["count"].sum() == sizes.clip(upper_bound=5).sum()


def test_the_store_keeps_it_for_the_curator(tmp_path):
    """The tally is a private file of the series, shown in the report of the curator alone."""
    series = sh.create(tmp_path / "s", a_log(), name="a", unit="user_id", key="query", max_keys=2, domain=TEXTS)
    with series.store.hold() as state:
        state.verify()
        record = state.series("a")
    sizes = a_log().unique().group_by("user_id").len()["len"]
    assert read_bounding(record) == {"pairs": sizes.sum(), "units_above": (sizes > 2).sum()}
    assert (record.directory / "bounding").stat().st_mode & 0o777 == 0o600
    lost = sizes.sum() - sizes.clip(upper_bound=2).sum()
    assert f"{lost / sizes.sum():.3%}" in series.store.report(curator=True)
    assert f"{lost / sizes.sum():.3%}" not in series.store.report()
