-- What an analyst's session runs before it is shut.


-- name: analyst_create_ledger
-- Make the public ledger a table.
-- in:  release_arriving, a registered frame
-- out: table ledger: store, series, release, level, noise, threshold, generation, round, digest
create table ledger as select * from release_arriving


-- name: analyst_memory_limit
-- The memory limit, as DuckDB writes it.
-- out: one row: text
select current_setting('memory_limit')


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


