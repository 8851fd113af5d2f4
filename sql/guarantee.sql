-- What the check of a query asks DuckDB: its own reading of the query, its plan, and what the catalogue holds.


-- name: guarantee_tree
-- The tree of a query as DuckDB itself reads it; nothing of it is run.
-- in:  $query, one SELECT statement
-- out: one row, tree (JSON): {"error": false, "statements": [{"node": …}]} or {"error": true, "error_message": …}
select json_serialize_sql($query, skip_null := true, skip_empty := true, skip_default := false) as tree;


-- name: guarantee_text
-- A tree written as SQL again.
-- in:  $tree, JSON as guarantee_tree makes it
-- out: one row, query
select json_deserialize_sql($tree::json) as query;


-- name: guarantee_plan
-- The plan DuckDB's binder makes of a query, before it is optimized; nothing of it is run.
-- in:  $query, one SELECT statement
-- out: one row, plan (JSON): {"error": false, "plans": [{"type": …}]} or {"error": true, "error_message": …}
select json_serialize_plan($query, skip_null := true, skip_empty := true, skip_default := false, optimize := false) as plan;


-- name: guarantee_value
-- A value that is bound, as text, and its type.
-- in:  $value
-- out: one row: written, kind
select $value::varchar as written, typeof($value) as kind;


-- name: guarantee_functions
-- The functions DuckDB brings along, and whether one depends on its arguments alone.
-- out: name, type (scalar, aggregate, macro, …), consistent
select
    function_name as name,
    function_type as type,
    bool_and(coalesce(stability = 'CONSISTENT' and not has_side_effects, false)) as consistent
from duckdb_functions()
where internal
group by all
order by all;


-- name: guarantee_macros
-- Macros and what they are written as.
-- out: function_name, macro_definition
select
    function_name,
    macro_definition
from duckdb_functions()
where not internal and macro_definition is not null;


-- name: guarantee_views
-- Views of all databases, frames that were registered among them.
-- out: database_name, schema_name, view_name, sql, usual (whether names in it are looked up where a query's are)
select
    database_name,
    schema_name,
    view_name,
    sql,
    database_name = 'temp' or (database_name = current_database() and schema_name = current_schema()) as usual
from duckdb_views()
where not internal;


-- name: guarantee_named
-- Tables and views of one name, whatever their database and schema.
-- in:  $name, in lower case
-- out: one row each
select database_name from duckdb_tables() where lower(table_name) = $name
union all
select database_name from duckdb_views() where lower(view_name) = $name and not internal;


-- name: guarantee_variables
-- Variables of a connection.
-- out: name
select name from duckdb_variables();


-- name: guarantee_hidden
-- Whether there is what a plan shows the value of alone: variables, and ENUMs, whose values a function of types tells.
-- out: one row: variables, enums (booleans)
select
    exists(select 1 from duckdb_variables()) as variables,
    exists(select 1 from duckdb_types() where logical_type = 'ENUM' and not internal)
    or exists(select 1 from duckdb_columns() where data_type like '%ENUM(%') as enums;


-- name: guarantee_settings
-- Settings that say what a query means: whether several rows of a query in parentheses are an error, which texts are alike.
-- out: one row: one_row, collation
select
    current_setting('scalar_subquery_error_on_multiple_rows') as one_row,
    current_setting('default_collation') as collation;


