# ruff: noqa: E501  a query is easier to read on one line
"""Compose test queries from a source of rows and one or more SELECT templates ("shapes") around the source.

Every source and every shape returns the columns user_id, query, n and ts. A shape reads its rows from `{s}`.
"""

from __future__ import annotations

SOURCES = (
    "log",
    "(select user_id, page as query, 1 as n, ts from clicks where user_id is not null)",
    "(select user_id, query, n, ts from log union all select user_id, query, n, ts from log_b)",
    "(select l.user_id, l.query || a.region as query, n, ts from log l join areas a on a.country = l.country)",
    "(select a.user_id, b.query, a.n, a.ts from log a join log_b b on a.user_id = b.user_id and a.n <= b.n)",
    "(select user_id, unnest(tags) as query, n, ts from log)",
    "(with c as (select user_id, query, n, ts from log where n > 0) select * from c)",
    "(select user_id, query, max(n) as n, max(ts) as ts from log group by user_id, query)",
)
SAFE = {
    "rows": "select user_id, query, n, ts from {s} x",
    "filter": "select user_id, query, n, ts from {s} x where n > 1 or query like 'a%'",
    "compute": "select user_id, upper(query) || n as query, n + 1 as n, ts from {s} x",
    "case": "select user_id, case when n > 1 then query else 'few' end as query, n, ts from {s} x",
    "dates": "select user_id, strftime(ts, '%d') as query, n, date_trunc('day', ts) as ts from {s} x",
    "lists": "select user_id, list_transform([query, 'z'], lambda y: y || n)[1] as query, n, ts from {s} x",
    "unnest": "select user_id, q as query, n, ts from (select user_id, unnest([query, 'z']) as q, n, ts from {s} x)",
    "unnest in from": "select x.user_id, t.q as query, n, ts from {s} x, unnest([x.query, 'z']) t(q)",
    "numbers": "select user_id, query || i as query, n, ts from {s} x, range(2) r(i)",
    "distinct": "select distinct user_id, query, n, ts from {s} x",
    "group": "select user_id, query, count(*) as n, max(ts) as ts from {s} x group by user_id, query",
    "group by all": "select user_id, query, sum(n) as n, min(ts) as ts from {s} x group by all",
    "group of a unit": "select user_id, max(query) as query, count(distinct n) as n, min(ts) as ts from {s} x group by user_id",
    "having": "select user_id, query, max(n) as n, max(ts) as ts from {s} x group by user_id, query having count(*) > 1",
    "ordered": "select user_id, string_agg(query, '' order by query) as query, max(n) as n, min(ts) as ts from {s} x group by user_id",
    "first": "select user_id, first(query order by ts, query) as query, max(n) as n, min(ts) as ts from {s} x group by user_id",
    "filtered": "select user_id, max(query) as query, count(*) filter (where n > 1) as n, min(ts) as ts from {s} x group by user_id",
    "rank": "select user_id, query, n, ts from {s} x qualify rank() over (partition by user_id order by ts) <= 2",
    "count over": "select user_id, query, count(*) over (partition by user_id) as n, ts from {s} x",
    "running": "select user_id, query, sum(n) over (partition by user_id order by ts) as n, ts from {s} x",
    "range": "select user_id, query, count(*) over (partition by user_id order by n range between 1 preceding and current row) as n, ts from {s} x",
    "row numbers": "select user_id, query, n, ts from {s} x qualify row_number() over (partition by user_id order by ts, query, n) <= 2",
    "lag": "select user_id, coalesce(lag(query) over (partition by user_id order by ts, query, n), '-') as query, n, ts from {s} x",
    "two numbers": "select user_id, query, row_number() over w + lead(n, 1, 0) over w as n, ts from {s} x window w as (partition by user_id order by n, ts, query)",
    "public join": "select x.user_id, a.region as query, x.n, x.ts from {s} x join areas a on x.n < a.weight",
    "public left join": "select x.user_id, coalesce(d.label, x.query) as query, x.n, x.ts from {s} x left join days d on d.day = x.n",
    "public semi join": "select user_id, query, n, ts from {s} x semi join days d on d.day = x.n",
    "public anti join": "select user_id, query, n, ts from {s} x anti join areas a on a.region = x.query",
    "in public": "select user_id, query, n, ts from {s} x where n in (select day from days)",
    "not in public": "select user_id, query, n, ts from {s} x where query not in (select region from areas)",
    "a public number": "select user_id, query, n, ts from {s} x where n < (select max(weight) from areas)",
    "private join": "select x.user_id, x.query || c.page as query, x.n, x.ts from {s} x join clicks c on c.user_id = x.user_id",
    "units in WHERE": "select x.user_id, c.page as query, x.n, x.ts from {s} x, clicks c where c.user_id = x.user_id and c.ts >= x.ts and x.n > 0",
    "two units in": "select user_id, query, n, ts from {s} x where n > 0 and user_id in (select user_id from clicks) and (user_id, n) in (select user_id, n from log_b where n < 3)",
    "matches in WHERE": "select x.user_id, x.query, x.n, x.ts from areas a left join {s} x on a.region = x.query where x.user_id is not null and x.n > 0",
    "private left join": "select x.user_id, coalesce(c.page, '-') as query, x.n, x.ts from {s} x left join clicks c on c.user_id = x.user_id and c.ts > x.ts",
    "private semi join": "select user_id, query, n, ts from {s} x semi join clicks using (user_id)",
    "private anti join": "select user_id, query, n, ts from {s} x anti join clicks using (user_id)",
    "unit in": "select user_id, query, n, ts from {s} x where user_id in (select user_id from clicks where page = 'a')",
    "pair in": "select user_id, query, n, ts from {s} x where (user_id, query) in (select user_id, page from clicks)",
    "union": "select user_id, query, n, ts from {s} x union select user_id, page, 1, ts from clicks",
    "last row": "select user_id, query, n, ts from {s} x qualify row_number() over (partition by user_id order by ts desc) = 1",
    "ties of lag": "select user_id, lag(query) over (partition by user_id order by n) as query, n, ts from {s} x",
    "ties of first": "select user_id, first(query order by ts) as query, max(n) as n, min(ts) as ts from {s} x group by user_id",
    "ties of a list": "select user_id, array_to_string(list(query order by n), '') as query, max(n) as n, min(ts) as ts from {s} x group by user_id",
    "top of groups": "select user_id, query, count(*) as n, max(ts) as ts from {s} x group by user_id, query qualify row_number() over (partition by user_id order by count(*) desc, query) = 1",
    "ordinality": "select x.user_id, t.q || t.o as query, n, ts from {s} x, unnest([x.query, 'z']) with ordinality t(q, o)",
    "twice": "with c as (select user_id, query, n, ts from {s} x) select a.user_id, a.query || b.query as query, b.n, a.ts from c a join c b on a.user_id = b.user_id and a.ts < b.ts",
    "counts joined": "select x.user_id, x.query, x.n + t.k as n, x.ts from {s} x join (select user_id, count(*) as k from clicks group by user_id) t using (user_id)",
    "at once": "select user_id, unnest(list(distinct query)) as query, max(n) as n, min(ts) as ts from {s} x group by user_id",
    "first of its group": "select user_id, first(query) as query, max(n) as n, min(ts) as ts from {s} x group by user_id, query",
    "distinct on all": "select distinct on (user_id, query, n, ts) user_id, query, n, ts from {s} x",
    "quantile": "select user_id, max(query) as query, quantile_disc(n, 0.7) as n, min(ts) as ts from {s} x group by user_id",
    "sums of decimals": "select user_id, (sum(n * 0.1)::decimal(18, 1))::varchar as query, max(n) as n, max(ts) as ts from {s} x group by user_id",
    "anti pair": "select user_id, query, n, ts from {s} x anti join clicks c on c.user_id = x.user_id and c.page = x.query",
    "union by name": "select user_id, query, n, ts from {s} x union all by name select n, ts, query, user_id from log_b",
    "renamed": "select u as user_id, q as query, n, ts from (select user_id, query, n, ts from {s} x) as y(u, q, n, ts)",
    "no order": "select user_id, query, row_number() over (partition by user_id) as n, ts from {s} x",
    "frames of rows": "select user_id, max(query) over (partition by user_id order by ts rows 1 preceding) as query, n, ts from {s} x",
    "first as it comes": "select user_id, first(query) as query, max(n) as n, max(ts) as ts from {s} x group by user_id",
    "list as it comes": "select user_id, list(query)::varchar as query, max(n) as n, max(ts) as ts from {s} x group by user_id",
}  # fmt: skip
UNSAFE = {
    "twice on the key": "with c as (select user_id, query, n, ts from {s} x) select a.user_id, b.query, b.n, a.ts from c a join c b on a.query = b.query",
    "exists": "select user_id, query, n, ts from {s} x where exists (select 1 from clicks c where c.page = x.query)",
    "max of others": "select user_id, (select max(c.page) from clicks c where c.ts <= x.ts) as query, n, ts from {s} x",
    "a recursion": "with recursive r as (select user_id, n as k, query, ts from {s} x union all select l.user_id, coalesce(r.k - 1, -1), l.query, l.ts from log l left join r on r.user_id = l.user_id where r.k > 0 or r.k is null and l.n > 9) select user_id, query, k as n, ts from r",
    "limit": "select user_id, query, n, ts from {s} x limit 5",
    "offset": "select user_id, query, n, ts from {s} x order by ts, query, n offset 2",
    "limit and order": "select user_id, query, n, ts from {s} x order by ts, query, n, user_id limit 5",
    "sample": "select user_id, query, n, ts from {s} x using sample 50%",
    "random": "select user_id, query, n, ts from {s} x where random() < 0.5",
    "distinct on": "select distinct on (user_id) user_id, query, n, ts from {s} x",
    "distinct on the key": "select distinct on (query) user_id, query, n, ts from {s} x order by ts",
    "a key's units": "select max(user_id) as user_id, query, count(*) as n, max(ts) as ts from {s} x group by query",
    "a key's count": "select user_id, query, n, ts from {s} x qualify count(*) over (partition by query) > 2",
    "all's count": "select user_id, query, count(*) over () as n, ts from {s} x",
    "all's rank": "select user_id, query, n, ts from {s} x qualify rank() over (order by ts) < 4",
    "all's numbers": "select user_id, query, row_number() over () as n, ts from {s} x",
    "two directions": "select user_id, query, row_number() over (partition by user_id order by query) * 10 + row_number() over (partition by user_id order by query desc) as n, timestamp '2024-01-01' as ts from {s} x",
    "arg_max": "select user_id, arg_max(query, ts) as query, max(n) as n, max(ts) as ts from {s} x group by user_id",
    "mode": "select user_id, mode(query) as query, max(n) as n, max(ts) as ts from {s} x group by user_id",
    "doubles": "select user_id, sum(n * 0.1e0)::varchar as query, max(n) as n, max(ts) as ts from {s} x group by user_id",
    "cross": "select x.user_id, c.page as query, x.n, x.ts from {s} x, clicks c",
    "join on the key": "select x.user_id, c.page as query, x.n, x.ts from {s} x join clicks c on c.page = x.query",
    "units or keys in WHERE": "select x.user_id, c.page as query, x.n, x.ts from {s} x, clicks c where c.user_id = x.user_id or c.page = x.query",
    "units in WHERE of one": "select x.user_id, c.page as query, x.n, x.ts from {s} x, clicks c where c.user_id = c.user_ref and x.n = 1",
    "no match in WHERE": "select coalesce(x.user_id, 1) as user_id, a.region as query, 1 as n, x.ts from areas a left join {s} x on a.region = x.query where x.user_id is null",
    "another's unit": "select c.user_id, x.query, x.n, x.ts from {s} x join clicks c on c.page = x.query",
    "left join on the key": "select x.user_id, coalesce(c.page, '-') as query, x.n, x.ts from {s} x left join clicks c on c.page = x.query",
    "semi join on the key": "select user_id, query, n, ts from {s} x semi join clicks c on c.page = x.query",
    "anti join on the key": "select user_id, query, n, ts from {s} x anti join clicks c on c.ts = x.ts",
    "public kept": "select coalesce(x.user_id, 0) as user_id, d.label as query, x.n, x.ts from days d left join {s} x on d.day = x.n",
    "full join to public": "select coalesce(x.user_id, 0) as user_id, d.label as query, x.n, x.ts from days d full join {s} x on d.day = x.n",
    "key in": "select user_id, query, n, ts from {s} x where query in (select page from clicks)",
    "unit not in": "select user_id, query, n, ts from {s} x where user_id not in (select user_id from clicks)",
    "unit in, as a value": "select user_id, coalesce((user_id in (select user_id from clicks))::varchar, '-') as query, n, ts from {s} x",
    "exists for the key": "select user_id, query, n, ts from {s} x where exists (select 1 from clicks c where c.page = x.query)",
    "exists for all": "select user_id, query, n, ts from {s} x where exists (select 1 from clicks where page = 'a')",
    "more than all's mean": "select user_id, query, n, ts from {s} x where n >= (select avg(n) from log)",
    "count of all": "select user_id, query, (select count(*) from clicks) as n, ts from {s} x",
    "union with public": "select user_id, query, n, ts from {s} x union all select user_id, region, 1, null from areas",
    "union of others": "select user_id, query, n, ts from {s} x union all select user_ref, page, 1, ts from clicks",
    "a unit merged": "select user_id // 2 as user_id, query, n, ts from {s} x",
    "another unit": "select n as user_id, query, n, ts from {s} x",
    "positional": "select x.user_id, d.label as query, x.n, x.ts from {s} x positional join days d",
}  # fmt: skip


def good():
    """Return a dict from name to SQL of all composed queries that keep privacy units separate."""
    return {
        f"{name} of {n}": shape.format(s=source) for name, shape in SAFE.items() for n, source in enumerate(SOURCES)
    }


def bad():
    """Return a dict from name to SQL of all composed queries that mix privacy units or depend on the row order.

    The template "two directions" depends on the row order only if rows tie, so it is not used with the last source,
    which has no ties.
    """
    return {
        f"{name} of {n}": shape.format(s=source)
        for name, shape in UNSAFE.items()
        for n, source in enumerate(SOURCES)
        if (name, n) != ("two directions", 7)
    }


def at_random(rng):
    """Return a random query of one to four nested SELECT templates, of which about 80 % keep units separate."""
    text = SOURCES[rng.integers(len(SOURCES))]
    for _ in range(rng.integers(1, 5)):
        shapes = UNSAFE if rng.random() < 0.2 else SAFE
        text = f"({list(shapes.values())[rng.integers(len(shapes))].format(s=text)})"
    return text[1:-1]
