# ruff: noqa: E501  a query is easier to read in one line, and stands in a tuple with its reason
"""Harmless queries beside those of `composed_queries`: private tables log, log_b and clicks, public areas and days.

log and log_b: user_id, query, n (whole), w (floating point), ts, country, tags (list), attr (struct).
clicks: user_id, page, ts, user_ref. areas: country, region, weight, user_id. days: day, label.
"""

from __future__ import annotations

# Words of queries that read files.
FILES = ("read_", "'log/", "'log.csv'", " log.csv", "areas.csv")
# name: query, every one harmless
GOOD = {
    "qualified columns": "select log.user_id, log.query from log",
    "from first": "from log select user_id, query",
    "all columns": "select * from log",
    "all columns of a table": "select l.* from log l join areas using (country)",
    "quoted names": 'select "user_id", "query" from "log"',
    "names in capitals": "SELECT user_id, QUERY AS query FROM Log WHERE USER_ID > 0",
    "a row of values": "select user_id, query from log where (country, n) in ((values ('DE', 1), ('FR', 2)))",
    "parts of a struct": "select user_id, attr.a as query from log where attr['a'] is not null",
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
    "a window of floating-point numbers beside row numbers": "select user_id, c::varchar || rn as query from (select user_id, count(*) over (partition by user_id, w) c, row_number() over (partition by user_id order by ts) rn from log)",
    "row numbers of all columns": "select * from log qualify row_number() over (partition by user_id order by ts) = 1",
    "a text as it comes": "select user_id, string_agg(query, ',') as query from log group by user_id",
    "a list as it comes, with ordinality": "select x.user_id, t.q || t.o as query from (select user_id, list(query) as l from log group by user_id) x, unnest(x.l) with ordinality t(q, o)",
    "a part of a list as it comes, in FROM": "select x.user_id, t.q as query from (select user_id, list(query) as l from log group by user_id) x, unnest(x.l[1:1]) t(q)",
    "a list as it comes, beside unnest": "select user_id, unnest(l)::varchar || l::varchar as query from (select user_id, list(query) l from log group by user_id)",
    "two lists as they come": "select user_id, unnest(a) || unnest(b) as query from (select user_id, list(query) a, list(country) b from log group by user_id)",
    "an order by a number that merges others": "select user_id, row_number() over (partition by user_id order by w, w::decimal(18, 1)) || ' ' || w as query from (select user_id, w from log) x",
    "an order by parts that merge others": "select user_id, row_number() over (partition by user_id order by {'a': w::decimal(18, 1)}, {'a': w::decimal(18, 1)}::varchar, w) || ' ' || w as query from (select user_id, w from log) x",
    # Twenty tasks of every day, written with nothing but docs/sql.md.
    "task: sessions": "with marked as (select user_id, query, ts, case when ts - lag(ts) over (partition by user_id order by ts) > interval 1 day then 1 else 0 end as starts from log) select user_id, query, sum(starts) over (partition by user_id order by ts) as session from marked",
    "task: lengths of sessions": "with marked as (select user_id, ts, date_diff('minute', lag(ts) over (partition by user_id order by ts), ts) > 30 as starts from log), numbered as (select user_id, ts, count(*) filter (where starts) over (partition by user_id order by ts) as session from marked) select user_id, least(count(*), 10)::varchar as query from numbered group by user_id, session",
    "task: a funnel": "with steps as (select user_id, min(case when page = 'a' then ts end) as home, min(case when page = 'b' then ts end) as buy from clicks where user_id is not null group by user_id) select user_id, case when buy > home then 'bought' when home is not null then 'looked' else 'none' end as query from steps",
    "task: the last row of a user": "select user_id, query from (select *, row_number() over (partition by user_id order by ts desc) as n from log) where n = 1",
    "task: clicks after searches": "select l.user_id, l.query || ' ' || c.page as query from log l join clicks c on l.user_id = c.user_id and c.ts >= l.ts",
    "task: one row for each query": "select user_id, query from log qualify row_number() over (partition by user_id, query order by ts) = 1",
    "task: baskets": "select user_id, unnest(tags) as query from log",
    "task: baskets of structs": "select user_id, i.sku as query from (select user_id, unnest([{'sku': query, 'qty': n}]) as i from log) where i.qty > 0",
    "task: pairs in a basket": "select l.user_id, a.t || '+' || b.t as query from log l, unnest(l.tags) as a(t), unnest(l.tags) as b(t) where a.t < b.t",
    "task: hours": "select user_id, strftime(time_bucket(interval 1 hour, ts), '%H') as query from log",
    "task: the top item of a user": "with n as (select user_id, query, count(*) as c from log group by user_id, query) select user_id, query from n qualify row_number() over (partition by user_id order by c desc) = 1",
    "task: spending": "select user_id, case when sum(w::decimal(18,2)) > 2 then 'much' else 'little' end as query from log group by user_id",
    "task: cleaning": "select user_id, lower(trim(regexp_replace(query, '[^a-z]', '', 'g'))) as query from log where query is not null and length(query) > 0",
    "task: transitions": "select user_id, lag(query) over (partition by user_id order by ts) || '>' || query as query from log qualify lag(query) over (partition by user_id order by ts) is not null",
    "task: the last search before a click": "select c.user_id, l.query from clicks c join log l on l.user_id = c.user_id and l.ts < c.ts qualify row_number() over (partition by c.user_id, c.page order by l.ts desc) = 1",
    "task: days of activity": "select user_id, least(count(distinct ts::date), 7)::varchar as query from log group by user_id",
    "task: retention": "with f as (select user_id, min(ts)::date as first_day from log group by user_id) select l.user_id, date_diff('week', f.first_day, l.ts::date)::varchar as query from log l join f using (user_id)",
    "task: paths": "select user_id, array_to_string(list(query order by ts), '>') as query from log group by user_id",
    "task: words": "select user_id, unnest(string_split(lower(query), ' ')) as query from log",
    "task: JSON": "select user_id, json_extract_string('{\"a\": ' || n || '}', '$.a') as query from log",
}
