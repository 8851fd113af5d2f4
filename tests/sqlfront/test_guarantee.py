from __future__ import annotations

import pytest

from sparsehist.errors import GuaranteeError
from sparsehist.sqlfront.guarantee import check_query
from tests.sqlfront.breaking_queries import BAD
from tests.sqlfront.harmless_queries import GOOD, PUBLIC, VIEWS


def _check(query, **changed):
    given = {"unit": "user_id", "public_tables": PUBLIC, "views": VIEWS, "functions": {"shout"}} | changed
    check_query(query, **given)


@pytest.mark.parametrize("name", GOOD)
def test_a_harmless_query_is_accepted(name):
    """What keeps each unit to its own rows and to public tables is let through."""
    _check(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_a_query_that_breaks_the_guarantee_is_refused(name):
    """What may mix units, or hang on the order of rows, is refused for that reason."""
    query, reason = BAD[name]
    with pytest.raises(GuaranteeError, match=reason):
        _check(query)


KNOWN = {
    "log": {"user_id": "BIGINT", "query": "VARCHAR", "n": "BIGINT", "w": "DOUBLE"},
    "log_b": {"user_id": "BIGINT", "query": "VARCHAR", "n": "BIGINT", "w": "DOUBLE"},
    "swapped": {"query": "VARCHAR", "user_id": "BIGINT", "n": "BIGINT", "w": "DOUBLE"},
    "nobody": {"query": "VARCHAR"},
}


def _columns(text):
    return next((held for name, held in KNOWN.items() if text.rstrip(";").endswith(f" {name}")), {})


def test_what_is_known_of_columns_is_used():
    """With the columns of tables at hand more is accepted, and a private table without the unit is refused."""
    known = "select * from log union all select * from log_b"
    whole_numbers = "select user_id, sum(n)::varchar as query from log group by user_id"
    for query in (known, whole_numbers):
        with pytest.raises(GuaranteeError):
            _check(query)
        _check(query, columns=_columns)
    for query, reason in [
        ("select * from log union all select * from swapped", "one place"),
        ("select user_id, sum(w)::varchar as query from log group by user_id", "floating"),
        ("select user_id, query from nobody", "no column user_id"),
    ]:
        with pytest.raises(GuaranteeError, match=reason):
            _check(query, columns=_columns)


def test_a_refusal_says_where():
    """The place counts characters of the query, in the view it stands in, if it stands in one."""
    query = "select user_id, 'ünï' as query\nfrom log\nlimit 3"
    with pytest.raises(GuaranteeError, match="line 3, column 7") as refused:
        _check(query)
    assert query[refused.value.start : refused.value.end] == "3"
    with pytest.raises(GuaranteeError, match="in the view totals, line 1, column 24") as refused:
        _check("select * from totals")
    assert refused.value.view == "totals"
    with pytest.raises(GuaranteeError, match="no column word"):
        _check("select user_id, query from log", keys=("word",))


def test_enough_is_listed():
    """At least sixty queries of either kind."""
    assert len(GOOD) >= 60
    assert len(BAD) >= 60
