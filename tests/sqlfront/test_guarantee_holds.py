# ruff: noqa: E501  the queries are easier to read in one line
"""The property itself, on tables small enough to try: take units away, and look at the rows of those that stay."""

from __future__ import annotations

from collections import Counter
from functools import cache

import duckdb
import numpy as np
import polars as pl
import pytest

from sparsehist.errors import GuaranteeError
from sparsehist.sqlfront.guarantee import check_query
from tests.sqlfront.breaking_queries import BAD
from tests.sqlfront.harmless_queries import GOOD, PUBLIC, VIEWS

UNITS = (1, 2, 3, 4, 5, None)
# What reads files is checked in another test; what is no query of tables at all has no rows to look at.
FILES = ("read_", "'log/", "'log.csv'", " log.csv")
NO_TABLES = (
    *FILES,
    "glob(",
    "query(",
    "query_table(",
    "duckdb_tables",
    "describe",
    "summarize",
    "; select",
    "delete",
)


def _log(rng, rows):
    return pl.DataFrame(
        {
            "user_id": rng.choice(UNITS[:5], rows),
            "query": rng.choice(["a", "b", "c", "west"], rows),
            "n": rng.integers(0, 4, rows),
            "w": rng.random(rows).round(1) + 0.1,
            "ts": rng.choice(np.arange("2024-01-01", "2024-01-05", dtype="datetime64[D]"), rows).astype(
                "datetime64[us]"
            ),
            "country": rng.choice(["DE", "FR", "IT"], rows),
            "tags": [[str(x) for x in rng.choice(["a", "b", "x"], 2)] for _ in range(rows)],
            "attr": [{"a": str(x)} for x in rng.choice(["a", "b"], rows)],
        }
    )


