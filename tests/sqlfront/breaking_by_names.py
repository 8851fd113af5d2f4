# ruff: noqa: E501, ISC004  a query is easier to read in one line, and stands in a tuple with its reason
"""Queries that break the guarantee where a name, a place or a part of a query means another thing than it seems."""

from __future__ import annotations

# name: query, words of the reason
BREAKING_BY_NAMES = {
    "a count of all as a limit": (
        "with top as (select country from areas order by weight limit (select count(*) // 4 from log_b)) "
        "select user_id, query from log semi join top using (country)",
        "all units",
    ),
    "a count of all as an offset": (
        "with top as (select country from areas order by weight limit 1 offset (select count(*) // 4 from log_b)) "
        "select user_id, query from log semi join top using (country)",
        "all units",
    ),
    "a part of a column that has the name of a table": (
        "select l.user_id, l.query from log l where exists (select 1 from "
        "(select c.user_id as u, unnest([{'user_id': c.user_id}]) as l from clicks c) x where x.u = l.user_id)",
        "all units",
    ),
    "a letter that is another to DuckDB": (
        'select a.user_id, a.query from log a where exists (select 1 from (select user_id as "uſer_id", page from clicks) c '
        "where user_id = a.user_id and page = 'a')",
        "all units",
    ),
    "a table that differs in a letter": (
        'with "ä" as (select user_id, query from log), "Ä" as (select user_id, query from log limit 3) '
        'select user_id, query from "Ä"',
        "LIMIT",
    ),
    "a name DuckDB makes": (
        'select l.u as user_id, l.query from (select user_id as u, user_id as "abs(user_id)", query from log) l '
        'where exists (select 1 from (select user_id, abs(user_id) from clicks) x where x.user_id = "abs(user_id)")',
        "all units",
    ),
    "a name DuckDB makes for a second column": (
        "select l.user_id_1 as user_id, l.query from (select user_id as user_id_1, query from log) l where exists "
        "(select 1 from (select c.user_id, c.user_id from clicks c) x where x.user_id = user_id_1)",
        "all units",
    ),
    "a column by its number": (
        "select user_id, query from (select #4, l.user_id, l.query from areas a, log l) x",
        "unchanged",
    ),
    "row numbers joined": ("select a.user_id, a.query from log a join areas b using (rowid)", "rowid"),
    "a join unpivoted": (
        "select c.user_id, c.page as query from clicks c where exists "
        "(select 1 from (areas cross join (select n from log where query = 'a')) unpivot (v for k in (region)))",
        "all units",
    ),
    "a column renamed to the unit": (
        "select user_id, query from (select * rename (n as user_id) from "
        "(unpivot (select n, user_id, query, country from log) on query, country into name k value query)) x",
        "unchanged",
    ),
    "order by a part of a struct of the name of a column": (
        "select user_id, query from (select user_id, query, ts, {'query': 1} as s from log) "
        "qualify row_number() over (partition by user_id order by ts, s.query) = 1",
        "tie",
    ),
    "rows alike by a collation": (
        "select distinct user_id, q collate nocase as query "
        "from (select user_id, case when n > 1 then upper(query) else query end as q from log)",
        "collation",
    ),
    "a guessed file without quotes": ("select user_id, query from log.csv", "reads files or a frame"),
}
