"""A privacy unit may consist of several columns, and every engine encodes such a tuple as the same text."""

from functools import partial

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparsehist as sh
from sparsehist import errors
from sparsehist.counting import check_log
from sparsehist.counting.tuples import tuple_text
from sparsehist.entropy import seeded
from tests.counting.logs import TEXTS, count, kept_pairs


@given(st.lists(st.tuples(st.text("a1:s", max_size=4), st.text("a1:s", max_size=4)), min_size=1, max_size=30))
def test_two_tuples_are_alike_only_part_by_part(tuples):
    """Different tuples are encoded as different texts, even if a part contains the separators of the encoding."""
    frame = pl.DataFrame(tuples, schema=["one", "other"], orient="row").filter(pl.all_horizontal(pl.all() != ""))
    assert frame.select(tuple_text(frame.columns, frame.schema)).n_unique() == frame.n_unique()


def test_taking_one_tuple_out_leaves_the_others_as_they_are():
    """Deleting a unit (date, ip) does not change which keys other units keep, even units with the same date."""
    rng = seeded(3)
    days = pl.Series(rng.integers(3, size=300)).cast(pl.Int32).cast(pl.Date)
    keys = pl.Series([f"p{n}" for n in rng.integers(12, size=300)])
    log = pl.DataFrame({"date": days, "ip": rng.integers(20, size=300), "query": keys})
    kept = partial(kept_pairs, unit=("date", "ip"), max_keys=2)
    whole = kept(log)
    assert len({unit for unit, _ in whole}) == log.select("date", "ip").n_unique()
    of_tuple = tuple_text(["date", "ip"], log.schema)
    for (written,) in log.select(of_tuple).unique(maintain_order=True).head(12).rows():
        assert kept(log.filter(of_tuple != written)) == {pair for pair in whole if pair[0] != written}


def test_a_tuple_with_a_missing_part_is_a_missing_unit():
    """Rows without a value in a unit column are refused, or dropped if so declared. The error names the column."""
    log = pl.DataFrame({"day": ["a", "b", None, ""], "ip": [1, None, 3, 4], "query": ["k", "k", "k", "k"]})
    with pytest.raises(errors.DataError, match="unit column 'day'"):
        count(log, unit=("day", "ip"))
    assert count(log, unit=("day", "ip"), on_null="drop").frame["count"].to_list() == [1]
    found = check_log(log, unit=("day", "ip"), key=["query"], max_keys=5, domain=TEXTS)
    assert found.filter(rule="null or empty unit")["rows"].item() == 3


def test_a_part_of_the_unit_may_be_a_key():
    """A column may belong to both the unit and the key, but the key must not contain the whole unit."""
    log = pl.DataFrame({"day": ["a", "a", "b"], "ip": [1, 2, 1], "query": ["k", "k", "k"]})
    domain = sh.Product(day=TEXTS, query=TEXTS)
    found = count(log, unit=("day", "ip"), key=["day", "query"], domain=domain).frame
    assert sorted(found.rows()) == [("a", "k", 2), ("b", "k", 1)]
    with pytest.raises(errors.DeclarationError, match="not a key column"):
        sh.create(":memory:", log, name="days", unit="query", key="query", max_keys=2, domain=TEXTS)
