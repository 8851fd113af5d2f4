# ruff: noqa: E501  a query is easier to read in one line, and stands in a tuple with its reason
"""Harmless queries beside those of `composed_queries`: private tables log, log_b and clicks, public areas and days.

log and log_b: user_id, query, n (whole), w (floating point), ts, country, tags (list), attr (struct).
clicks: user_id, page, ts, user_ref. areas: country, region, weight, user_id. days: day, label.
"""

from __future__ import annotations

# name: query, every one harmless
GOOD = {
    "qualified columns": "select log.user_id, log.query from log",
    "from first": "from log select user_id, query",
    "all columns": "select * from log",
    "all columns of a table": "select l.* from log l join areas using (country)",
    "quoted names": 'select "user_id", "query" from "log"',
    "names in capitals": "SELECT user_id, QUERY AS query FROM Log WHERE USER_ID > 0",
    "an in list": "select user_id, query from log where country in ('DE', 'FR') or query like 'a%'",
    "a row of values": "select user_id, query from log where (country, n) in ((values ('DE', 1), ('FR', 2)))",
    "parts of a struct": "select user_id, attr.a as query from log where attr['a'] is not null",
    "unnest with a number": "select log.user_id, t.tag as query from log cross join unnest(tags) as t(tag)",
    "a regular expression": "select user_id, regexp_extract(query, '[a-z]+') as query from log",
    "order by": "select user_id, query from log order by ts, query",
    "exclude": "select * exclude (w, tags) from log",
    "replace": "select * replace (lower(query) as query) from log",
    "group by number": "select user_id, query, count(*) as n from log group by 1, 2",
    "group by an alias": "select user_id as user_id, lower(query) as q, count(*) n from log group by user_id, q",
    "a named window": "select user_id, query, max(n) over w as m from log window w as (partition by user_id)",
    "join using": "select log.user_id, query from log join areas using (country)",
    "a public sum": "\n        with regions as (select region, sum(weight) as s from areas group by region)\n        select l.user_id, r.region as query from log l join areas a using (country) join regions r using (region)",
    "values": "select user_id, label as query from log join (values ('DE', 'Germany')) v(country, label) using (country)",
    "three private tables": "\n        select a.user_id, a.query from log a join clicks c on c.user_id = a.user_id\n        join log_b b on b.user_id = c.user_id",
    "names of a common table expression": "with c(u, q) as (select user_id, query from log) select u as user_id, q from c",
    "renaming there and back": "select u as user_id, query from (select user_id as u, query from log) group by u, query",
    "parquet files": "select user_id, query from read_parquet('log/*.parquet')",
    "parquet with file names": "select user_id, filename as query from read_parquet('log/*.parquet', filename = true)",
    "a parquet file as a table": "select user_id, query from 'log/day.parquet'",
    "csv with types": "\n        select user_id, query from read_csv('log.csv', auto_detect = false, header = true, delim = ',',\n        columns = {'user_id': 'VARCHAR', 'query': 'VARCHAR'})",
    "a public file": "select log.user_id, query from log join read_csv('areas.csv') using (country)",
    "a comment": "select user_id, -- limit 10\n query /* random() */ from log",
    "words in texts": "select user_id, query from log where query <> 'limit 10; select random()'",
    "a semicolon": "select user_id, query from log;",
    "unicode": "select user_id, query || 'ünï' as query from log where query <> '日本'",
    "two lists taken apart": "select l.user_id, t.a || u.b as query from log l, unnest(l.tags) t(a), unnest([l.query, 'z']) u(b)",
    "a quantile of whole numbers": "select user_id, quantile_cont(n, 0.9)::varchar as query, median(n) as m from log group by user_id",
    "a distinct count of floating-point numbers": "select user_id, count(distinct w)::varchar as query from log group by user_id",
    "ties broken for a first value": "select user_id, first_value(query) over (partition by user_id order by ts) as query from log",
    "ties broken in a join": "select l.user_id, c.page as query from log l join clicks c using (user_id) qualify row_number() over (partition by l.user_id order by l.n) = 1",
    "a name of a table for a common table expression": "with log as (select * from log where n > 1) select user_id, query from log",
    "a left join instead of a correlated query": "select l.user_id, l.query || coalesce(c.k, 0) as query from log l left join (select user_id, count(*) as k from clicks group by user_id) c using (user_id)",
    "a window of floating-point numbers beside row numbers": "select user_id, c::varchar || rn as query from (select user_id, count(*) over (partition by user_id, w) c, row_number() over (partition by user_id order by ts) rn from log)",
    "row numbers of all columns": "select * from log qualify row_number() over (partition by user_id order by ts) = 1",
    "a text as it comes": "select user_id, string_agg(query, ',') as query from log group by user_id",
    "a list as it comes, with ordinality": "select x.user_id, t.q || t.o as query from (select user_id, list(query) as l from log group by user_id) x, unnest(x.l) with ordinality t(q, o)",
    "a part of a list as it comes, in FROM": "select x.user_id, t.q as query from (select user_id, list(query) as l from log group by user_id) x, unnest(x.l[1:1]) t(q)",
    "a list as it comes, beside unnest": "select user_id, unnest(l)::varchar || l::varchar as query from (select user_id, list(query) l from log group by user_id)",
    "two lists as they come": "select user_id, unnest(a) || unnest(b) as query from (select user_id, list(query) a, list(country) b from log group by user_id)",
    "an order by a number that merges others": "select user_id, row_number() over (partition by user_id order by w, w::decimal(18, 1)) || ' ' || w as query from (select user_id, w from log) x",
    "an order by parts that merge others": "select user_id, row_number() over (partition by user_id order by {'a': w::decimal(18, 1)}, {'a': w::decimal(18, 1)}::varchar, w) || ' ' || w as query from (select user_id, w from log) x",
}
