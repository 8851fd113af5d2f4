# ruff: noqa: E501, ISC004  a query is easier to read in one line, and stands in a tuple with its reason
"""Queries that break the guarantee, with words of the reason; the tables are those of `harmless_queries`."""

from __future__ import annotations

from tests.sqlfront.breaking_by_names import BREAKING_BY_NAMES

# name: query, words of the reason
BAD = {
    "limit": ("select user_id, query from log limit 2", "LIMIT"),
    "offset": ("select user_id, query from log offset 2", "LIMIT"),
    "limit and order": ("select user_id, query from log order by ts limit 2", "LIMIT"),
    "limit in percent": ("select user_id, query from log limit 50%", "LIMIT"),
    "limit inside": ("select user_id, query from (select * from log order by ts limit 2)", "LIMIT"),
    "limit in a common table expression": ("with c as (from log limit 2) select user_id, query from c", "LIMIT"),
    "limit for the unit": (
        "select user_id, (select page from clicks c where c.user_id = l.user_id order by ts limit 1) as query from log l",
        "tie",
    ),
    "fetch": ("select user_id, query from log fetch first 2 rows only", "LIMIT"),
    "sample": ("select user_id, query from log using sample 50%", "sample"),
    "tablesample": ("select user_id, query from log tablesample reservoir(2 rows)", "sample"),
    "sample of public": (
        "select log.user_id, query from log join (from areas using sample 2) using (country)",
        "sample",
    ),
    "limit of public, no order": (
        "with t as (select country from areas limit 2) select user_id, query from log semi join t using (country)",
        "ORDER BY",
    ),
    "random": ("select user_id, query from log where random() < 0.5", "random"),
    "uuid": ("select user_id, uuid()::varchar as query from log", "uuid"),
    "random by another name": ("select user_id, gen_random_uuid()::varchar as query from log", "random"),
    "nextval": ("select user_id, nextval('s')::varchar as query from log", "nextval"),
    "setseed": ("select user_id, query from log where setseed(0.5) is null", "setseed"),
    "settings": ("select user_id, current_setting('threads') as query from log", "current_setting"),
    "statistics": ("select user_id, stats(query) as query from log", "stats"),
    "rowid": ("select user_id, rowid as query from log", "rowid"),
    "file row numbers": (
        "select user_id, file_row_number as query from read_parquet('l.parquet')",
        "file_row_number",
    ),
    "file row number option": (
        "select user_id, query from read_parquet('l.parquet', file_row_number = true)",
        "file_row_number",
    ),
    "a macro over a builtin": ("select user_id, shout(query) as query from log", "GROUP BY"),
    "distinct on": ("select distinct on (user_id) user_id, query from log order by ts", "DISTINCT ON"),
    "distinct on the key": ("select distinct on (query) user_id, query from log", "DISTINCT ON"),
    "distinct without the unit": (
        "select l.user_id, q.query from log l join (select distinct page as query from clicks) q using (query)",
        "DISTINCT",
    ),
    "an aggregate of all": ("select max(user_id) as user_id, query from log group by query", "GROUP BY"),
    "a count of all": ("select count(*) as user_id, 'x' as query from log", "GROUP BY"),
    "group by the key": ("select query, count(*) as user_id from log group by all", "GROUP BY"),
    "having over all": (
        "select l.user_id, l.query from log l "
        "join (select query from log group by query having count(*) > 2) q using (query)",
        "GROUP BY",
    ),
    "rollup": ("select user_id, query from log group by rollup (user_id, query)", "GROUP BY"),
    "cube": ("select user_id, query from log group by cube (user_id, query)", "GROUP BY"),
    "a grouping set without": (
        "select user_id, query from log group by grouping sets ((user_id, query), (query))",
        "GROUP BY",
    ),
    "a function of the unit as group": (
        "select user_id % 2 as user_id, max(query) as query from log group by user_id % 2",
        "GROUP BY",
    ),
    "a window over all": ("select user_id, query from log qualify count(*) over () > 5", "partition by"),
    "a window over the key": (
        "select user_id, query from log qualify count(*) over (partition by query) > 1",
        "partition by",
    ),
    "row numbers over all": (
        "select user_id, query || (row_number() over (order by ts, query, user_id))::varchar as query from log",
        "partition by",
    ),
    "a named window over all": (
        "select user_id, query from log window w as (order by ts) qualify sum(n::int) over w > 2",
        "partition by",
    ),
    "lag over all": ("select user_id, lag(query) over (order by ts, query) as query from log", "partition by"),
    "row numbers with ties": (
        "select user_id, query from log qualify row_number() over (partition by user_id order by ts) <= 1",
        "tie",
    ),
    "row numbers of all columns": (
        "select * from log qualify row_number() over (partition by user_id order by ts) = 1",
        "tie|name them",
    ),
    "row numbers without order": (
        "select user_id, query from log qualify row_number() over (partition by user_id) <= 1",
        "tie",
    ),
    "first value with ties": (
        "select user_id, first_value(query) over (partition by user_id order by ts) as query from log",
        "tie",
    ),
    "a frame of rows with ties": (
        "select user_id, max(query) over (partition by user_id order by ts rows 1 preceding) as query from log",
        "tie",
    ),
    "two orders": (
        """select user_id, query, row_number() over (partition by user_id order by ts, query) as a,
        row_number() over (partition by user_id order by query, ts) as b from log""",
        "two windows",
    ),
    "first": ("select user_id, first(query) as query from log group by user_id", "order"),
    "first with ties": ("select user_id, first(query order by ts) as query from log group by user_id", "order"),
    "any value": ("select user_id, any_value(query) as query from log group by user_id", "order"),
    "a list as it comes": ("select user_id, list(query)[1] as query from log group by user_id", "order"),
    "a text as it comes": ("select user_id, string_agg(query, ',') as query from log group by user_id", "order"),
    "arg_max": ("select user_id, arg_max(query, ts) as query from log group by user_id", "order"),
    "mode": ("select user_id, mode(query) as query from log group by user_id", "order"),
    "a floating-point sum": ("select user_id, sum(w)::varchar as query from log group by user_id", "floating"),
    "a deviation": ("select user_id, stddev(w)::varchar as query from log group by user_id", "order"),
    "a random quantile": (
        "select user_id, reservoir_quantile(n, 0.5)::varchar as query from log group by user_id",
        "random",
    ),
    "self join on the key": (
        "select a.user_id, b.query from log a join log b on a.query = b.query",
        "different units",
    ),
    "a cross join": ("select a.user_id, b.query from log a, log b", "different units"),
    "a private join on time": (
        "select l.user_id, page as query from log l join clicks c on c.ts between l.ts - interval 1 day and l.ts",
        "different units",
    ),
    "equal or not": (
        "select a.user_id, b.query from log a join log b on a.user_id = b.user_id or a.query = b.query",
        "different units",
    ),
    "unequal units": ("select a.user_id, b.query from log a join log b on a.user_id <> b.user_id", "different units"),
    "units equal but for a function": (
        "select a.user_id, b.query from log a join log b on a.user_id % 2 = b.user_id % 2",
        "different units",
    ),
    "a private join using another column": (
        "select log.user_id, page as query from log join clicks using (ts)",
        "different units",
    ),
    "the unit with another column": (
        "select l.user_id, c.page as query from log l join clicks c on l.user_id = c.user_ref",
        "different units",
    ),
    "two of three": (
        "select a.user_id, c.page as query from log a join log_b b using (user_id) join clicks c on c.ts = b.ts",
        "different units",
    ),
    "a private left join on time": (
        "select l.user_id, query from log l left join clicks c on c.ts = l.ts",
        "partner",
    ),
    "public kept beside private": (
        "select coalesce(l.user_id, 0) as user_id, region as query from areas a left join log l using (country)",
        "partner",
    ),
    "public kept on the right": (
        "select l.user_id, region as query from log l right join areas a using (country)",
        "partner",
    ),
    "public kept in full": (
        "select l.user_id, region as query from log l full join areas a using (country)",
        "partner",
    ),
    "equalities among the kept": (
        "select a.user_id, b.query from log a cross join log b "
        "left join clicks c on c.user_id = a.user_id and a.user_id = b.user_id",
        "different units",
    ),
    "a partner that makes two equal": (
        "select a.user_id, b.query from log a cross join log b "
        "left join clicks c on c.user_id = a.user_id and c.user_id = b.user_id",
        "different units",
    ),
    "a private anti join on time": ("select user_id, query from log anti join clicks using (ts)", "partner"),
    "a private semi join on the key": (
        "select user_id, query from log semi join clicks on query = page",
        "partner",
    ),
    "a positional join": (
        "select log.user_id, region as query from log positional join areas",
        "positional|where they",
    ),
    "an asof join of rows that tie": (
        "select l.user_id, page as query from log l asof join clicks c on l.user_id = c.user_id and l.ts >= c.ts",
        "tie",
    ),
    "a count of all as condition": (
        "select user_id, query from log where (select count(*) from clicks) > 2",
        "all units",
    ),
    "exists for all": (
        "select user_id, query from log where exists (select 1 from clicks where page = 'a')",
        "all units",
    ),
    "exists for the key": (
        "select user_id, query from log l where exists (select 1 from clicks c where c.page = l.query)",
        "all units",
    ),
    "exists for a name of one's own": (
        "select user_id, query from log where exists (select 1 from clicks c where user_id = c.user_id)",
        "all units",
    ),
    "exists for an alias": (
        "select u as user_id, query from (select user_id as u, query from log) l "
        "where exists (select c.user_id + 0 as u from clicks c where u = c.user_id)",
        "all units",
    ),
    "the key in": ("select user_id, query from log where query in (select page from clicks)", "all units"),
    "the key not in": ("select user_id, query from log where query not in (select page from clicks)", "all units"),
    "the unit not in": (
        "select user_id, query from log where user_id not in (select user_id from clicks)",
        "all units",
    ),
    "the unit in, as a value": (
        "select user_id, coalesce((user_id in (select user_id from clicks))::varchar, '-') as query from log",
        "all units",
    ),
    "the unit in, or": (
        "select user_id, query from log where user_id in (select user_id from clicks) or n = 1",
        "all units",
    ),
    "another column in": (
        "select user_id, query from log where user_id in (select user_ref from clicks)",
        "all units",
    ),
    "a deviation from the mean": (
        "select user_id, query from log where n >= (select max(n) from log)",
        "all units",
    ),
    "any": ("select user_id, query from log where n > any (select n from log_b)", "all units"),
    "a query in order by": ("select user_id, query from log order by (select count(*) from clicks)", "all units"),
    "a query in values": (
        "select user_id, query from log join (values ((select max(n) from log_b))) v(n) using (n)",
        "all units",
    ),
    "a query in a range": (
        "select user_id, query || i as query from log, range((select count(*) from clicks)) r(i)",
        "all units",
    ),
    "one of several rows": (
        "select user_id, (select page from clicks c where c.user_id = l.user_id) as query from log l",
        "which row",
    ),
    "an array as it comes": (
        "select user_id, array(select page from clicks c where c.user_id = l.user_id)[1] as query from log l",
        "order",
    ),
    "a lateral query over the key": (
        "select l.user_id, x.m as query from log l, lateral (select max(page) m from clicks c where c.page = l.query) x",
        "GROUP BY",
    ),
    "another's rows under the unit's name": (
        "select x.user_id, x.query from clicks a, lateral (select a.user_id, b.query from log b) x",
        "different units",
    ),
    "groups by an outer unit": (
        "select x.user_id, x.m as query from clicks a, "
        "lateral (select a.user_id, max(b.query) as m from log b group by a.user_id) x",
        "different units",
    ),
    "a union with public rows": (
        "select user_id, query from log union all select user_id, region from areas",
        "public",
    ),
    "a union with a constant unit": ("select user_id, query from log union all select 1, 'x'", "public"),
    "a union in another order": (
        "select user_id, query from log union all select n, query from log_b",
        "one place",
    ),
    "a union of swapped columns": (
        "select query, user_id from log union select user_id, page from clicks",
        "one place",
    ),
    "except without the unit": (
        "select l.user_id, q.query from log l join (select query from log except select page from clicks) q "
        "using (query)",
        "across units",
    ),
    "public except private": (
        "select l.user_id, l.query from log l join (select country from areas except select country from log_b) a "
        "using (country)",
        "all units",
    ),
    "intersect without the unit": (
        "select l.user_id, q.query from log l join (select query from log intersect select page from clicks) q "
        "using (query)",
        "across units",
    ),
    "a unit made lower": ("select user_id // 2 as user_id, query from log", "unchanged"),
    "a unit split": ("select user_id || query as user_id, query from log", "unchanged"),
    "another column as unit": ("select n as user_id, query from log", "unchanged"),
    "a unit replaced": ("select * replace (n as user_id) from log", "unchanged"),
    "a unit left out": ("select * exclude (user_id) from log", "one column"),
    "a public unit": ("select a.user_id, query from log join areas a using (country)", "unchanged"),
    "a nullable unit": (
        "select c.user_id, l.query from log l left join clicks c using (user_id)",
        "unchanged",
    ),
    "a unit twice": ("select user_id, n as user_id, query from log", "one column"),
    "another case twice": ("select user_id as USER_ID, n as user_id, query from log", "one column"),
    "no unit": ("select query from log", "one column"),
    "only public tables": ("select user_id, region as query from areas", "no private table"),
    "a pivot over all": ("select * from (pivot log on country in ('DE', 'FR') using count(*))", "GROUP BY"),
    "a recursion that loses the unit": (
        "with recursive r as (select user_id, ts, query from log union "
        "select l.user_id, l.ts, r.query from r join log l on l.ts = r.ts) select user_id, query from r",
        "different units",
    ),
    "a recursion that gathers": (
        "with recursive r as (select user_id, n from log union "
        "select max(user_id), 1 from r where n > 1) select user_id, n::varchar as query from r",
        "GROUP BY",
    ),
    "guessed csv": ("select user_id, query from read_csv('log.csv')", "guesses"),
    "guessed csv as a table": ("select user_id, query from 'log.csv'", "guessed"),
    "guessed types": (
        "select user_id, query from read_csv('log.csv', auto_detect = true, header = true)",
        "guesses",
    ),
    "csv with errors left out": (
        "select user_id, query from read_csv('l.csv', auto_detect = false, ignore_errors = true, "
        "columns = {'user_id': 'INT', 'query': 'VARCHAR'})",
        "ignore_errors",
    ),
    "csv with rows skipped": (
        "select user_id, query from read_csv('l.csv', auto_detect = false, skip = 3, "
        "columns = {'user_id': 'INT', 'query': 'VARCHAR'})",
        "skip",
    ),
    "guessed json": ("select user_id, query from read_json('log.json')", "guesses"),
    "parquet by names": (
        "select user_id, query from read_parquet('l/*.parquet', union_by_name = true)",
        "union_by_name",
    ),
    "folders by a pattern": ("select user_id, day as query from read_parquet('log/*/*.parquet')", "folders"),
    "names of files": ("select file as user_id, 'x' as query from glob('*')", "glob"),
    "a query in a text": ("select user_id, query from query('select * from log limit 2')", "LIMIT"),
    "tables of the catalogue": ("select user_id, table_name as query from log, duckdb_tables()", "duckdb_tables"),
    "a view that counts": ("select user_id, n::varchar as query from totals", "partition by"),
    "a view by a longer name": ("select user_id, n::varchar as query from main.totals", "partition by"),
    "describe": ("describe log", "one column"),
    "summarize": ("summarize log", "one column"),
    "two statements": ("select user_id, query from log; select 1", "more than one"),
    "no select": ("delete from log", "one SELECT"),
    "a column by number of all": ("select query, max(user_id) as user_id from log group by 1", "GROUP BY"),
    "values of some rows": (
        "with c as materialized (select user_id, query, n from log), v as (select query from c where n = 1 group by query) select c.user_id, c.query from c join v on c.query = v.query",
        "GROUP BY",
    ),
    "values of no row": (
        "with c as materialized (select user_id, query, n from log), v as (select query from c where n = 1 group by query) select c.user_id, c.query from c anti join v on c.query = v.query",
        "GROUP BY",
    ),
    "values as units": (
        "with c as materialized (select user_id, query from log) select query as user_id, query from c group by query",
        "rows of none",
    ),
    "numbers by the name DuckDB gives": (
        """with "__duckdb_delim_1" as materialized (select user_id, query, row_number() over () as k from log),
        "__duckdb_delim_2" as materialized (select user_id, row_number() over () as k from clicks)
        select user_id, 'x' as query from (select user_id, k from "__duckdb_delim_1" intersect select user_id, k from "__duckdb_delim_2")""",
        "DuckDB's own",
    ),
    "distinct marks": (
        """select user_id, count(*)::varchar as query from (
            select distinct user_id, (user_id, nullif(query, 'a')) in (select user_id, nullif(page, 'a') from clicks) as m from log
        ) group by user_id""",
        "false or null",
    ),
    "marks of a recursion": (
        """with recursive r as (select user_id, true as m from log union
        select l.user_id, (l.user_id, nullif(l.query, 'a')) in (select user_id, nullif(page, 'a') from clicks) from log l join r on r.user_id = l.user_id)
        select user_id, count(*)::varchar as query from r group by user_id""",
        "false or null",
    ),
    "values passed off as units": (
        "with c as materialized (select user_id, query from log), v as (select query from c group by query) select v.query as user_id, c.query from c join v on c.query = v.query",
        "must be the column user_id",
    ),
    "a mark told apart by the key": (
        "select user_id, query from log l where user_id not in (select user_id from clicks c where c.page = l.query)",
        "false or null",
    ),
    "a mark of all rows of the key": (
        "select user_id, query from log l where user_id <> all (select user_id from clicks c where c.page = l.query)",
        "false or null",
    ),
    "a mark that a recursion passes on": (
        """with recursive r as (select user_id, query, true as m, 0 as k from log union all
        select r.user_id, r.query, (r.user_id, nullif(r.query, 'a')) in (select user_id, nullif(page, 'a') from clicks), k + 1 from r where k < 2 and m is not null)
        select user_id, query from r""",
        "false or null",
    ),
    "numbers by a name of DuckDB's, computed twice": (
        """with "__duckdb_delim_1" as not materialized (select user_id, query, row_number() over () as k from log)
        select a.user_id, b.query from "__duckdb_delim_1" a join "__duckdb_delim_1" b on a.k = b.k and a.user_id = b.user_id""",
        "DuckDB's own",
    ),
    **BREAKING_BY_NAMES,
}
