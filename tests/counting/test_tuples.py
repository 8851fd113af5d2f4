"""Units that several columns name together: one text for each tuple, on each engine, and counts as by hand."""

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

# What a value of each type is written as; other engines have to write the same.


@given(st.lists(st.tuples(st.text("a1:s", max_size=4), st.text("a1:s", max_size=4)), min_size=1, max_size=30))
def test_two_tuples_are_alike_only_part_by_part(tuples):
    """Different tuples have different texts, even if made of the letters, digits and colons of the form."""
    frame = pl.DataFrame(tuples, schema=["one", "other"], orient="row").filter(pl.all_horizontal(pl.all() != ""))
    assert frame.select(tuple_text(frame.columns, frame.schema)).n_unique() == frame.n_unique()


def _log(rows=900):
    rng = seeded(3)
    days = pl.Series(rng.integers(3, size=rows)).cast(pl.Int32).cast(pl.Date)
    keys = pl.Series([f"p{n}" for n in rng.integers(12, size=rows)])
    return pl.DataFrame({"date": days, "ip": rng.integers(20, size=rows), "query": keys})


def test_taking_one_tuple_out_leaves_the_others_as_they_are():
    """Deleting one tuple changes no other tuple's kept keys, even where they share a part."""
    kept = partial(kept_pairs, unit=("date", "ip"), max_keys=2)
    log = _log(300)
    whole = kept(log)
    assert len({unit for unit, _ in whole}) == log.select("date", "ip").n_unique()
    for day, address in log.select("date", "ip").unique(maintain_order=True).head(12).rows():
        left = log.filter(~((pl.col("date") == day) & (pl.col("ip") == address)))
        of_pair = pl.select(date=pl.lit(day), ip=pl.lit(address))
        written = of_pair.select(tuple_text(["date", "ip"], log.schema)).item()
        assert kept(left) == {pair for pair in whole if pair[0] != written}


def test_a_tuple_with_a_missing_part_is_a_missing_unit():
    """A tuple with a null or empty part is refused or dropped; the error names the column."""
    log = pl.DataFrame({"day": ["a", "b", None, ""], "ip": [1, None, 3, 4], "query": ["k", "k", "k", "k"]})
    with pytest.raises(errors.DataError, match="unit column 'day'"):
        count(log, unit=("day", "ip"))
    assert count(log, unit=("day", "ip"), on_null="drop").frame["count"].to_list() == [1]
    found = check_log(log, unit=("day", "ip"), key=["query"], max_keys=5, domain=TEXTS)
    assert found.filter(rule="null or empty unit")["rows"].item() == 3


def test_a_part_of_the_unit_may_be_a_key(tmp_path):
    """A column may be part of the unit and of the key; the whole unit may not be the key."""
    log = _log()
    series = sh.create(
        sh.open(":memory:", seed=1), log, name="days", unit=("date", "ip"), key=["date", "query"], max_keys=12,
        domain=sh.Product(date=sh.Dates("1970-01-01", "1970-01-05"), query=TEXTS),
    )  # fmt: skip
    assert series.release("a", level=10**4, threshold=0.5).frame.height == log.select("date", "query").n_unique()
    with pytest.raises(errors.DeclarationError, match="no key column"):
        sh.create(":memory:", log, name="days", unit="query", key="query", max_keys=2, domain=TEXTS)


@pytest.mark.parametrize("missing", [pl.lit(None, pl.Int64), pl.lit(""), pl.lit(b"")])
def test_a_tuple_with_a_missing_part_has_no_text(missing):
    """A null or empty part makes the text of the tuple null."""
    frame = pl.select(part=missing, other=17)
    assert frame.select(tuple_text(["part", "other"], frame.schema)).item() is None
