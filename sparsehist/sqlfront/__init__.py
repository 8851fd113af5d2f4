"""The SQL interface of a store: scripts and sessions with statements of the package and of DuckDB."""
