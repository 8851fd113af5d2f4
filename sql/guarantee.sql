-- What the check of a query asks DuckDB, on connections that hold nothing of the user's.


-- name: guarantee_tree
-- The parse tree of a query; nothing of it is run.
-- in:  $query, one SELECT statement
-- out: one row, tree (JSON): {"error": false, "statements": [{"node": …}]} or {"error": true, "error_message": …}
select json_serialize_sql($query::varchar, skip_null := true, skip_empty := true, skip_default := true) as tree;


-- name: guarantee_text
-- A tree written as SQL again.
-- in:  $tree, JSON as guarantee_tree makes it
-- out: one row, query
select json_deserialize_sql($tree::json) as query;


-- name: guarantee_plan
-- The plan DuckDB's binder makes of a query, before it is optimized; nothing of it is run.
-- in:  $query, one SELECT statement
-- out: one row, plan (JSON): {"error": false, "plans": [{"type": …}]} or {"error": true, "error_message": …}
select
    json_serialize_plan(
        $query::varchar, skip_null := true, skip_empty := true, skip_default := false, optimize := false
    ) as plan;


-- name: guarantee_value
-- A value that is bound, as text, and its type.
-- in:  $value
-- out: one row: written, kind
select
    $value::varchar as written,
    typeof($value) as kind;


-- name: guarantee_files
-- The files that a path or a pattern means.
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
-- Shut a connection: no files but those allowed, no network, no extensions, and no way back.
set enable_external_access = false;
set lock_configuration = true;
