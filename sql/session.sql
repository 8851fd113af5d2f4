-- What sessions of SQL ask of their own DuckDB.


-- name: session_view
-- The number of a frame that was handed over, which another view of its name does not have.
-- in:  $name, in lower case
-- out: one row if it is there: view_oid
select view_oid
from duckdb_views()
where database_name = 'temp' and lower(view_name) = $name;


-- name: analyst_lock
-- Shut a session in: no files, no network, no extensions, no Python variables, no spill, and no way back.
-- Run once all tables are there; from here on no setting can be changed.
set autoinstall_known_extensions = false;
set autoload_known_extensions = false;
set allow_community_extensions = false;
set allow_persistent_secrets = false;
set python_enable_replacements = false;
set enable_progress_bar = false;
set temp_directory = '';
set enable_external_access = false;
set lock_configuration = true;
