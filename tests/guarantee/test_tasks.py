# ruff: noqa: E501  a query is easier to read in one line
"""Tasks of every day, written with nothing but docs/sql.md: they are accepted as they stand, and keep units apart."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from sparsehist.counting.contract import Query
from sparsehist.counting.queries import checked
from sparsehist.errors import GuaranteeError

PAGES = pl.DataFrame({"page": ["/", "/buy"], "section": ["home", "shop"]})
UNITS = (1, 2, 3, 4)


def logs(seed):
    """A search log and a click log of four users with many ties, and a user with one row."""
    rng = np.random.Generator(np.random.PCG64(seed))

    def at(number):
        return [datetime(2026, 1, 1) + timedelta(minutes=20 * int(hour)) for hour in rng.integers(0, 90, number)]  # noqa: DTZ001

    n = 24
    baskets = [rng.choice(["x", "y", "z"], rng.integers(0, 4)).tolist() for _ in range(n)]
    log = pl.DataFrame(
        {
            "user_id": rng.choice(UNITS, n),
            "query": rng.choice(["new shoes", "Rain ", "bus 4"], n),
            "ts": at(n),
            "tags": pl.Series(baskets, dtype=pl.List(pl.String)),
            "items": [[{"sku": tag, "qty": i % 2}] for i, tag in enumerate(rng.choice(["x", "y"], n))],
            "attrs": [f'{{"a": {i % 3}}}' for i in range(n)],
        }
    )
    clicks = pl.DataFrame(
        {
            "user_id": rng.choice(UNITS[:3], n // 2),
            "page": rng.choice(["/", "/buy", "/help"], n // 2),
            "ts": at(n // 2),
            "amount": rng.choice([0.1, 0.2, 0.7, 2.5], n // 2),
        }
    )
    return {"log": log, "clicks": clicks}


TASKS = {
    "sessions": "with marked as (select user_id, query, ts, case when ts - lag(ts) over (partition by user_id order by ts) > interval 30 minutes then 1 else 0 end as starts from log) select user_id, query, sum(starts) over (partition by user_id order by ts) as session from marked",
    "session length": "with marked as (select user_id, ts, date_diff('minute', lag(ts) over (partition by user_id order by ts), ts) > 30 as starts from log), numbered as (select user_id, ts, count(*) filter (where starts) over (partition by user_id order by ts) as session from marked) select user_id, least(count(*), 10)::varchar as query from numbered group by user_id, session",
    "funnel": "with steps as (select user_id, min(case when page = '/' then ts end) as home, min(case when page = '/buy' then ts end) as buy from clicks group by user_id) select user_id, case when buy > home then 'bought' when home is not null then 'looked' else 'none' end as query from steps",
    "first of a user": "select user_id, query from log qualify row_number() over (partition by user_id order by ts) = 1",
    "last of a user": "select user_id, query from (select *, row_number() over (partition by user_id order by ts desc) as n from log) where n = 1",
    "join of two logs": "select l.user_id, l.query || ' ' || c.page as query from log l join clicks c on l.user_id = c.user_id and c.ts >= l.ts",
    "dedup": "select distinct user_id, query from log",
    "dedup by window": "select user_id, query from log qualify row_number() over (partition by user_id, query order by ts) = 1",
    "baskets": "select user_id, unnest(tags) as query from log",
    "baskets of structs": "select user_id, i.sku as query from (select user_id, unnest(items) as i from log) where i.qty > 0",
    "pairs in basket": "select l.user_id, a.t || '+' || b.t as query from log l, unnest(l.tags) as a(t), unnest(l.tags) as b(t) where a.t < b.t",
    "hours": "select user_id, strftime(time_bucket(interval 1 hour, ts), '%H') as query from log",
    "top item without tie": "with n as (select user_id, query, count(*) as c from log group by user_id, query) select user_id, query from n qualify row_number() over (partition by user_id order by c desc) = 1",
    "spending": "select user_id, case when sum(amount::decimal(18,2)) > 2 then 'much' else 'little' end as query from clicks group by user_id",
    "public left join": "select c.user_id, coalesce(p.section, 'other') as query from clicks c left join pages p on p.page = c.page",
    "cleaning": "select user_id, lower(trim(regexp_replace(query, '[^a-z]', '', 'g'))) as query from log where query is not null and length(query) > 0",
    "transitions": "select user_id, lag(query) over (partition by user_id order by ts) || '>' || query as query from log qualify lag(query) over (partition by user_id order by ts) is not null",
    "active users": "select user_id, query from log where user_id in (select user_id from clicks where page = '/buy')",
    "exclude users": "select user_id, query from log anti join clicks using (user_id)",
    "search before click": "select c.user_id, l.query from clicks c join log l on l.user_id = c.user_id and l.ts < c.ts qualify row_number() over (partition by c.user_id, c.page order by l.ts desc) = 1",
    "days active": "select user_id, least(count(distinct ts::date), 7)::varchar as query from log group by user_id",
    "retention": "with f as (select user_id, min(ts)::date as first_day from log group by user_id) select l.user_id, date_diff('week', f.first_day, l.ts::date)::varchar as query from log l join f using (user_id)",
    "path list": "select user_id, array_to_string(list(query order by ts), '>') as query from log group by user_id",
    "words": "select user_id, unnest(string_split(lower(query), ' ')) as query from log",
    "json": "select user_id, json_extract_string(attrs, '$.a') as query from log",
}


def _rows(query, tables):
    relation = checked(Query(query, tables, {"pages": PAGES}), "user_id").world.relation()
    at = relation.columns.index("user_id")
    return sorted((row[at], repr(row)) for row in relation.fetchall())


@pytest.mark.parametrize("name", TASKS)
def test_a_task_of_every_day_is_accepted_and_keeps_units_apart(name):
    """Without a user their rows are gone and the others' are as before, in whatever order the log comes."""
    held = logs(1)
    whole = _rows(TASKS[name], held)
    assert whole
    shuffled = {table: rows.sample(fraction=1, shuffle=True, seed=2) for table, rows in held.items()}
    assert _rows(TASKS[name], shuffled) == whole
    for gone in UNITS[:2]:
        left = {table: rows.filter(pl.col("user_id") != gone) for table, rows in held.items()}
        assert _rows(TASKS[name], left) == [row for row in whole if row[0] != gone]


def test_ties_are_broken_by_the_columns_of_the_log():
    """The last row of a user is the one that all its columns say, however the rows come."""
    log = pl.DataFrame({"user_id": [1, 1, 2], "query": ["b", "a", "c"], "ts": [5, 5, 1], "n": [1, 2, 3]})
    last = "qualify row_number() over (partition by user_id order by ts desc) = 1"
    for tables in ({"log": log}, {"query": log}):
        name = f"{min(tables)} as l"
        shuffled = {table: rows.reverse() for table, rows in tables.items()}
        query = f"select user_id, query from {name} {last}"
        assert _rows(query, tables) == _rows(query, shuffled)
    with pytest.raises(GuaranteeError, match="a name, which no column has"):
        _rows(f"select user_id, n as query from query {last}", {"query": log})