def _tables(seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    size = 9 if seed % 2 else 3
    clicks = pl.DataFrame(
        {
            "user_id": pl.Series([*rng.choice(UNITS[:4], size - 1).tolist(), None], dtype=pl.Int64),
            "page": rng.choice(["a", "b", "c"], size),
            "ts": rng.choice(np.arange("2024-01-01", "2024-01-05", dtype="datetime64[D]"), size).astype(
                "datetime64[us]"
            ),
            "user_ref": rng.choice(UNITS[:5], size),
        }
    )
    return {"log": _log(rng, 20 if seed % 2 else 6), "log_b": _log(rng, 8 if seed % 2 else 3), "clicks": clicks}


AREAS = pl.DataFrame(
    {
        "country": ["DE", "DE", "FR", "ES"],
        "region": ["west", "east", "west", "b"],
        "weight": [1.5, 2.0, 3.25, 0.5],
        "user_id": [1, 2, 9, 3],
    }
)
DAYS = pl.DataFrame({"day": [1, 2], "label": ["one", "two"]})


@cache
def _databases(seed):
    """The tables whole, shuffled, and without each unit in turn; each in a database of its own."""
    tables = _tables(seed)
    without = [
        {name: frame.filter(pl.col("user_id").ne_missing(unit)) for name, frame in tables.items()} for unit in UNITS
    ]
    shuffled = {name: frame.sample(fraction=1, shuffle=True, seed=seed) for name, frame in tables.items()}
    named = [f"of_{seed}_{number}" for number in range(2 + len(UNITS))]
    for name, held in zip(named, [tables, shuffled, *without], strict=True):
        _fill(name, held)
    return named[0], named[1], named[2:]


@cache
def _engine():
    return duckdb.connect(config={"threads": 2, "memory_limit": "500MB"})


def _fill(database, tables):
    connection = _engine()
    connection.execute(f"attach ':memory:' as {database}")
    connection.execute(f"use {database}")
    for name, frame in {**tables, "areas": AREAS, "days": DAYS}.items():
        connection.register("given", frame)
        connection.execute(f"create table {name} as select * from given")
        connection.unregister("given")
    for name, text in VIEWS.items():
        connection.execute(f"create view {name} as {text}")
    connection.execute("create sequence s")
    connection.execute("create macro shout(x) as upper(x) || (select count(*) from log)")


def _rows(query, database):
    """The rows of each unit, counted."""
    _engine().execute(f"use {database}")
    result = _engine().execute(query)
    at = [column[0] for column in result.description].index("user_id")
    rows: dict[object, Counter[str]] = {}
    for row in result.fetchall():
        rows.setdefault(row[at], Counter())[repr(row)] += 1
    return rows


def _breaks(query, seed):
    """Whether some unit's rows change when another one goes, or when all rows come in another order."""
    whole, shuffled, without = _databases(seed)
    expected = _rows(query, whole)
    if _rows(query, shuffled) != expected:
        return True
    return any(
        _rows(query, left) != {other: rows for other, rows in expected.items() if other != unit}
        for unit, left in zip(UNITS, without, strict=True)
    )


IN_TABLES = [name for name, query in GOOD.items() if not any(word in query for word in FILES)]


@pytest.mark.parametrize("name", IN_TABLES)
def test_taking_a_unit_away_takes_its_rows_and_no_others(name):
    """In every harmless query the rows of each unit stay when another goes and when all rows are shuffled."""
    for seed in (1, 2):
        assert not _breaks(GOOD[name], seed)


# Refused without an example of harm on these tables.
NO_EXAMPLE = {
    "what it calls or reads is not there": [
        "environment",
        "file row numbers",
        "file row number option",
        "a function of the user",
    ],
    "DuckDB itself refuses it, on these rows or on all": [
        "a public sum of private numbers",
        "one of several rows",
    ],
    "rows come out in another order than they went in, but not in tables this small": [
        "limit for the unit",
        "limit of public, no order",
        "two orders",
        "a random quantile",
        "a query in order by",
    ],
    "it hangs on what the session holds, not on rows": ["setseed", "settings", "variables", "a function in a schema"],
    "another way to write it is accepted": [
        "the unit in, or",
        "a unit twice",
        "columns by a pattern",
        "a pivot",
        "a pivot over all",
    ],
    "no column names the unit": ["a unit left out", "no unit"],
}
HARMFUL = [
    name
    for name, (query, _) in BAD.items()
    if all(name not in names for names in NO_EXAMPLE.values()) and not any(word in query for word in NO_TABLES)
]


@pytest.mark.parametrize("name", HARMFUL)
def test_what_is_refused_does_harm(name):
    """For a query that is refused there are tables in which one unit's rows depend on another unit or on order."""
    query = BAD[name][0]
    assert any(_breaks(query, seed) for seed in range(1, 13))


def test_enough_queries_are_tried():
    """Most of the queries accepted or refused are tried on rows."""
    assert len(IN_TABLES) >= 60
    assert len(HARMFUL) >= 60


@pytest.mark.parametrize("seed", range(3))
def test_what_is_accepted_of_many_queries_holds(seed):
    """Of queries put together at random, those that are accepted keep units apart."""
    rng = np.random.Generator(np.random.PCG64(seed))
    accepted = 0
    for _ in range(40):
        query = _random_query(rng)
        try:
            check_query(query, unit="user_id", public_tables=PUBLIC, views=VIEWS)
        except GuaranteeError:
            continue
        try:
            broken = any(_breaks(query, number) for number in (1, 2))
        except duckdb.Error:  # accepted, but DuckDB finds a column that is not there
            continue
        assert not broken, query
        accepted += 1
    assert accepted >= 3


def _random_query(rng):
    """A query over two tables, joined and gathered in one of many ways, most of them wrong."""

    def one(*choices):
        return choices[rng.integers(len(choices))]

    first, second = (
        one("log", "log_b", "clean", "(select distinct user_id, query, ts from log)"),
        one("clicks", "areas"),
    )
    join = one("join", "left join", "full join", "right join", "semi join", "anti join")
    on = one(
        "on a.user_id = b.user_id",
        "on a.user_id = b.user_id and a.ts > b.ts",
        "on a.ts = b.ts",
        "using (user_id)",
        "on a.user_id = b.user_id or a.query = 'a'",
        "on a.country = b.country",
    )
    unit = one("a.user_id", "b.user_id", "user_id")
    where = one(
        "",
        "where a.query <> 'a'",
        "where a.user_id in (select user_id from log_b)",
        "where exists (select 1 from log_b c where c.user_id = a.user_id and c.query = a.query)",
        "where exists (select 1 from log_b c where c.query = a.query)",
        "where not exists (select 1 from log_b c where c.user_id = a.user_id)",
        "where (select count(*) from log_b) > 4",
    )
    shape = one("plain", "plain", "group", "group all", "window", "distinct")
    if shape == "group":
        by = one(f"group by {unit}", "group by a.query", f"group by {unit}, a.query")
        return f"select {unit} as user_id, count(*) as n, max(a.query) as query from {first} a {join} {second} b {on} {where} {by}"
    if shape == "group all":
        return f"select {unit} as user_id, a.query, count(*) as n from {first} a {join} {second} b {on} {where} group by all"
    if shape == "window":
        over = one(f"partition by {unit}", "partition by a.query", f"partition by {unit} order by a.query")
        return f"select {unit} as user_id, a.query, count(*) over ({over}) n from {first} a {join} {second} b {on} {where}"
    what = one("a.query", "a.ts", "1")
    keyword = "distinct" if shape == "distinct" else ""
    return f"select {keyword} {unit} as user_id, {what} as query from {first} a {join} {second} b {on} {where}"
