"""In accepted queries, deleting a privacy unit or shuffling the rows never changes the rows of other units."""

import re

import duckdb
import numpy as np
import pytest

from sparsehist.guarantee import check, language
from tests.guarantee.breaking_queries import BAD
from tests.guarantee.composed_queries import at_random, bad, good
from tests.guarantee.harmless_queries import FILES, GOOD
from tests.guarantee.oracle import Large, Small, accepted

# Skip statements that contain one of these strings: their results are not rows of the test tables.
NO_TABLES = (*FILES, "glob(", "query(", "duckdb_tables", "describe", "summarize", "; select", "delete", "totals",
             "shout", "nextval")  # fmt: skip
_MEETS = re.compile(r"\bjoin\b|\bover\b|group by|\(select|clicks c|distinct|union", re.IGNORECASE)


@pytest.fixture(scope="module")
def small():
    """Provide databases of small tables: unchanged, shuffled, and for each privacy unit one without its rows."""
    made = Small()
    yield made
    made.engine.close()


@pytest.fixture(scope="module")
def large():
    """Provide databases with large tables: unchanged, shuffled, and without some privacy units."""
    made = Large()
    yield made
    made.close()


IN_TABLES = [name for name, query in GOOD.items() if not any(word in query for word in FILES)]


@pytest.mark.parametrize("name", IN_TABLES)
def test_taking_a_unit_away_takes_its_rows_and_no_others(small, name):
    """In the result of each harmless query, deleting a unit or shuffling rows leaves other units' rows unchanged."""
    query = accepted(GOOD[name])
    for seed in (1, 2):
        assert not small.breaks(query, seed)


# Names of refused queries that do no harm on the small test tables, grouped by the reason.
NO_EXAMPLE = {
    "what it reads is not there": ["file row numbers", "file row number option"],
    "DuckDB itself refuses it, on these rows or on all": ["one of several rows", "states of aggregates"],
    "rows come out in another order than they went in, but not in tables this small": [
        "limit for the unit", "two orders", "a random quantile", "a count of all as an offset",
        "a common table expression by the name DuckDB gives", "the first row of a query without a name",
    ],
    "it hangs on what the session holds, not on rows": ["setseed", "settings"],
    "another way to write it is accepted": ["the unit in, or", "a pivot over all"],
    "no column names the unit": ["a unit left out", "no unit"],
}  # fmt: skip
HARMFUL = [
    name
    for name, (query, _) in BAD.items()
    if not name.startswith("not in the language")
    and all(name not in names for names in NO_EXAMPLE.values())
    and not any(word in query for word in NO_TABLES)
]


@pytest.mark.parametrize("name", HARMFUL)
def test_what_is_refused_does_harm(small, name):
    """Each refused query does harm on some tables: a unit's rows depend on another unit or on the row order."""
    query = BAD[name][0]
    assert any(small.breaks(query, seed) for seed in range(1, 13))


PARTS = [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 8))]


@pytest.mark.parametrize("part", PARTS)
def test_composed_queries_are_told_apart(small, part):
    """The query check accepts 300 safe nested queries, which keep units separate, and refuses 300 unsafe queries."""
    assert len(good()) >= 300 and len(bad()) >= 300
    for name, query in list(good().items())[part::8]:
        ran = accepted(query)
        assert ran is not None and not any(small.breaks(ran, seed) for seed in (1, 2, 3)), name
    for name, query in list(bad().items())[part::8]:
        assert accepted(query) is None, name


@pytest.mark.parametrize("part", PARTS)
def test_composed_queries_hold_on_large_tables(large, part):
    """Safe nested queries keep units separate on tables of 60,000 rows, which DuckDB reads with 1 to 4 threads."""
    for name, query in list(good().items())[part * 5 :: 40]:
        assert not large.breaks(accepted(query)), name


@pytest.mark.parametrize("every", [13, pytest.param(3, marks=pytest.mark.slow)])
def test_the_oracle_sees_what_breaks(small, large, every):
    """Control: on the test tables, over 70 % of sampled harmful queries visibly mix units or depend on row order."""
    queries = list(bad().values())[::every]
    assert np.mean([_is_broken(small, query) for query in queries]) > 0.7
    tied = "select user_id, query, n, ts from log qualify row_number() over (partition by user_id order by ts) = 1"
    assert all(large.breaks(query) for query in (tied, good()["first as it comes of 0"]))
    # The results of this query differ only if threads happen to sort ties differently, so try it up to six times.
    assert any(large.breaks(bad()["two directions of 0"]) for _ in range(6))
    assert not large.breaks(accepted(tied))


def _is_broken(small, query):
    try:
        return any(small.breaks(query, seed) for seed in (1, 2, 3))
    except duckdb.Error:
        return True


@pytest.mark.parametrize(
    ("seed", "number"), [(0, 120), *(pytest.param(seed, 1000, marks=pytest.mark.slow) for seed in range(1, 11))]
)
def test_what_is_accepted_of_queries_at_random_holds(small, seed, number):
    """The query check accepts at least a third of random queries, and every accepted query keeps units separate."""
    rng = np.random.Generator(np.random.PCG64(seed))
    found = meeting = 0
    for _ in range(number):
        ran = accepted(query := at_random(rng))
        if ran is None:
            continue
        assert not small.breaks(ran, 1 + seed % 2), query
        found += 1
        meeting += bool(_MEETS.search(query))
    assert found >= number / 3
    assert meeting >= found / 2


# Dict from each rule of the query check to (object, attribute, value, harmful queries).
# To disable a rule, tests set its attribute to its value, or to a function that always returns this value.
WEAKENED = {
    "ties decide": (check, "picks_rows", False, ("no order", "frames of rows")),
    "order is taken for granted": (
        check.Check,
        "_distinguished",
        set(range(99)),
        ("first as it comes", "list as it comes"),
    ),
    "floats are added": (language, "ADDED_EXACTLY", language.ALLOWED, ("doubles",)),
    "groups of several units": (check.Check, "_require_unit", True, ("a key's count", "all's count", "all's rank")),
    "units meet in joins": (check.Check, "_are_together", True, ("cross", "join on the key", "twice on the key")),
}


SLOW = ("floats are added", "groups of several units")


@pytest.mark.parametrize("rule", [pytest.param(rule, marks=[pytest.mark.slow] * (rule in SLOW)) for rule in WEAKENED])
def test_the_oracle_notices_a_check_that_lacks_a_rule(small, large, rule, monkeypatch):
    """Negative control: with one rule disabled, the query check accepts harmful queries, which the oracle detects."""
    where, name, always, shapes = WEAKENED[rule]
    monkeypatch.setattr(where, name, always if isinstance(always, frozenset) else lambda *_: always)
    for shape in shapes:
        ran = accepted((good() | bad())[f"{shape} of 0"])
        assert ran is not None and (_is_broken(small, ran) or large.breaks(ran)), shape


@pytest.mark.slow
@pytest.mark.parametrize("rule", WEAKENED)
def test_the_oracle_notices_it_in_queries_at_random(small, large, rule, monkeypatch):
    """Negative control: if one rule of the query check is disabled, the oracle finds a harmful random query."""
    where, name, always, _ = WEAKENED[rule]
    monkeypatch.setattr(where, name, always if isinstance(always, frozenset) else lambda *_: always)
    rng = np.random.Generator(np.random.PCG64(99))
    ran = (accepted(at_random(rng)) for _ in range(300))
    assert any(query is not None and (_is_broken(small, query) or large.breaks(query)) for query in ran)
