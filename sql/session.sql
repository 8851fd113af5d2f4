-- What a session of SQL asks of its own DuckDB.


-- name: session_create_schema
-- The schema that holds the releases of a series.
-- in:  identifier series_name
create schema if not exists memory.series_name;


-- name: session_create_release
-- A release as a table of a session, in place of the one of that name.
-- in:  table release_arriving, identifiers series_name and release_name
create or replace table memory.series_name.release_name as
select * from release_arriving;


-- name: session_drop_schema
-- Forget the releases of a series that was dropped.
-- in:  identifier series_name
drop schema if exists memory.series_name cascade;


-- name: session_has_table
-- Whether a session has a table or view of a name.
-- in:  $schema, $name
-- out: one row if it has, none otherwise
select table_name
from information_schema.tables
where table_catalog = 'memory' and table_schema = $schema and table_name = $name
limit 1;


-- name: session_view
-- The number of a frame that was handed over, which another view of its name does not have.
-- in:  $name, in lower case
-- out: one row if it is there: view_oid
select view_oid
from duckdb_views()
where database_name = 'temp' and lower(view_name) = $name;


-- name: session_variables
-- Variables of a connection.
-- out: name
select name from duckdb_variables();
