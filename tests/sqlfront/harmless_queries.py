# ruff: noqa: E501  a query is easier to read in one line, and stands in a tuple with its reason
"""Harmless queries for the tests of the guarantee: private tables log, log_b and clicks, public tables areas and days.

log and log_b: user_id, query, n (whole), w (floating point), ts, country, tags (list), attr (struct).
clicks: user_id, page, ts, user_ref. areas: country, region, weight, user_id. days: day, label.
"""

from __future__ import annotations

PUBLIC = frozenset({"areas", "days", "areas.csv"})

VIEWS = {
    "clean": "select user_id, query, ts from log where query <> ''",
    "totals": "select user_id, query, count(*) over () as n from log",
    "renamed": "select user_id as u, query as q from log",
    "region_names": "select distinct region from areas",
}

# name: query, every one harmless
GOOD = {
    "columns": "select user_id, query from log",
    "qualified columns": "select log.user_id, log.query from log",
    "from first": "from log select user_id, query",
    "all columns": "select * from log",
    "all columns of a table": "select l.* from log l join areas using (country)",
    "quoted names": 'select "user_id", "query" from "log"',
    "names in capitals": "SELECT user_id, QUERY AS query FROM Log WHERE USER_ID > 0",
    "a filter": "select user_id, query from log where n > 1 and country = 'DE'",
    "an expression as key": "select user_id, lower(trim(query)) as query from log",
    "a case as key": "select user_id, case when n > 1 then query else 'few' end as query from log",
    "casts and dates": "select user_id, strftime(ts, '%Y-%m') || query as query from log",
    "an in list": "select user_id, query from log where country in ('DE', 'FR') or query like 'a%'",
    "a row of values": "select user_id, query from log where (country, n) in ((values ('DE', 1), ('FR', 2)))",
    "a lambda": "select user_id, list_transform(tags, lambda x: x || '!')[1] as query from log",
    "parts of a struct": "select user_id, attr.a as query from log where attr['a'] is not null",
    "unnest in the list": "select user_id, unnest(tags) as query from log",
    "unnest in from": "select log.user_id, t.tag as query from log, unnest(log.tags) as t(tag)",
    "unnest with a number": "select log.user_id, t.tag as query from log cross join unnest(tags) as t(tag)",
    "clock": "select user_id, query from log where ts < now() + interval 30 day",
    "a regular expression": "select user_id, regexp_extract(query, '[a-z]+') as query from log",
    "order by": "select user_id, query from log order by ts, query",
    "exclude": "select * exclude (w, tags) from log",
    "replace": "select * replace (lower(query) as query) from log",
    "distinct": "select distinct user_id, query from log",
    "group by": "select user_id, query from log group by user_id, query",
    "group by number": "select user_id, query, count(*) as n from log group by 1, 2",
    "group by all": "select user_id, query, max(ts) as last from log group by all",
    "group by an alias": "select user_id as user_id, lower(query) as q, count(*) n from log group by user_id, q",
    "having": "select user_id, query from log group by user_id, query having count(*) > 1",
    "counts of a unit": "select user_id, max(query) as query from log group by user_id",
    "a distinct count": "select user_id, count(distinct query)::varchar as query from log group by user_id",
    "a sum of whole numbers": "select user_id, sum(n::bigint)::varchar as query from log group by user_id",
    "a filtered count": "select user_id, (count(*) filter (where n > 1))::varchar as query from log group by user_id",
    "first, in full order": "select user_id, first(query order by ts, query) as query from log group by user_id",
    "a sorted list": "select user_id, string_agg(query, ',' order by query) as query from log group by user_id",
    "grouping sets": "select user_id, query from log group by grouping sets ((user_id), (user_id, query))",
    "rank in a unit": "select user_id, query from log qualify rank() over (partition by user_id order by ts) <= 2",
    "count over a unit": "select user_id, query from log qualify count(*) over (partition by user_id) > 1",
    "row numbers in full order": """
        select user_id, query from log
        qualify row_number() over (partition by user_id order by ts, query) <= 2""",
    "lag in full order": """
        select user_id, query || coalesce(lag(query) over (partition by user_id order by ts, query), '') as query
        from log""",
    "row numbers of groups": """
        select user_id, query from log group by user_id, query
        qualify row_number() over (partition by user_id order by count(*) desc, query) = 1""",
    "a named window": "select user_id, query, max(n) over w as m from log window w as (partition by user_id)",
    "a window and its range": """
        select user_id, query from log
        qualify count(*) over (partition by user_id order by n range between 1 preceding and current row) > 1""",
    "join to public": "select log.user_id, region as query from log join areas on log.country = areas.country",
    "join using": "select log.user_id, query from log join areas using (country)",
    "left join to public": """
        select l.user_id, coalesce(a.region, 'none') as query from log l left join areas a on a.country = l.country""",
    "join to public by an inequality": "select l.user_id, query from log l join areas a on l.n < a.weight",
    "semi join to public": "select user_id, query from log semi join areas using (country)",
    "anti join to public": "select user_id, query from log anti join areas using (country)",
    "in public": "select user_id, query from log where country in (select country from areas where region = 'west')",
    "not in public": "select user_id, query from log where country not in (select country from areas)",
    "exists in public": """
        select user_id, query from log where exists (select 1 from areas a where a.country = log.country)""",
    "a public number": "select user_id, query from log where n < (select avg(areas.weight) from areas)",
    "top of a public table": """
        with top as (select country from areas order by weight desc limit 2)
        select user_id, query from log where country in (select country from top)""",
    "a public sum": """
        with regions as (select region, sum(weight) as s from areas group by region)
        select l.user_id, r.region as query from log l join areas a using (country) join regions r using (region)""",
    "values": "select user_id, label as query from log join (values ('DE', 'Germany')) v(country, label) using (country)",
    "a range": "select user_id, query || i as query from log, range(2) r(i)",
    "self join on the unit": """
        select a.user_id, a.query || b.query as query from log a join log b on a.user_id = b.user_id and a.n < b.n""",
    "private join using the unit": "select user_id, page as query from log join clicks using (user_id)",
    "private join in where": "select log.user_id, page as query from log, clicks where log.user_id = clicks.user_id",
    "private left join": """
        select l.user_id, coalesce(c.page, 'none') as query
        from log l left join clicks c on l.user_id = c.user_id and c.ts > l.ts""",
    "private full join": "select user_id, coalesce(query, page) as query from log full join clicks using (user_id)",
    "three private tables": """
        select a.user_id, a.query from log a join clicks c on c.user_id = a.user_id
        join log_b b on b.user_id = c.user_id""",
    "private semi join": "select user_id, query from log semi join clicks on log.user_id = clicks.user_id",
    "private anti join": "select user_id, query from log anti join clicks using (user_id)",
    "exists for the unit": """
        select user_id, query from log l where exists (select 1 from clicks c where c.user_id = l.user_id)""",
    "not exists for the unit": """
        select user_id, query from log l
        where not exists (select 1 from clicks c where c.user_id = l.user_id and c.page = l.query)""",
    "the unit in": "select user_id, query from log where user_id in (select user_id from clicks where page = 'a')",
    "unit and key in": "select user_id, query from log where (user_id, query) in (select user_id, page from clicks)",
    "a count of the unit's rows": """
        select user_id, query from log l where (select count(*) from clicks c where c.user_id = l.user_id) > 1""",
    "not in the unit's rows": """
        select user_id, query from log l
        where query not in (select page from clicks c where c.user_id = l.user_id and page is not null)""",
    "a lateral query": """
        select l.user_id, x.m as query from log l,
        lateral (select max(page) as m from clicks c where c.user_id = l.user_id) x""",
    "union all": "select user_id, query from log union all select user_id, query from log_b",
    "union": "select user_id, query from log union select user_id, page from clicks",
    "union all by name": "select user_id, query from log union all by name select query, user_id from log_b",
    "except": "select user_id, query from log except select user_id, page from clicks",
    "intersect": "select user_id, query from log intersect select user_id, page from clicks",
    "except public": "select user_id, country as query from log except select user_id, country from areas",
    "a common table expression": "with c as (select user_id, query from log) select * from c",
    "names of a common table expression": "with c(u, q) as (select user_id, query from log) select u as user_id, q from c",
    "two of them": """
        with a as (select user_id, query from log where n > 1), b as (select user_id from a group by user_id)
        select a.user_id, a.query from a join b using (user_id)""",
    "a query in from": "select user_id, query from (select user_id, query from log where n > 1) as x",
    "names of a query": "select u as user_id, q as query from (select user_id, query from log) as x(u, q)",
    "renaming there and back": "select u as user_id, query from (select user_id as u, query from log) group by u, query",
    "counts joined back": """
        select l.user_id, l.query from log l
        join (select user_id, count(*) as c from log group by user_id) t on t.user_id = l.user_id where c < 9""",
    "unpivot": "select user_id, v as query from (unpivot (select user_id, query, country from log) on query, country into name k value v)",
    "a recursion in a unit": """
        with recursive r as (
            select user_id, n, 0 as depth from log
            union all select r.user_id, r.n, r.depth + 1 from r where r.depth < 2)
        select user_id, depth::varchar as query from r""",
    "a public recursion": """
        with recursive r(i) as (select 1 union all select i + 1 from r where i < 3)
        select user_id, query || i as query from log, r""",
    "parquet files": "select user_id, query from read_parquet('log/*.parquet')",
    "parquet with file names": "select user_id, filename as query from read_parquet('log/*.parquet', filename = true)",
    "a parquet file as a table": "select user_id, query from 'log/day.parquet'",
    "csv with types": """
        select user_id, query from read_csv('log.csv', auto_detect = false, header = true, delim = ',',
        columns = {'user_id': 'VARCHAR', 'query': 'VARCHAR'})""",
    "a public file": "select log.user_id, query from log join read_csv('areas.csv') using (country)",
    "a view": "select user_id, query from clean",
    "a view with other names": "select u as user_id, q as query from renamed",
    "a public view": "select user_id, query from log where country in (select region from region_names)",
    "a comment": "select user_id, -- limit 10\n query /* random() */ from log",
    "words in texts": "select user_id, query from log where query <> 'limit 10; select random()'",
    "a semicolon": "select user_id, query from log;",
    "unicode": "select user_id, query || 'ünï' as query from log where query <> '日本'",
}
