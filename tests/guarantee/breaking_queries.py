# ruff: noqa: E501  a query is easier to read in one line
"""Queries that are refused, by words of the reason; the tables are those of `harmless_queries`.

Those whose name begins with "not in the language" keep units apart, and are refused all the same.
"""

# words of the reason: name: query
BAD_BY_REASON = {
    "LIMIT": {
        "limit": "select user_id, query from log limit 2",
        "limit in percent": "select user_id, query from log limit 50%",
        "limit in a common table expression": "with c as (from log limit 2) select user_id, query from c",
        "limit for the unit": "select user_id, (select page from clicks c where c.user_id = l.user_id order by ts limit 1) as query from log l",
        "limit of public, no order": "with t as (select country from areas limit 2) select user_id, query from log semi join t using (country)",
        "a count of all as a limit": "with top as (select country from areas order by weight limit (select count(*) // 4 from log_b)) select user_id, query from log semi join top using (country)",
        "a count of all as an offset": "with top as (select country from areas order by weight limit 1 offset (select count(*) // 4 from log_b)) select user_id, query from log semi join top using (country)",
        "a table that differs in a letter": 'with "ä" as (select user_id, query from log), "Ä" as (select user_id, query from log limit 3) select user_id, query from "Ä"',
    },
    "sample": {
        "sample": "select user_id, query from log using sample 50%",
        "tablesample": "select user_id, query from log tablesample reservoir(2 rows)",
    },
    "random": {
        "random": "select user_id, query from log where random() < 0.5",
    },
    "uuid": {
        "uuid": "select user_id, uuid()::varchar as query from log",
    },
    "not in the language": {
        "nextval": "select user_id, nextval('s')::varchar as query from log",
        "setseed": "select user_id, query from log where setseed(0.5) is null",
        "settings": "select user_id, current_setting('threads') as query from log",
        "statistics": "select user_id, stats(query) as query from log",
        "a macro over a builtin": "select user_id, shout(query) as query from log",
        "as many as the first row says": "select user_id, max(query, n + 1)::varchar as query from log group by user_id",
        "as many as the first row of a window says": "select user_id, (min(query, n + 1) over (partition by user_id))::varchar as query from log",
        "bits of one of two NaNs": "select user_id, last(w)::bit::varchar as query from (select user_id, w from log) x group by user_id",
        "bits of floats in a list": "select user_id, (list(w)::bit[])::varchar as query from log group by user_id",
        "arg_max": "select user_id, arg_max(query, ts) as query from log group by user_id",
        "a deviation": "select user_id, stddev(w)::varchar as query from log group by user_id",
        "a random quantile": "select user_id, reservoir_quantile(n, 0.5)::varchar as query from log group by user_id",
        "a query in a text": "select user_id, query from query('select * from log limit 2')",
        "tables of the catalogue": "select user_id, table_name as query from log, duckdb_tables()",
    },
    "rowid": {
        "rowid": "select user_id, rowid as query from log",
        "row numbers joined": "select a.user_id, a.query from log a join areas b using (rowid)",
    },
    "file_row_number": {
        "file row numbers": "select user_id, file_row_number as query from read_parquet('l.parquet')",
        "file row number option": "select user_id, query from read_parquet('l.parquet', file_row_number = true)",
    },
    "DISTINCT ON": {
        "distinct on": "select distinct on (user_id) user_id, query from log order by ts",
    },
    "DISTINCT merges": {
        "distinct without the unit": "select l.user_id, q.query from log l join (select distinct page as query from clicks) q using (query)",
    },
    "GROUP BY": {
        "having over all": "select l.user_id, l.query from log l join (select query from log group by query having count(*) > 2) q using (query)",
        "any": "select user_id, query from log where n > any (select n from log_b)",
        "a query in order by": "select user_id, query from log order by (select count(*) from clicks)",
        "a query in values": "select user_id, query from log join (values ((select max(n) from log_b))) v(n) using (n)",
        "values of some rows": "with c as materialized (select user_id, query, n from log), v as (select query from c where n = 1 group by query) select c.user_id, c.query from c join v on c.query = v.query",
        "values of no row": "with c as materialized (select user_id, query, n from log), v as (select query from c where n = 1 group by query) select c.user_id, c.query from c anti join v on c.query = v.query",
        "values as units": "with c as materialized (select user_id, query from log) select query as user_id, query from c group by query",
        "values passed off as units": "with c as materialized (select user_id, query from log), v as (select query from c group by query) select v.query as user_id, c.query from c join v on c.query = v.query",
    },
    "grouping sets": {
        "rollup": "select user_id, query from log group by rollup (user_id, query)",
        "a grouping set without": "select user_id, query from log group by grouping sets ((user_id, query), (query))",
    },
    "PARTITION BY": {
        "a named window over all": "select user_id, query from log window w as (order by ts) qualify sum(n::int) over w > 2",
    },
    "tie in ORDER": {
        "the first row of a query without a name": "select user_id, first(query) as query from (select user_id, query from log) group by user_id",
        "the last value of all that tie": "select user_id, last_value(query) over (partition by user_id order by ts) as query from log",
        "the second value of all that tie": "select user_id, nth_value(query, 2) over (partition by user_id order by ts) as query from log",
        "order by a part of a struct of the name of a column": "select user_id, query from (select user_id, query, ts, {'query': 1} as s from log) qualify row_number() over (partition by user_id order by ts, s.query) = 1",
    },
    "two windows": {
        "two orders": "select user_id, query, row_number() over (partition by user_id order by ts, query) as a,\n        row_number() over (partition by user_id order by query, ts) as b from log",
    },
    "mode": {
        "mode": "select user_id, mode(query) as query from log group by user_id",
    },
    "floating-point": {
        "not in the language: a floating-point sum that nothing uses": "select user_id, query from (select user_id, query, sum(w) as s from log group by all)",
        "a floating-point sum as a condition": "select user_id, query from (select user_id, query, sum(w) as s from log group by all) where s > 1",
        "a floating-point sum in order by": "select user_id, query from (select user_id, query, sum(w) as s from log group by all) order by s",
        "a floating-point sum in a join": "select l.user_id, l.query from (select user_id, query, sum(w) as s from log group by all) x join log l on x.user_id = l.user_id and l.w < x.s",
        "a floating-point sum as a number of rows": "select x.user_id, count(*)::varchar as query from (select user_id, query, sum(w) as s from log group by all) x, unnest(range((x.s * 10)::int)) t(q) group by x.user_id",
        "a floating-point sum in distinct": "select user_id, count(*)::varchar as query from (select distinct * from (select user_id, query, sum(w) as s from log group by all)) group by user_id",
        "a floating-point sum in a partition": "select user_id, count(*) over (partition by user_id, s)::varchar as query from (select user_id, query, sum(w) as s from log group by all)",
        "a floating-point sum": "select user_id, sum(w)::varchar as query from log group by user_id",
    },
    "rows of different units": {
        "self join on the key": "select a.user_id, b.query from log a join log b on a.query = b.query",
        "not in the language: units compared in WHERE": "select l.user_id, c.page as query from log l, clicks c where c.user_id = l.user_id",
        "a cross join": "select a.user_id, b.query from log a, log b",
        "a private join on time": "select l.user_id, page as query from log l join clicks c on c.ts between l.ts - interval 1 day and l.ts",
        "units equal but for a function": "select a.user_id, b.query from log a join log b on a.user_id % 2 = b.user_id % 2",
        "the unit with another column": "select l.user_id, c.page as query from log l join clicks c on l.user_id = c.user_ref",
        "a unit equal to itself": "select a.user_id, b.query from log a, log b where a.user_id = a.user_id",
        "two of three": "select a.user_id, c.page as query from log a join log_b b using (user_id) join clicks c on c.ts = b.ts",
        "equalities among the kept": "select a.user_id, b.query from log a cross join log b left join clicks c on c.user_id = a.user_id and a.user_id = b.user_id",
        "a partner that makes two equal": "select a.user_id, b.query from log a cross join log b left join clicks c on c.user_id = a.user_id and c.user_id = b.user_id",
        "a common table expression against itself": "with c as (select user_id, query from log) select a.user_id, b.query from c a, c b",
        "a common table expression joined on the key": "with c as (select user_id, query from log) select a.user_id, b.query from c a join c b using (query)",
    },
    "partner": {
        "public kept beside private": "select coalesce(l.user_id, 0) as user_id, region as query from areas a left join log l using (country)",
        "the key not in": "select user_id, query from log where query not in (select page from clicks)",
        "another column in": "select user_id, query from log where user_id in (select user_ref from clicks)",
    },
    "LEFT JOIN with the tables": {
        "public kept on the right": "select l.user_id, region as query from log l right join areas a using (country)",
    },
    "full join": {
        "public kept in full": "select l.user_id, region as query from log l full join areas a using (country)",
    },
    "positional join": {
        "a positional join": "select log.user_id, region as query from log positional join areas",
    },
    "asof join": {
        "an asof join of rows that tie": "select l.user_id, page as query from log l asof join clicks c on l.user_id = c.user_id and l.ts >= c.ts",
    },
    "EXISTS": {
        "exists for a name of one's own": "select user_id, query from log where exists (select 1 from clicks c where user_id = c.user_id)",
        "exists for an alias": "select u as user_id, query from (select user_id as u, query from log) l where exists (select c.user_id + 0 as u from clicks c where u = c.user_id)",
        "a part of a column that has the name of a table": "select l.user_id, l.query from log l where exists (select 1 from (select c.user_id as u, unnest([{'user_id': c.user_id}]) as l from clicks c) x where x.u = l.user_id)",
        "a letter that is another to DuckDB": "select a.user_id, a.query from log a where exists (select 1 from (select user_id as \"uſer_id\", page from clicks) c where user_id = a.user_id and page = 'a')",
        "a name DuckDB makes": 'select l.u as user_id, l.query from (select user_id as u, user_id as "abs(user_id)", query from log) l where exists (select 1 from (select user_id, abs(user_id) from clicks) x where x.user_id = "abs(user_id)")',
        "a name DuckDB makes for a second column": "select l.user_id_1 as user_id, l.query from (select user_id as user_id_1, query from log) l where exists (select 1 from (select c.user_id, c.user_id from clicks c) x where x.user_id = user_id_1)",
        "a join unpivoted": "select c.user_id, c.page as query from clicks c where exists (select 1 from (areas cross join (select n from log where query = 'a')) unpivot (v for k in (region)))",
    },
    "false or null": {
        "a mark that tells apart rows of one number": "select user_id, 'x' as query from (select user_id, m, row_number() over (partition by user_id) as k from (select user_id, (user_id, query) in (select user_id, page from clicks) as m from log) x) y where m and k = 1",
        "the unit in, or": "select user_id, query from log where user_id in (select user_id from clicks) or n = 1",
        "distinct marks": "select user_id, count(*)::varchar as query from (\n            select distinct user_id, (user_id, nullif(query, 'a')) in (select user_id, nullif(page, 'a') from clicks) as m from log\n        ) group by user_id",
        "a mark told apart by the key": "select user_id, query from log l where user_id not in (select user_id from clicks c where c.page = l.query)",
        "a mark of all rows of the key": "select user_id, query from log l where user_id <> all (select user_id from clicks c where c.page = l.query)",
    },
    "GROUP BY|is no source": {
        "a query in a range": "select user_id, query || i as query from log, range((select count(*) from clicks)) r(i)",
    },
    "may not look": {
        "one of several rows": "select user_id, (select page from clicks c where c.user_id = l.user_id) as query from log l",
        "a lateral query over the key": "select l.user_id, x.m as query from log l, lateral (select max(page) m from clicks c where c.page = l.query) x",
        "another's rows under the unit's name": "select x.user_id, x.query from clicks a, lateral (select a.user_id, b.query from log b) x",
        "groups by an outer unit": "select x.user_id, x.m as query from clicks a, lateral (select a.user_id, max(b.query) as m from log b group by a.user_id) x",
    },
    "number|not in": {
        "an array as it comes": "select user_id, array(select page from clicks c where c.user_id = l.user_id)[1] as query from log l",
    },
    "public rows": {
        "a union with a constant unit": "select user_id, query from log union all select 1, 'x'",
    },
    "one place": {
        "a union in another order": "select user_id, query from log union all select n, query from log_b",
        "a union of swapped columns": "select query, user_id from log union select user_id, page from clicks",
    },
    "EXCEPT and INTERSECT": {
        "except without the unit": "select l.user_id, q.query from log l join (select query from log except select page from clicks) q using (query)",
        "public except private": "select l.user_id, l.query from log l join (select country from areas except select country from log_b) a using (country)",
        "intersect without the unit": "select l.user_id, q.query from log l join (select query from log intersect select page from clicks) q using (query)",
    },
    "must be the column": {
        "a unit split": "select user_id || query as user_id, query from log",
        "a unit replaced": "select * replace (n as user_id) from log",
        "a public unit": "select a.user_id, query from log join areas a using (country)",
        "a nullable unit": "select c.user_id, l.query from log l left join clicks c using (user_id)",
        "a column that could be the unit": "select n as user_id, query from log_b",
    },
    "one column": {
        "a unit left out": "select * exclude (user_id) from log",
        "a unit twice": "select user_id, n as user_id, query from log",
        "another case twice": "select user_id as USER_ID, n as user_id, query from log",
        "no unit": "select query from log",
    },
    "no private table": {
        "only public tables": "select user_id, region as query from areas",
    },
    "PIVOT": {
        "a pivot over all": "select * from (pivot log on country in ('DE', 'FR') using count(*))",
        "a column renamed to the unit": "select user_id, query from (select * rename (n as user_id) from (unpivot (select n, user_id, query, country from log) on query, country into name k value query)) x",
    },
    "recursion": {
        "a recursion that loses the unit": "with recursive r as (select user_id, ts, query from log union select l.user_id, l.ts, r.query from r join log l on l.ts = r.ts) select user_id, query from r",
        "a recursion that gathers": "with recursive r as (select user_id, n from log union select max(user_id), 1 from r where n > 1) select user_id, n::varchar as query from r",
        "marks of a recursion": "with recursive r as (select user_id, true as m from log union\n        select l.user_id, (l.user_id, nullif(l.query, 'a')) in (select user_id, nullif(page, 'a') from clicks) from log l join r on r.user_id = l.user_id)\n        select user_id, count(*)::varchar as query from r group by user_id",
        "a mark that a recursion passes on": "with recursive r as (select user_id, query, true as m, 0 as k from log union all\n        select r.user_id, r.query, (r.user_id, nullif(r.query, 'a')) in (select user_id, nullif(page, 'a') from clicks), k + 1 from r where k < 2 and m is not null)\n        select user_id, query from r",
    },
    "guesses": {
        "guessed csv": "select user_id, query from read_csv('log.csv')",
        "guessed csv as a table": "select user_id, query from 'log.csv'",
        "guessed types": "select user_id, query from read_csv('log.csv', auto_detect = true, header = true)",
        "guessed json": "select user_id, query from read_json('log.json')",
    },
    "ignore_errors": {
        "csv with errors left out": "select user_id, query from read_csv('l.csv', auto_detect = false, ignore_errors = true, columns = {'user_id': 'INT', 'query': 'VARCHAR'})",
    },
    "with skip": {
        "csv with rows skipped": "select user_id, query from read_csv('l.csv', auto_detect = false, skip = 3, columns = {'user_id': 'INT', 'query': 'VARCHAR'})",
    },
    "union_by_name": {
        "parquet by names": "select user_id, query from read_parquet('l/*.parquet', union_by_name = true)",
    },
    "folders": {
        "folders by a pattern": "select user_id, day as query from read_parquet('log/*/*.parquet')",
    },
    "is no source": {
        "names of files": "select file as user_id, 'x' as query from glob('*')",
    },
    "is no table": {
        "a view that counts": "select user_id, n::varchar as query from totals",
        "a view by a longer name": "select user_id, n::varchar as query from main.totals",
        "a guessed file without quotes": "select user_id, query from log.csv",
    },
    "DESCRIBE": {
        "describe": "describe log",
        "summarize": "summarize log",
    },
    "one SELECT": {
        "two statements": "select user_id, query from log; select 1",
        "no select": "delete from log",
    },
    "DuckDB's own": {
        "numbers by the name DuckDB gives": 'with "__duckdb_delim_1" as materialized (select user_id, query, row_number() over () as k from log),\n        "__duckdb_delim_2" as materialized (select user_id, row_number() over () as k from clicks)\n        select user_id, \'x\' as query from (select user_id, k from "__duckdb_delim_1" intersect select user_id, k from "__duckdb_delim_2")',
        "numbers by a name of DuckDB's, computed twice": 'with "__duckdb_delim_1" as not materialized (select user_id, query, row_number() over () as k from log)\n        select a.user_id, b.query from "__duckdb_delim_1" a join "__duckdb_delim_1" b on a.k = b.k and a.user_id = b.user_id',
    },
    "instead of its number": {
        "a column by its number": "select user_id, query from (select #4, l.user_id, l.query from areas a, log l) x",
    },
    "collation": {
        "rows alike by a collation": "select distinct user_id, q collate nocase as query from (select user_id, case when n > 1 then upper(query) else query end as q from log)",
    },
    "equal but not alike": {
        "a list of floating-point numbers in FROM": "select l.user_id, t.x::varchar as query from log l, unnest([l.w]) t(x)",
    },
}
BAD = {name: (query, reason) for reason, queries in BAD_BY_REASON.items() for name, query in queries.items()}
