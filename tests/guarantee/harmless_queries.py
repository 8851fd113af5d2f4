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
    "a sum of whole numbers": "select user_id, sum(n::bigint)::varchar as query from log group by user_id",
    "a filtered count": "select user_id, (count(*) filter (where n > 1))::varchar as query from log group by user_id",
    "a named window": "select user_id, query, max(n) over w as m from log window w as (partition by user_id)",
    "join to public": "select log.user_id, region as query from log join areas on log.country = areas.country",
    "join using": "select log.user_id, query from log join areas using (country)",
    "join to public by an inequality": "select l.user_id, query from log l join areas a on l.n < a.weight",
    "a public number": "select user_id, query from log where n < (select avg(areas.weight) from areas)",
    "a public sum": "\n        with regions as (select region, sum(weight) as s from areas group by region)\n        select l.user_id, r.region as query from log l join areas a using (country) join regions r using (region)",
    "values": "select user_id, label as query from log join (values ('DE', 'Germany')) v(country, label) using (country)",
    "self join on the unit": "\n        select a.user_id, a.query || b.query as query from log a join log b on a.user_id = b.user_id and a.n < b.n",
    "three private tables": "\n        select a.user_id, a.query from log a join clicks c on c.user_id = a.user_id\n        join log_b b on b.user_id = c.user_id",
    "union all": "select user_id, query from log union all select user_id, query from log_b",
    "names of a common table expression": "with c(u, q) as (select user_id, query from log) select u as user_id, q from c",
    "two of them": "\n        with a as (select user_id, query from log where n > 1), b as (select user_id from a group by user_id)\n        select a.user_id, a.query from a join b using (user_id)",
    "a query in from": "select user_id, query from (select user_id, query from log where n > 1) as x",
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
    "a floating-point sum that nothing uses": "select user_id, query from (select user_id, query, sum(w) as s from log group by all)",
}
