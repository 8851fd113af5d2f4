-- Statements of DuckDB that check a query, on connections without data of the user.


-- name: guarantee_tree
-- The parse tree of a query; the query is not run.
-- in:  $query, one SELECT statement
-- out: one row, tree (JSON): {"error": false, "statements": [{"node": …}]} or {"error": true, "error_message": …}
select json_serialize_sql($query::varchar, skip_null := true, skip_empty := true, skip_default := true) as tree;


-- name: guarantee_text
-- The SQL text of a parse tree.
-- in:  $tree, JSON as guarantee_tree returns it
-- out: one row, query
select json_deserialize_sql($tree::json) as query;


-- name: guarantee_plan
-- The plan of a query after the optimizers that are not disabled; the query is not run.
-- in:  $query, one SELECT statement
-- out: one row, plan (JSON): {"error": false, "plans": [{"type": …}]} or {"error": true, "error_message": …}
select
    json_serialize_plan(
        $query::varchar, skip_null := true, skip_empty := true, skip_default := false, optimize := true
    ) as plan;


-- name: guarantee_files
-- The files that match a path or a pattern.
-- in:  $path
-- out: file
select file
from glob($path)
order by file;


-- name: guarantee_settings
-- The settings that change what a query means.
-- out: name, value
select
    name,
    value
from duckdb_settings()
where name in ('TimeZone', 'default_null_order', 'default_order', 'default_collation', 'integer_division',
    'scalar_subquery_error_on_multiple_rows', 'ieee_floating_point_ops', 'old_implicit_casting', 'Calendar')
order by name;


-- name: guarantee_lock
-- Lock a connection for good: no files except allowed ones, no network and no extensions.
set enable_external_access = false;
set lock_configuration = true;
