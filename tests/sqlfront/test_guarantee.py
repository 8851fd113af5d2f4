from __future__ import annotations

import pytest

from sparsehist.errors import GuaranteeError
from sparsehist.sqlfront.guarantee import check_query
from tests.sqlfront.guarantee_queries import BAD, GOOD, PUBLIC, VIEWS


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
