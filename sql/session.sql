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


-- name: session_keywords
-- DuckDB's keywords.
-- out: keyword_name
select keyword_name
from duckdb_keywords()
where keyword_category <> 'unreserved'
order by keyword_name;


-- name: session_names
-- Names a session knows: its tables, views and their columns.
-- out: name
select table_name as name
from information_schema.tables
union
select column_name as name
from information_schema.columns
order by name;


-- name: session_tables
-- Tables and views a session made or was handed, releases among them.
-- out: name, with the schema where it is another one than main; kind
select
    case when table_schema = 'main' then table_name else table_schema || '.' || table_name end as name,
    case when table_type = 'VIEW' then 'view' else 'table' end as kind
from information_schema.tables
order by name;


-- name: session_table
-- The numbers of a table, which stay its own when it is renamed or hidden.
-- in:  $database, $schema, $name of a table
-- out: one row if it is there: database_oid, table_oid, path of the database's file
select
    tables.database_oid,
    tables.table_oid,
    databases.path
from duckdb_tables() as tables
inner join duckdb_databases() as databases using (database_oid)
where tables.database_name = $database and tables.schema_name = $schema and tables.table_name = $name;


-- name: session_numbers
-- The numbers of all tables.
-- out: database_oid, table_oid, table_name, path of the database's file
select
    tables.database_oid,
    tables.table_oid,
    tables.table_name,
    databases.path
from duckdb_tables() as tables
inner join duckdb_databases() as databases using (database_oid);


-- name: session_home
-- The directory that ~ stands for in a path; empty for the system's.
-- out: one row: home
select current_setting('home_directory') as home;


-- name: session_files
-- The files that a path or a pattern means.
-- in:  $path
-- out: file
select file
from glob($path);
