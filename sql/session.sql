-- Statements that SQL sessions run on their own DuckDB.


-- name: session_view
-- DuckDB's id of the view of a frame; another view with its name has another id.
-- in:  $name, in lower case
-- out: one row, view_oid; none if there is no such view
select view_oid
from duckdb_views()
where database_name = 'temp' and lower(view_name) = $name;


-- name: analyst_lock
-- Lock a session for good: no files, no network, no extensions, no Python variables and no spilling.
-- Run it when all tables exist; after it, no setting can be changed.
set autoinstall_known_extensions = false;
set autoload_known_extensions = false;
set allow_community_extensions = false;
set allow_persistent_secrets = false;
set python_enable_replacements = false;
set enable_progress_bar = false;
set temp_directory = '';
set enable_external_access = false;
set lock_configuration = true;
